"""Molecules, and the official layouts of WILDS and OGB, at full size."""

from __future__ import annotations

import time

import torch
from verify.data import DATA, NO_DATA, own_folder, quiet
from verify.registry import Options, Result, check, passed, skipped

import eqrm
from data.wilds_layout import CAMERAS, write_iwildcam, write_ogb_molpcba
from eqrm.data.graphs import Graphs

MOLECULES = {"tox21": (8_006, 2_325), "hiv": (41_120, 19_082), "muv": (93_127, 42_595)}


@check("data.molecules", "Tox21, HIV and MUV by scaffold, all molecules read")
def molecules_by_scaffold(options: Options) -> Result:
    """Numbers of molecules and scaffolds; processor time with and without the cache.

    MUV as fingerprints, since drawing graphs takes half of the time and the others have them.
    """
    if not all((DATA / f"molecules/{name}.csv.gz").exists() for name in MOLECULES):
        return skipped(NO_DATA)
    lines, right = [], True
    with own_folder():
        for name, (molecules, scaffolds) in MOLECULES.items():
            inputs = "fingerprints" if name == "muv" else "graphs"
            with quiet() as said:
                start = time.process_time()
                data = eqrm.dataset(name, inputs=inputs)
                first = time.process_time() - start
                start = time.process_time()
                again = eqrm.dataset(name, inputs=inputs)
                second = time.process_time() - start
            right &= (len(data), data.num_domains) == (molecules, scaffolds)
            right &= again.names == data.names and len(again) == len(data)
            left_out = " ".join(str(said[0].message).split()[1:4]) if said else "none"
            lines.append(
                f"{name} {len(data):,} molecules, {data.num_domains:,} scaffolds, "
                f"{int((data.counts >= 10).sum())} with 10 or more, "
                f"{100 * float(data.y.isnan().float().mean()):.0f}% of labels missing, left out "
                f"{left_out}, {first:.0f} s, then {second:.1f} s"
            )
    return passed(right, "; ".join(lines))


@check(
    "data.official-layouts", "iWildCam and OGB-MolPCBA in the layout of their official downloads"
)
def official_layouts(options: Options) -> Result:
    """Small data in the published layout, every split."""
    from data.wilds_layout import MOLECULES as SMALL

    with own_folder() as folder:
        write_iwildcam(folder, images_per_camera=20)
        write_ogb_molpcba(folder)
        whole = eqrm.dataset("iwildcam", folder, size=32, resident="never")
        parts = whole.splits(test=["test"], validation=["val"])
        cameras = [part.num_domains for part in parts if part]
        wanted = [len(CAMERAS[name]) for name in ("train", "val", "test")]
        colours = whole.rows(torch.arange(len(whole))).x.float().mean((2, 3))
        traps = torch.tensor([int(name) for name in whole.names])[whole.domains]
        right_images = torch.equal((colours[:, 0] / 20).round().long(), traps)
        inside = [
            len(eqrm.dataset("iwildcam", folder, split=s, size=8)) for s in ("id_val", "id_test")
        ]
        molecules = eqrm.dataset("ogb-molpcba", folder).splits(test=["test"], validation=["val"])
        sizes = [len(part) for part in molecules if part]
    right = cameras == wanted and right_images and inside == [40, 20]
    right &= sizes == [len(SMALL[name]) for name in ("train", "valid", "test")]
    summary = f"iWildCam traps {cameras} of {wanted}, images right {right_images}; OGB {sizes}"
    return passed(right, summary)


@check("data.graphs", "gathering a batch of graphs is faster than with torch-geometric", alone=True)
def graphs_speed(options: Options) -> Result:
    """Batches of 1,024 molecules from 8,006: ours against Batch.from_data_list, in turns."""
    try:
        from torch_geometric.data import Batch, Data
    except ImportError:
        return skipped("torch-geometric is not installed")
    from timing import Budget, interleaved

    if not (DATA / "molecules/tox21.csv.gz").exists():
        return skipped(NO_DATA)
    with quiet():
        data = eqrm.dataset("tox21")
    batches = eqrm.data.DomainBatches(data, 256, 4)
    alone = [data.rows(torch.tensor([row])).x for row in range(len(data))]
    single = [Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in alone]
    rows = next(batches)
    times = interleaved(
        {
            "ours": lambda: data.rows(rows),
            "theirs": lambda: Batch.from_data_list([single[row] for row in rows.tolist()]),
        },
        Budget(rounds=15, burst=0.0, pause=0.0),
    )
    ratio = times["theirs"].median / times["ours"].median
    inner = data.x.inputs
    kind = type(inner).__name__ if isinstance(inner, Graphs) else "?"
    return passed(
        ratio > 1.0,
        f"{len(rows)} molecules ({kind}): {times['ours'].milliseconds:.1f} ms against "
        f"{times['theirs'].milliseconds:.1f} ms, {ratio:.1f} times as fast",
    )
