"""Does the model handed over help on the coloured digits, or was the demo's draw a lucky one?

    PYTHONPATH=. python benchmarks/coloured_digits.py [--number 10]

Ten tables with other seeds (other digits per source, labels and colours) are trained on as the demo
is, on all of their 60 sources, and every model that is shown is judged on 300 fresh sources. Models
are compared, paired, with plain training of the best family, by the 0.9-quantile of the log-loss.
docs/coloured-digits.md shows what is printed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from studies.split_interval import SplitInterval
from tables import aligned

from eqrm.data import Table, coloured_digits
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import prepare
from eqrm.tabular.references import measured_rows
from eqrm.tabular.training import TableTraining, train_prepared

LEVEL = Level(0.9)
PLAN = TrainingPlan.of([LEVEL], refit="all")
CHOSEN, PLAIN = "chosen", "plain, of the best family"
FRESH, FIRST = 5, 1000
"""Tables of fresh sources for each table, and the seed of the first of them."""


@dataclass(frozen=True)
class Outcome:
    """Of each model, by table: mean risk and quantile on fresh sources, cross-fitted quantile."""

    risks: dict[str, NDArray[np.float64]]
    decisions: Counter[str]

    def line(self, name: str) -> list[str]:
        """Averages over tables, and in how many of them the quantile is lower."""
        mean, quantile, expected = np.nanmean(self.risks[name], axis=0)
        change = self.risks[name][:, 1] / self.risks[PLAIN][:, 1] - 1.0
        told = ["", ""]
        if name != PLAIN:
            told = [str(SplitInterval.of(change, 0.0)), f"{np.sum(change < 0)} of {len(change)}"]
        return [name, f"{mean:.3f}", f"{quantile:.3f}", f"{expected:.3f}", *told]


def measured(number: int) -> Outcome:
    """Train on each table, and judge all models on fresh sources."""
    risks: dict[str, list[tuple[float, float, float]]] = {}
    decisions: Counter[str] = Counter()
    for seed in range(1, number + 1):
        training = train_prepared(prepare(coloured_digits(seed=seed), None, PLAN), PLAN)
        decision, fresh = training.decision, on_fresh_sources(training, seed)
        sure = decision.sureness.value if decision.sureness else "nothing to compare"
        decisions[f"{decision.chosen}, {sure}"] += 1
        names = {name: name for name in training.models}
        for called, name in {PLAIN: decision.plain, CHOSEN: decision.chosen, **names}.items():
            found, expected = fresh[name], training.evaluation[name].risks
            numbers = found.mean(), smooth_quantile(found, LEVEL), smooth_quantile(expected, LEVEL)
            risks.setdefault(called, []).append((float(numbers[0]), *numbers[1:]))
    return Outcome({name: np.array(each) for name, each in risks.items()}, decisions)


def on_fresh_sources(training: TableTraining, seed: int) -> Mapping[str, NDArray[np.float64]]:
    """The risks of all models on sources of other tables."""
    found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in training.models}
    for number in range(FRESH):
        table = coloured_digits(seed=FIRST + FRESH * seed + number)
        for name, measured in judged(training, table).items():
            found[name].append(measured.risks)
    return {name: np.concatenate(each) for name, each in found.items()}


def judged(training: TableTraining, table: Table) -> dict[str, MeasuredRisks]:
    """The risks of all models on the domains of a table."""
    first = next(iter(training.models.values())).preprocessor
    rows = prepare(table, None, PLAN).train
    matrix = first.encoder.transform(table.columns)
    scores = {n: each.estimator._checked_scores(matrix) for n, each in training.models.items()}
    return measured_rows(scores, rows, first.task)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=10)
    start = time.process_time()
    found = measured(parser.parse_args().number)
    header = ["model", "average", "9 in 10 below", "cross-fitted", "against plain", "lower in"]
    print(aligned(header, [found.line(name) for name in found.risks]))
    decided = ", ".join(f"{kind} {count}" for kind, count in found.decisions.most_common())
    seconds = time.process_time() - start
    print(f"Decisions: {decided}.\n± is a 95% interval over tables. {seconds:.0f} s of CPU time.")


if __name__ == "__main__":
    main()
