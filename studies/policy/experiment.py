"""One table: ``eqrm.train``, and the truth about its models on thousands of fresh domains."""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

import eqrm
from eqrm.errors import TooFewDomainsError
from studies.outcome import Progress
from studies.policy.worlds import KINDS, DrawnTable

Array = NDArray[np.float64]
LEVEL, CONFIDENCE = 0.9, 0.95
FRESH = 2_000
"""Fresh domains that truths are taken from."""
KEYS = ("kind", "domains", "table", "rows", "fresh")
"""What a :class:`Case` is read back from."""


@dataclass(frozen=True)
class Case:
    """A table of a kind of world; ``rows`` of each domain."""

    kind: str
    domains: int
    table: int
    rows: int = 60
    fresh: int = FRESH

    @property
    def stem(self) -> str:
        """What its file is called."""
        kind = "-".join(self.kind.replace(",", "").replace("%", "").split())
        return f"{kind}-{self.domains}-{self.rows}-{self.table}"


def played(case: Case) -> dict[str, Any]:
    """What was decided on a table, and what is true of every model of it."""
    kind = next(each for each in KINDS if each.name == case.kind)
    table = kind.table(case.domains, case.table, case.rows)
    fresh = kind.table(case.fresh, 1_000_000 + case.table, case.rows)
    began = time.perf_counter()
    found = eqrm.train(table.columns, target="y", domain="site", refit="all")
    seconds = time.perf_counter() - began
    decision = found.decision
    if decision is None:
        raise TypeError("a training has a decision")
    try:
        certificate = found.evaluation.certificate(LEVEL, CONFIDENCE, model=decision.chosen)
        bound = certificate.bound
    except TooFewDomainsError:
        bound = None
    return {
        **asdict(case),
        "seconds": seconds,
        "decision": decision.to_dict(),
        "bound": bound,
        "models": {name: truth(model, fresh) for name, model in found.models.items()},
    }


def truth(model: Any, fresh: DrawnTable) -> dict[str, float]:
    """The true quantile and mean of a model's risk, and its AUC where there are two classes."""
    predicted = model.predict(fresh.columns)
    chances = [values for name, values in predicted.items() if name.startswith("p_")]
    if not chances:
        losses = (predicted["prediction"] - fresh.y) ** 2
    else:
        table = np.column_stack(chances)
        own = np.take_along_axis(table, fresh.y.astype(np.int64)[:, None], axis=1)[:, 0]
        losses = -np.log(np.maximum(own, 1e-300))
    risks = np.bincount(fresh.domain, losses) / np.bincount(fresh.domain)
    found = {"quantile": float(np.quantile(risks, LEVEL)), "mean": float(risks.mean())}
    if len(chances) == 2:
        found["auc"] = float(roc_auc_score(fresh.y, chances[1]))
    return found


def lowest_possible(case: Case) -> float:
    """The lowest true quantile of any logistic model of the features that matter.

    It is fitted to the fresh domains themselves, which nobody has.
    """
    kind = next(each for each in KINDS if each.name == case.kind)
    fresh = kind.table(case.fresh, 1_000_000 + case.table, case.rows)
    signs, numbers = 2.0 * fresh.y - 1.0, np.bincount(fresh.domain)

    def quantile(at: Array) -> float:
        scores = at[0] * fresh.X[:, 0] + at[1] * fresh.X[:, 2] + at[2]
        risks = np.bincount(fresh.domain, np.logaddexp(0.0, -signs * scores)) / numbers
        return float(np.quantile(risks, LEVEL))

    start, steps = np.array([0.8, 0.0, 0.0]), {"maxiter": 120}
    return float(minimize(quantile, start, method="Nelder-Mead", options=steps).fun)


def play(
    cases: list[Case],
    folder: Path,
    workers: int,
    progress: Progress,
    known: Mapping[str, dict[str, Any]],
    most: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Every case, several at a time; those that are ``known`` or in the folder are not repeated.

    Of the others ``most`` are played.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}
    found = {**known, **found}
    missing = [case for case in cases if case.stem not in found][:most]
    yield from (found[case.stem] for case in cases if case.stem in found)
    if workers == 1:
        for number, case in enumerate(missing):
            progress(number / len(missing), case.stem)
            yield _keep(folder, case, played(case))
        return
    with ProcessPoolExecutor(workers) as pool:
        jobs = {pool.submit(played, case): case for case in missing}
        try:
            for number, job in enumerate(as_completed(jobs)):
                yield _keep(folder, jobs[job], job.result())
                progress(number / len(missing), jobs[job].stem)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _keep(folder: Path, case: Case, record: dict[str, Any]) -> dict[str, Any]:
    draft = folder / f".{case.stem}"
    draft.write_text(json.dumps(record), encoding="utf-8")
    draft.replace(folder / f"{case.stem}.json")
    return record


def read_tables(path: Path) -> dict[str, dict[str, Any]]:
    """The tables that :func:`write_tables` wrote, by their names; none where there is no file."""
    text = lzma.decompress(path.read_bytes()).decode() if path.is_file() else ""
    records = [json.loads(line) for line in text.splitlines()]
    return {Case(**{name: each[name] for name in KEYS}).stem: each for each in records}


def write_tables(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """A line of JSON for each table, with six digits of every number."""
    ordered = sorted(records, key=lambda each: [str(each[name]) for name in KEYS])
    lines = [json.dumps(_rounded(each), ensure_ascii=False) for each in ordered]
    path.write_bytes(lzma.compress("\n".join(lines).encode()))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items() if name != "risks"}
    return float(f"{value:.6g}") if isinstance(value, float) else value
