"""Damaged and forged files of every kind that the package reads, by number.

A case is a number: it decides the kind of file, and what is done to it. Damage (bytes cut off,
changed or swapped) must be refused, or have no effect, where a digest guards a file. A forged file
has wrong content and a digest that matches: it must be refused, or give numbers that are finite.
"""

from __future__ import annotations

import copy
import gzip
import json
import math
import shutil
import struct
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
from eqrm.data.datasets.digits import read_idx
from eqrm.data.fetching.unpacking import unpack
from eqrm.data.tables.reading import read_table
from eqrm.errors import EqrmError
from eqrm.evaluation import evaluate_part, merge_parts
from eqrm.evaluation.watching import state_file
from eqrm.evaluation.watching.claim import WatchedColumns, certificate_to_watch
from eqrm.evaluation.watching.state import WatchState
from eqrm.files.archive import read_archive, write_archive
from eqrm.files.checked_json import (
    read_checked_json,
    read_checked_lines,
    write_checked_json,
    write_checked_lines,
)
from eqrm.linear import DomainMoments
from eqrm.predictors.pretrained import read_weights
from eqrm.sweeps.records import Checkpoint, RunRecord, read_record, write_record
from eqrm.sweeps.tables.tabulating import sweep_tables
from eqrm.tabular.recalibrating.correction_files import SavedCorrection
from eqrm.training import load_table_network
from eqrm.training.runs.checkpoint import read_checkpoint, write_checkpoint
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run import train_run

NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 10**30, "", "\u001b[2J", "x" * 100_000, [], {}, [[]],
    "nan", {"float": "nan"}, {"float": "inf"}, {"tuple": [1, 2]}, {"level": 5.0}, 2**31, -(2**63),
)  # fmt: skip
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


def _write_moments(path: Path) -> None:
    X, _, domains = made_table()
    DomainMoments.from_arrays(X, X @ [1.0, 0.5, 0.0], domains).save(path)


def _solve_moments(path: Path) -> Any:
    model = eqrm.LinearQRM(0.9).fit(DomainMoments.load(path))
    return np.asarray(model.coef_), float(model.intercept_)


def _evaluation() -> eqrm.Evaluation:
    rng = np.random.default_rng(1)
    domains = [f"2020-01-{i // 4 + 1:02d}" for i in range(4 * 30)]
    return eqrm.evaluate(domains=domains, losses={"model": rng.random(120)})


def _claim(path: Path) -> Any:
    return certificate_to_watch(path, WatchedColumns(domain=("day",), loss="loss"))


def _watch(path: Path) -> Any:
    claim = _claim(path)
    return claim.to_dict(), claim.watch().to_dict()


def _write_state(path: Path) -> None:
    source = path.with_name("evaluation.json")
    source.write_text(_evaluation().to_json())
    state_file.write_state(path, WatchState.begin(_claim(source)))


def _read_state(path: Path) -> Any:
    state = state_file.read_state(path)
    return state.entries(), state.claim.to_dict()


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
    evaluate_part(rows, domains="day", labels="y", predictions={"model": "p"}).write(path)


def _merge(path: Path) -> Any:
    found = merge_parts([path])
    return found["model"].risks.tolist(), found["model"].counts.tolist()


def _write_correction(path: Path) -> None:
    from eqrm.level import Level
    from eqrm.linear.scored_rows import Correction

    SavedCorrection(Correction(0.5, 2.0), "log-loss", "p", 1e-7, None, Level(0.9), 24).write(path)


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
    *(Kind(k, _model(make), _predict, "archive", "eqrm model 2") for k, make in MODELS.items()),
    Kind("checkpoint", _write_checkpoint, read_checkpoint, "archive", CHECKPOINT, answers=False),
    Kind("resumed run", _run_file(STOPPED), _resumed, "archive", CHECKPOINT),
    *(
        Kind(f, _run_file(f), _run_with(f), s)
        for f, s in (("weights.safetensors", "bytes"), ("predictor.json", "plain"))
    ),
    Kind("moments", _write_moments, _solve_moments, "archive", "eqrm.moments 2"),
    Kind("evaluation", _write_evaluation, _watch, "plain", guarded=False),
    Kind("watch", _write_state, _read_state, "lines", state_file.FORMAT),
    Kind("sweep record", _write_record, _tabulate, "json", "eqrm run record 1"),
    Kind("part", _write_part, _merge, "json", "eqrm part of an evaluation 1"),
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


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(len(content)))]


def _flip(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _blank(content: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(content)))
    width = int(rng.integers(1, 65))
    return content[:start] + b"\0" * len(content[start : start + width]) + content[start + width :]


def _doubled(content: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(content)))
    return content[:start] + content[start // 2 :]


def _huge(content: bytes, rng: np.random.Generator) -> bytes:
    """A number in the first bytes that is far too large: the length of a header, or a count."""
    start = int(rng.integers(min(64, len(content))))
    return (
        content[:start] + struct.pack("<Q", int(rng.integers(2**40, 2**62))) + content[start + 8 :]
    )


DAMAGES = (_cut, _flip, _blank, _doubled, _huge)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in plain data."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(p for key, part in inside for p in _paths(part, (*path, key)))]


def forged_content(content: Any, rng: np.random.Generator) -> Any:
    """Plain data with one or two places replaced, removed or repeated."""
    content = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 3))):
        places = _paths(content)[1:]
        if not places:
            return NASTY[int(rng.integers(len(NASTY)))]
        *way, last = places[int(rng.integers(len(places)))]
        holder = content
        for key in way:
            holder = holder[key]
        choice = int(rng.integers(5))
        if choice == 0:
            del holder[last]
        elif choice == 1 and isinstance(holder[last], (int, float)):
            holder[last] = type(holder[last])(
                rng.choice([-1, 0, 10**6, 10**12]) * (holder[last] or 1)
            )
        elif choice == 2 and isinstance(holder[last], list):
            holder[last] = holder[last] * 2
        else:
            holder[last] = copy.deepcopy(NASTY[int(rng.integers(len(NASTY)))])
    return content


