"""Molecules, and the official layouts of WILDS and OGB, at full size."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
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
    """Small data in the published layout, every split; and all of Tox21's molecules as OGB's."""
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
        compared = _tox21_through_ogb(folder / "large") if DATA.is_dir() else None
    right = cameras == wanted and right_images and inside == [40, 20]
    right &= sizes == [len(SMALL[name]) for name in ("train", "valid", "test")]
    right &= compared is None or compared[0] == compared[1]
    told = "" if compared is None else f"; {compared[0]:,} of {compared[1]:,} graphs of Tox21 equal"
    summary = (
        f"iWildCam traps {cameras} of {wanted}, images right {right_images}; OGB {sizes}{told}"
    )
    return passed(right, summary)


def _tox21_through_ogb(folder: Path) -> tuple[int, int]:
    """Write Tox21's graphs as OGB's files, read them back, count those that are the same."""
    import gzip

    with quiet():
        source = eqrm.dataset("tox21", acyclic="own-domains")
    graphs = source.rows(torch.arange(len(source))).x
    nodes = torch.bincount(graphs.batch)
    owner = graphs.batch[graphs.edge_index[0]]
    edges = torch.bincount(owner, minlength=len(nodes)) // 2
    starts = (nodes.cumsum(0) - nodes)[owner]
    raw = folder / "ogbg_molpcba" / "raw"
    raw.mkdir(parents=True)
    tables = {
        "num-node-list": nodes[:, None],
        "num-edge-list": edges[:, None],
        "node-feat": graphs.x,
        "edge": (graphs.edge_index - starts)[:, ::2].T,  # a bond is listed once
        "edge-feat": graphs.edge_attr[::2],
        "graph-label": source.y,
    }
    for name, table in tables.items():
        with gzip.open(raw / f"{name}.csv.gz", "wt", compresslevel=1) as file:
            np.savetxt(file, table.numpy(), fmt="%g", delimiter=",")
    np.save(raw / "scaffold_group.npy", source.domains.numpy())
    split = folder / "ogbg_molpcba" / "split" / "scaffold"
    split.mkdir(parents=True)
    share = source.domains / source.num_domains
    place = (share >= 0.8).long() + (share >= 0.9).long()
    for number, name in enumerate(("train", "valid", "test")):
        rows = torch.nonzero(place == number).numpy()
        with gzip.open(split / f"{name}.csv.gz", "wt") as file:
            np.savetxt(file, rows, fmt="%d")
    found = eqrm.dataset("ogb-molpcba", folder)
    rows = torch.cat([torch.nonzero(place == number).reshape(-1) for number in range(3)])
    same = 0
    for position, row in enumerate(rows.tolist()):
        ours = source.rows(torch.tensor([row]))
        theirs = found.rows(torch.tensor([position]))
        fields = ("x", "edge_index", "edge_attr")
        equal = all(torch.equal(getattr(ours.x, f), getattr(theirs.x, f)) for f in fields)
        same += equal and torch.equal(ours.y.nan_to_num(-1), theirs.y.nan_to_num(-1))
    return same, len(source)


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
