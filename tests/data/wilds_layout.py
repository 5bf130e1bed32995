"""Small datasets in the layout that the official downloads of WILDS and OGB unpack to."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
from PIL import Image

from eqrm.data.datasets.chemistry import atom_features, bond_features, parsed, scaffold_of

CAMERAS = {
    "train": [0, 1, 2, 3],
    "val": [4, 5],
    "test": [6, 7, 8],
    "id_val": [0, 1],
    "id_test": [2],
}
SPECIES = ["empty", "tayassu pecari", "dasyprocta punctata"]


def write_iwildcam(root: Path, images_per_camera: int = 3, pixels: int = 24) -> Path:
    """iwildcam_v2.0: metadata.csv, categories.csv, all images in train/.

    The red channel of an image says which camera took it, the green one which species it shows.
    """
    folder = root / "iwildcam_v2.0"
    (folder / "train").mkdir(parents=True)
    random = np.random.default_rng(0)
    rows = []
    for split, cameras in CAMERAS.items():
        for camera in cameras:
            for frame in range(images_per_camera):
                y = int(random.integers(len(SPECIES)))
                identity = f"{split}-{camera:03d}-{frame}"
                colour = np.zeros((pixels, pixels + 8, 3), np.uint8)
                colour[..., 0], colour[..., 1] = 20 * camera, 60 * y
                Image.fromarray(colour).save(folder / "train" / f"{identity}.jpg", quality=95)
                rows.append(
                    {
                        "split": split,
                        "location_remapped": camera,
                        "sequence_remapped": len(rows) // 2,
                        "y": y,
                        "category_id": 10 * y,
                        "filename": f"{identity}.jpg",
                    }
                )
    random.shuffle(rows)
    _write_table(folder / "metadata.csv", rows)
    names = [{"category_id": 10 * y, "y": y, "name": name} for y, name in enumerate(SPECIES)]
    _write_table(
        folder / "categories.csv", [*names, {"category_id": 9, "y": 99999, "name": "unseen"}]
    )
    return folder


def _write_table(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


MOLECULES = {
    "train": ["Cc1ccccc1", "CCO", "COc1ccccc1", "CC", "C1CCCCC1C", "OC1CCCCC1"],
    "valid": ["c1ccncc1", "Cc1ccncc1"],
    "test": ["c1ccc2ccccc2c1", "C1CC1", "CC1CC1"],
}
TASKS = 128


def write_ogb_molpcba(root: Path) -> Path:
    """ogbg_molpcba: raw/, mapping/, split/scaffold/; bonds are listed once."""
    folder = root / "ogbg_molpcba"
    for part in ("raw", "mapping", "split/scaffold", "processed"):
        (folder / part).mkdir(parents=True)
    random = np.random.default_rng(0)
    smiles = [text for part in MOLECULES.values() for text in part]
    order = random.permutation(len(smiles))
    listed = [smiles[i] for i in order]
    molecules = [parsed(text) for text in listed]
    labels = random.choice(["0.0", "1.0", ""], size=(len(listed), TASKS), p=[0.5, 0.1, 0.4])
    raw = {
        "num-node-list": [[m.GetNumAtoms()] for m in molecules],
        "num-edge-list": [[m.GetNumBonds()] for m in molecules],
        "node-feat": [atom_features(atom) for m in molecules for atom in m.GetAtoms()],
        "edge": [[b.GetBeginAtomIdx(), b.GetEndAtomIdx()] for m in molecules for b in m.GetBonds()],
        "edge-feat": [bond_features(bond) for m in molecules for bond in m.GetBonds()],
        "graph-label": labels.tolist(),
    }
    for name, table in raw.items():
        _write_numbers(folder / "raw" / f"{name}.csv.gz", table)
    place = {text: number for number, text in enumerate(listed)}
    for name, part in MOLECULES.items():
        _write_numbers(
            folder / "split" / "scaffold" / f"{name}.csv.gz", [[place[text]] for text in part]
        )
    header = [*(f"PCBA-{number}" for number in range(TASKS)), "mol_id", "smiles"]
    table = [
        [*row, f"CID{i}", text] for i, (row, text) in enumerate(zip(labels, listed, strict=True))
    ]
    _write_numbers(folder / "mapping" / "mol.csv.gz", [header, *table])
    _, groups = np.unique([scaffold_of(molecule) for molecule in molecules], return_inverse=True)
    np.save(folder / "raw" / "scaffold_group.npy", groups.reshape(-1))
    return folder


def _write_numbers(path: Path, table: list[list[object]]) -> None:
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows(table)