def _flipped(old: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    if not old.numel():
        return old
    content = old.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    changed = torch.frombuffer(bytearray(_flip(content, rng)), dtype=torch.uint8)
    return changed.view(old.dtype).reshape(old.shape).clone()


def forged_arrays(
    arrays: dict[str, torch.Tensor], rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """Tensors with one of them of another shape or type, not finite, missing, or changed bytes."""
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    old = arrays[name]
    choices: list[Callable[[], torch.Tensor | None]] = [
        lambda: None,
        lambda: old[:0].clone() if old.ndim else old.reshape(1),
        lambda: torch.cat([old, old]) if old.ndim else old.repeat(3),
        lambda: old.reshape(-1, 1).clone(),
        lambda: old.to(torch.bfloat16),
        lambda: old.to(torch.int64),
        lambda: old.to(torch.bool),
        lambda: torch.full_like(old.double(), math.nan),
        lambda: torch.full_like(old.double(), math.inf),
        lambda: old.double() * 1e300,
        lambda: _flipped(old, rng),
        lambda: torch.zeros(0, 10**12),
    ]
    # Boosters are bytes: their bits are what a forger changes.
    place = (
        10 if old.dtype == torch.uint8 and rng.random() < 0.7 else int(rng.integers(len(choices)))
    )
    made = choices[place]()
    rest = {key: value for key, value in arrays.items() if key != name}
    return rest if made is None else {**rest, name: made}


def forge(kind: Kind, path: Path, rng: np.random.Generator) -> None:
    """Replace the file by one with forged content and a digest that matches."""
    if kind.sealed == "archive":
        found = read_archive(path, {kind.format}, "a file")
        which = rng.random() if found.tensors else 0.0
        content = forged_content(found.content, rng) if which < 0.5 else found.content
        tensors = found.tensors if which < 0.5 else forged_arrays(found.tensors, rng)
        write_archive(path, kind.format, content, tensors)
    elif kind.sealed == "json":
        content = forged_content(read_checked_json(path, kind.format, "a file"), rng)
        write_checked_json(path, kind.format, content)
    elif kind.sealed == "lines":
        entries = forged_content(read_checked_lines(path, kind.format, "a file"), rng)
        write_checked_lines(path, kind.format, entries if isinstance(entries, list) else [entries])
    elif kind.sealed == "plain":
        path.write_text(json.dumps(forged_content(json.loads(path.read_text()), rng)))
    else:
        path.write_bytes(DAMAGES[int(rng.integers(len(DAMAGES)))](path.read_bytes(), rng))


@dataclass(frozen=True)
class Verdict:
    """How a case ended: "refused", "same" (as the sound file) or "other", or a problem."""

    case: int
    kind: str
    change: str
    outcome: str
    problem: str = ""


def case_kind(case: int) -> Kind:
    return KINDS[case % len(KINDS)]


def judged(case: int, folder: Path) -> Verdict:
    """Damage or forge a file, and read it."""
    kind, rng = case_kind(case), np.random.default_rng([20, case])
    source, expected = sound(kind.name, folder)
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    path = place / source.name
    shutil.copy(source, path)
    forging = kind.sealed != "bytes" and rng.random() < 0.6
    if forging:
        change = "forged"
        forge(kind, path, rng)
    elif rng.random() < 0.1:
        others = [each for each in KINDS if each.name not in (kind.name, *TRAINED)]
        other = others[int(rng.integers(len(others)))]
        change = f"swapped for {other.name}"
        shutil.copy(sound(other.name, folder)[0], path)
    else:
        damage = DAMAGES[int(rng.integers(len(DAMAGES)))]
        change = damage.__name__
        path.write_bytes(damage(path.read_bytes(), rng))
    unchanged = path.read_bytes() == source.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kind.use(path)
    except EqrmError as error:
        useless = "" if len(str(error)) < 5000 else "the error is far too long"
        return Verdict(case, kind.name, change, "refused", useless)
    except Exception as error:  # noqa: BLE001 - whatever else is raised is a defect
        return Verdict(case, kind.name, change, "raised", f"{type(error).__name__}: {error}"[:300])
    if same(found, expected):
        return Verdict(case, kind.name, change, "same")
    if unchanged or (kind.guarded and not forging and "swapped" not in change):
        return Verdict(case, kind.name, change, "other", "another answer without an error")
    right = not kind.answers or finite(found)
    wrong = "" if right else "numbers that are not finite, without an error"
    return Verdict(case, kind.name, change, "other", wrong)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for key, each in value.items() for part in (key, *_parts(each))]
    if isinstance(value, (list, tuple)):
        return [len(value), *(part for each in value for part in _parts(each))]
    if isinstance(value, (torch.Tensor, np.ndarray)):
        array = (
            value.float().numpy()
            if getattr(value, "dtype", None) is torch.bfloat16
            else np.asarray(value)
        )
        return (
            [array.shape, array.tolist()]
            if array.dtype.kind != "f"
            else [array.shape, *array.ravel().tolist()]
        )
    return [value]


def same(found: Any, expected: Any) -> bool:
    """Whether two answers are the same to the bit."""
    return repr(_parts(found)) == repr(_parts(expected))


def finite(found: Any) -> bool:
    """Whether an answer has no NaN and no infinite number."""
    return all(math.isfinite(part) for part in _parts(found) if isinstance(part, float))
