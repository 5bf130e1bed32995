"""Every kind of file that the package reads: how one is written, and what it gives when read."""

from __future__ import annotations

import gzip
import math
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eqrm
from eqrm.data.datasets.downloads import unpack
from eqrm.data.datasets.mnist import read_idx
from eqrm.data.seen_domains import SeenDomains
from eqrm.data.tables.reading import read_table
from eqrm.evaluation import evaluate_part, merge_parts
from eqrm.evaluation.watching import state_file
from eqrm.evaluation.watching.claim import WatchSettings, certificate_to_watch
from eqrm.evaluation.watching.state import WatchState
from eqrm.predictors.images import read_weights
from eqrm.sweeps.records import Checkpoint, RunRecord, read_record, write_record
from eqrm.sweeps.tables.tabulating import sweep_tables
from eqrm.tabular.recalibrating.correction_files import SavedCorrection
from eqrm.training import load_table_network
from eqrm.training.runs.checkpoint import read_checkpoint, write_checkpoint
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run import train_run

Use = Callable[[Path], Any]


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is written and read, and which digest it has.

    ``sealed`` is how it is written again with forged content: "archive", "json", "lines" (with a
    digest), "plain" (JSON without one) or "bytes".
    """

    name: str
    write: Callable[[Path], None]
    use: Use
    sealed: str
    format: str = ""
    guarded: bool = True
    answers: bool = True
    """Whether its numbers are an answer, and must be finite."""


def made_table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, domains = rng.normal(size=(240, 3)), np.repeat(np.arange(24), 10)
    y = (X[:, 0] + rng.normal(size=24)[domains] > 0).astype(int)
    return X, y, domains


def _model(make: Callable[[], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        X, y, domains = made_table()
        eqrm.save_model(make().fit(X, y, groups=domains), path)

    return write


def _predict(path: Path) -> Any:
    model = eqrm.load_model(path)
    found = getattr(model, "predict_proba", model.predict)(made_table()[0][:5])
    return np.asarray(found, dtype=float), str(model.level_), np.asarray(model.domain_risks_)


def _write_checkpoint(path: Path) -> None:
    torch.manual_seed(0)
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {"step": 3, "network": dict(network.state_dict()), "optimizer": optimizer.state_dict()}
    write_checkpoint(path, {**state, "random": np.arange(5), "nested": [(1, 2.5, None), "text"]})


def _evaluation() -> eqrm.Evaluation:
    rng = np.random.default_rng(1)
    domains = [f"2020-01-{i // 4 + 1:02d}" for i in range(4 * 30)]
    return eqrm.evaluate(domains=domains, losses={"model": rng.random(120)})


def _claim(path: Path) -> Any:
    return certificate_to_watch(path, WatchSettings(domain=("day",), loss="loss"))


def _watch(path: Path) -> Any:
    claim = _claim(path)
    return claim, claim.watch().to_dict()


def _write_state(path: Path) -> None:
    source = path.with_name("evaluation.json")
    source.write_text(_evaluation().to_json())
    state_file.write_state(path, WatchState.begin(_claim(source)))


def _read_state(path: Path) -> Any:
    state = state_file.read_state(path)
    return state.entries(), state.claim


RUN = "0123456789abcdef"


def _write_record(path: Path) -> None:
    (path.parent / "runs" / RUN).mkdir(parents=True)
    splits = {"validation": {"a": 0.5, "b": 0.25, "c": 0.75}, "test": {"c": 0.5}}
    points = tuple(Checkpoint(step, splits, splits) for step in (0, 10))
    write_record(path.parent, RunRecord(RUN, "toy", "erm", ("c",), 0, 0, {"x": 1.0}, points))
    shutil.move(path.parent / "runs" / RUN / "record.json", path)


def _tabulate(path: Path) -> Any:
    place = path.parent / "runs" / RUN
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, place / "record.json")
    tables = sweep_tables([read_record(path.parent, RUN)])
    return [(table.title, repr(table.rows)) for table in tables.tables]


def _write_part(path: Path) -> None:
    X, y, domains = made_table()
    lines = [
        f"{d},{label},{1 / (1 + math.exp(-x)):.4f}"
        for d, label, x in zip(domains, y, X[:, 0], strict=True)
    ]
    rows = path.with_name("rows.csv")
    rows.write_text("day,y,p\n" + "\n".join(lines) + "\n")
    evaluate_part(rows, domains="day", target="y", predictions={"model": "p"}).write(path)


def _merge(path: Path) -> Any:
    found = merge_parts([path])
    return found["model"].risks.tolist(), found["model"].counts.tolist()


def _write_correction(path: Path) -> None:
    from eqrm.level import Level
    from eqrm.linear.scored_rows import Correction

    about = (None, Level(0.9), 24, ("day",), SeenDomains.of(range(24)))
    SavedCorrection(Correction(0.5, 2.0), "log-loss", "p", 1e-7, *about).write(path)


def _correct(path: Path) -> Any:
    return SavedCorrection.read(path)(np.array([0.25, 0.5, 0.75]))


def _rows() -> bytes:
    X, y, domains = made_table()
    lines = [
        f"{d},{x[0]:.3f},{'red' if x[1] > 0 else 'blue'},{label}"
        for d, x, label in zip(domains, X, y, strict=True)
    ]
    return ("d,x,colour,y\n" + "\n".join(lines) + "\n").encode()


def _write_parquet(path: Path) -> None:
    import pyarrow
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(pyarrow.BufferReader(_rows())), path)


def _table(path: Path) -> Any:
    found = read_table(path, target="y", domain="d")
    return dict(found.columns), found.target, found.domains


def _write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/table.csv", _rows())


def _unpacked(path: Path) -> Any:
    out = path.with_name("out")
    shutil.rmtree(out, ignore_errors=True)
    unpack(path, out)
    return {str(f.relative_to(out)): f.read_bytes() for f in out.rglob("*") if f.is_file()}


RUN_CONFIG = """
data:
  dataset: table
  settings: {{file: {file}, target: y, domain: d}}
  test: ["0", "1"]
