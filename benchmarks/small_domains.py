"""Many small domains: Tox21 by scaffold, 3,324 domains of which 2,869 hold one molecule.

    EQRM_DATA=… PYTHONPATH=. python benchmarks/small_domains.py [--quick] [--json F] [--page F]

Half of the scaffolds train, the other half test, 10 random splits: a logistic regression and
boosted trees, each for the mean (ERM) and for α = 0.9, compared with a predictor that says ½ for
every molecule. The risk of a domain of one molecule is one loss, so most of the spread of measured
risks is sampling noise, and a quantile of them can be lowered by being less sure. The question is
therefore not only whether the .9-quantile falls, but whether anything is left that beats ½, and
what happens on scaffolds with 5 or more molecules. Needs the extra "molecules".
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from boosting import write_table
from numpy.typing import NDArray
from studies.molecules.descriptors import descriptor_table
from tables import aligned, machine, markdown, write_json

import eqrm
from eqrm.errors import DataFileError, EqrmWarning, MissingExtraError, SettingError

ALPHA = 0.9
SPLITS = 10
LARGE = 5
LEVELS = (0.5, 0.9, 0.99)
TREES = {"n_estimators": 60}
MODELS: dict[str, Callable[[float | None], Any]] = {
    "linear": lambda alpha: eqrm.QRMClassifier(alpha),
    "XGBoost": lambda alpha: eqrm.XGBQRMClassifier(alpha, max_depth=4, **TREES),
    "LightGBM": lambda alpha: eqrm.LGBMQRMClassifier(alpha, num_leaves=15, **TREES),
}
HEADER = ["", "mean", *(f"{level:g}" for level in LEVELS), f"0.9, ≥ {LARGE} molecules", "noise, %"]
CONSTANT = "½ for every molecule"


@dataclass(frozen=True)
class Molecules:
    """Descriptors, labels and scaffolds."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    scaffolds: NDArray[np.str_]


def molecules() -> Molecules:
    """Tox21, NR-ER. Molecules without a ring share no scaffold: each is a domain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EqrmWarning)  # counts what RDKit cannot read
        table = descriptor_table(acyclic="own-domains")
    return Molecules(np.column_stack(list(table.columns.values())), table.target, table.domains)


def judged(risks: Any, counts: Any, variances: Any) -> list[float]:
    """Mean, quantiles, the .9-quantile of larger scaffolds, and the share of noise in per cent."""
    share = eqrm.evaluation.noise_split(risks, counts, variances).noise_share
    large = np.quantile(risks[counts >= LARGE], ALPHA)
    return [risks.mean(), *np.quantile(risks, LEVELS), large, 100.0 * share]


def one_split(data: Molecules, seed: int) -> dict[str, list[float]]:
    """Every predictor on the scaffolds that it was not trained on."""
    names = np.random.default_rng(seed).permutation(np.unique(data.scaffolds))
    seen = np.isin(data.scaffolds, names[: len(names) // 2])
    found: dict[str, list[float]] = {}
    for name, make in MODELS.items():
        for label, alpha in (("ERM", None), (f"α = {ALPHA}", ALPHA)):
            model = make(alpha).fit(data.X[seen], data.y[seen], groups=data.scaffolds[seen])
            unseen = model.measured_risks(data.X[~seen], data.y[~seen], data.scaffolds[~seen])
            row = judged(unseen.risks, unseen.counts, unseen.variances)
            found[f"{name}, {label}"] = row
    half = np.full(len(unseen.counts), np.log(2.0))
    found[CONSTANT] = judged(half, unseen.counts, np.zeros_like(half))
    return found


def cells(scores: dict[str, NDArray[np.float64]]) -> list[list[str]]:
    """Means over splits, the constant first."""
    order = [CONSTANT, *(name for name in scores if name != CONSTANT)]
    rows = []
    for name in order:
        *risks, noise = scores[name].mean(axis=0)
        rows.append([name, *(f"{risk:.3f}" for risk in risks), f"{noise:.0f}"])
    return rows


def verdict(scores: dict[str, NDArray[np.float64]]) -> dict[str, dict[str, float]]:
    """Per model: change of the .9-quantile and of the mean, and the gap to the constant ½."""
    at = 1 + LEVELS.index(ALPHA)
    found = {}
    for name in MODELS:
        erm, quantile = (scores[f"{name}, {label}"] for label in ("ERM", f"α = {ALPHA}"))
        found[name] = {
            "quantile_change_percent": 100 * float((quantile[:, at] / erm[:, at] - 1).mean()),
            "mean_change_percent": 100 * float((quantile[:, 0] / erm[:, 0] - 1).mean()),
            "quantile_above_constant": float(quantile[:, at].mean() - np.log(2.0)),
            "noise_percent": float(erm[:, -1].mean()),
        }
    return found


def sentence(name: str, found: dict[str, float]) -> str:
    """What the numbers mean."""
    gap = found["quantile_above_constant"]
    if gap < 1e-3:
        told = "the model became the constant ½ and learned nothing"
    else:
        told = f"that is still {gap:.3f} above the constant ½, which uses no data"
    return (
        f"{name}: α = {ALPHA} changes the measured .9-quantile by "
        f"{found['quantile_change_percent']:+.0f}% and the mean by "
        f"{found['mean_change_percent']:+.0f}%; {told}"
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2 splits")
    parser.add_argument("--json", type=Path, default=Path("bench-output/small_domains.json"))
    parser.add_argument("--page", type=Path, help="write the table into this page")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measure; 1 if a result is not finite."""
    given = parse(arguments)
    try:
        data = molecules()
    except (SettingError, DataFileError, MissingExtraError) as missing:
        print(f"skipped: {missing}")
        return 0
    counts = np.unique(data.scaffolds, return_counts=True)[1]
    print(f"{len(data.y):,} molecules, {len(counts):,} scaffolds, {(counts == 1).sum():,} of one")
    splits = [one_split(data, seed) for seed in range(2 if given.quick else SPLITS)]
    scores = {name: np.array([each[name] for each in splits]) for name in splits[0]}
    print(aligned(HEADER, cells(scores)))
    if given.page is not None:
        write_table(given.page, "small domains", markdown(HEADER, cells(scores)))
    found = verdict(scores)
    for name, each in found.items():
        print(sentence(name, each))
    finite = bool(np.isfinite(list(scores.values())).all())
    content = {"domains": len(counts), "of_one": int((counts == 1).sum()), "finite": finite}
    write_json(given.json, {**content, "models": found, "machine": machine()})
    return 0 if finite else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