predictor: {{name: mlp, settings: {{width: 4, depth: 1}}, loss: cross-entropy}}
objective: {{name: eqrm, hyperparameters: {{alpha: 0.9}}}}
batches: {{domains: 2, examples: 5}}
steps: 12
phases: single
learning_rate: 1e-2
training: {{checkpoint_every: 8, evaluate_every: 12, device: cpu, tensorboard: false}}
"""


def _sound_run(path: Path, name: str) -> tuple[RunConfig, Path]:
    """The configuration of a run, and its folder with another file in the place of ``name``."""
    root = next(parent for parent in path.parents if (parent / "sound").is_dir())
    kept, rows = root / "sound-run", root / "rows.csv"
    if not kept.exists():
        rows.write_bytes(_rows())
        (root / "run.yaml").write_text(RUN_CONFIG.format(file=rows))
        train_run(RunConfig.from_file(root / "run.yaml"), kept)
    config, place = RunConfig.from_file(root / "run.yaml"), path.parent / "runs"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(kept, place)
    run = place / config.run_name
    if path.exists():
        shutil.copy(path, run / name)
    return config, run


def _run_file(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        run = _sound_run(path, name)[1]
        shutil.copy(run / name, path)

    return write


STOPPED = "checkpoint/step-000000008.safetensors"


def _resumed(path: Path) -> Any:
    """Train on from a checkpoint."""
    config, run = _sound_run(path, STOPPED)
    for name in ("DONE", "weights.safetensors", "checkpoint/step-000000012.safetensors"):
        (run / name).unlink()
    trained = train_run(config, run.parent)
    return [tensor.tolist() for tensor in trained.predictor.state_dict().values()]


def _run_with(name: str) -> Use:
    def predict(path: Path) -> Any:
        network = load_table_network(_sound_run(path, name)[1])
        frame = {"x": [0.5, -1.0], "colour": ["red", "blue"]}
        return {key: np.asarray(value).tolist() for key, value in network.predict(frame).items()}

    return predict


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _write_evaluation(path: Path) -> None:
    path.write_text(_evaluation().to_json())


def _write_weights(path: Path) -> None:
    torch.save({"a": torch.ones(3)}, path)


def _digits() -> bytes:
    return gzip.compress(bytes([0, 0, 8, 2, 0, 0, 0, 9, 0, 0, 0, 4]) + bytes(range(36)))


CHECKPOINT = "eqrm checkpoint 2"
SMALL: dict[str, Any] = {"n_estimators": 4, "n_jobs": 1}
NETWORK: dict[str, Any] = {"hidden": (4,), "steps": 3, "erm_steps": 3, "random_state": 0}
MODELS: dict[str, Callable[[], Any]] = {
    "linear model": lambda: eqrm.QRMClassifier(0.9),
    "linear numbers": lambda: eqrm.QRMRegressor(0.9),
    "network": lambda: eqrm.QRMClassifier(0.9, model="mlp", **NETWORK),
    "XGBoost": lambda: eqrm.XGBQRMClassifier(alpha=0.9, max_depth=3, **SMALL),
    "LightGBM": lambda: eqrm.LGBMQRMRegressor(alpha=0.9, num_leaves=5, **SMALL),
    "recalibrated": lambda: eqrm.Recalibrated(eqrm.QRMClassifier(None), 0.9),
}
KINDS = (
    *(Kind(k, _model(make), _predict, "archive", "eqrm model 3") for k, make in MODELS.items()),
    Kind("checkpoint", _write_checkpoint, read_checkpoint, "archive", CHECKPOINT, answers=False),
    Kind("resumed run", _run_file(STOPPED), _resumed, "archive", CHECKPOINT),
    *(
        Kind(f, _run_file(f), _run_with(f), s)
        for f, s in (("weights.safetensors", "bytes"), ("predictor.json", "plain"))
    ),
    Kind("evaluation", _write_evaluation, _watch, "plain", guarded=False),
    Kind("watch", _write_state, _read_state, "lines", state_file.FORMAT),
    Kind("sweep record", _write_record, _tabulate, "json", "eqrm run record 1"),
    Kind("part", _write_part, _merge, "json", "eqrm part of an evaluation 2"),
    Kind("correction", _write_correction, _correct, "plain", guarded=False),
    Kind("t.csv", lambda path: _write_bytes(path, _rows()), _table, "bytes", guarded=False),
    Kind("t.csv.gz", lambda path: _write_bytes(path, gzip.compress(_rows())), _table, "bytes"),
    Kind("t.parquet", _write_parquet, _table, "bytes", guarded=False),
    Kind("t.zip", _write_zip, _unpacked, "bytes"),
    Kind("digits.gz", lambda path: _write_bytes(path, _digits()), read_idx, "bytes"),
    Kind("weights.pth", _write_weights, read_weights, "bytes", guarded=False),
)


TRAINED = ("network", "resumed run")
"""Kinds that take seconds to make or to use."""


@cache
def sound(kind: str, folder: Path) -> tuple[Path, Any]:
    """A file of a kind as it should be, and what it gives."""
    (found,) = [each for each in KINDS if each.name == kind]
    place = folder / "sound" / kind.replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    path = place / _file(found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.write(path)
        return path, found.use(path)


def _file(kind: Kind) -> str:
    return kind.name if "." in kind.name else "file.safetensors"
