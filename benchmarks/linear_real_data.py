"""LinearQRM on real tables: the .9-quantile of squared error on domains it never saw.

    PYTHONPATH=. python benchmarks/linear_real_data.py [--quick] [--json FILE] [--page FILE]

Half of the domains of a table train, the other half test, 20 times. Compared are ordinary
least squares (every row counts once), least squares weighted so that every domain counts once, and
LinearQRM at α = 0.9. Two looks at the training half alone, before any unseen domain: how much of
the spread of its risks is real (eqrm.evaluation.noise_split), and whether cross-fitted risks show a
gain (cross_fitted_risks, eqrm.evaluation.paired_differences). ``--page`` writes
docs/linear-on-real-data.md. The tables are those of ``python -m studies frontiers``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from studies.frontiers.tables import LEAST_ROWS, MULTILEVEL, MultilevelSource
from studies.split_interval import SplitInterval
from tables import aligned, machine, markdown, write_json

import eqrm
from eqrm import LinearQRM
from eqrm.linear import DomainMoments, LinearERM
from eqrm.linear.linear_model import LinearModel

ALPHA = 0.9
SPLITS = 20
METHODS: dict[str, Callable[[], LinearModel]] = {
    "ordinary least squares": lambda: LinearERM("rows"),
    "domain-weighted least squares": LinearERM,
    "LinearQRM": lambda: LinearQRM(ALPHA),
}
OLS, WEIGHTED, QRM = METHODS


@dataclass(frozen=True)
class Table:
    """Rows of one source, ready for fitting: X is a data frame."""

    X: Any
    y: np.ndarray[Any, Any]
    domains: np.ndarray[Any, Any]
    moments: DomainMoments

    def rows_of(self, names: Sequence[str]) -> np.ndarray[Any, Any]:
        """Which rows belong to these domains."""
        found: np.ndarray[Any, Any] = np.isin(self.domains, names)
        return found


def load(source: MultilevelSource) -> Table:
    """Read a table, and compute its moments."""
    numbers, y, domains = source.read()
    return Table(numbers, y, domains, DomainMoments.from_arrays(numbers, y, domains))


@dataclass(frozen=True)
class Split:
    """One split: .9-quantile and mean of the unseen risks per method, and what was predicted."""

    quantiles: dict[str, float]
    means: dict[str, float]
    real_share: float
    predicted: float
    clear: bool


def judge(table: Table, train: Sequence[str], unseen: Sequence[str]) -> Split:
    """Fit on the training domains, look ahead from them, then judge on the others."""
    seen, test = table.moments.subset(train), table.moments.subset(unseen)
    quantiles, means = {}, {}
    for name, make in METHODS.items():
        model = make().fit(seen)
        risks = test.risks(model.coef_, model.intercept_).numpy()
        quantiles[name] = float(np.quantile(risks, ALPHA))
        means[name] = float(risks.mean())
    share = real_share(table, train, METHODS[OLS]().fit(seen))
    first, second = (METHODS[name]().cross_fitted_risks(seen, folds=5) for name in (OLS, QRM))
    difference = next(
        found
        for found in eqrm.evaluation.paired_differences(first, second, levels=[ALPHA])
        if found.statistic == "quantile"
    )
    predicted = difference.value / difference.first
    return Split(quantiles, means, share, predicted, difference.clear and predicted < 0.0)


def real_share(table: Table, train: Sequence[str], model: LinearModel) -> float:
    """The share of the variance of the training risks that is not sampling noise."""
    rows = table.rows_of(train)
    losses = torch.from_numpy((table.y[rows] - model.predict(table.X[rows])) ** 2)
    risks = eqrm.domain_risks(losses, table.domains[rows])
    variances = risks.sampling_variances * risks.counts
    return 1.0 - eqrm.evaluation.noise_split(risks.values, risks.counts, variances).noise_share


@dataclass(frozen=True)
class Study:
    """All splits of one table."""

    source: MultilevelSource
    domains: int
    rows: int
    splits: tuple[Split, ...]

    def gains(self, against: str) -> SplitInterval:
        """Relative change of the .9-quantile on unseen domains, with its 95% interval."""
        ratios = [s.quantiles[QRM] / s.quantiles[against] - 1.0 for s in self.splits]
        return SplitInterval.of(np.array(ratios), test_to_train=1.0)

    def helps(self) -> bool:
        """Whether the gain is clear against both."""
        return all(self.gains(other).word == "lower" for other in (OLS, WEIGHTED))

    def cells(self) -> list[str]:
        """A line of the table."""
        means = [100.0 * (s.means[QRM] / s.means[OLS] - 1.0) for s in self.splits]
        return [
            self.source.name,
            f"{self.domains}",
            f"{self.rows}",
            f"{np.mean([s.real_share for s in self.splits]):.2f}",
            f"{100.0 * np.mean([s.predicted for s in self.splits]):+.1f}%",
            f"{sum(s.clear for s in self.splits)}/{len(self.splits)}",
            str(self.gains(OLS)),
            str(self.gains(WEIGHTED)),
            f"{np.mean(means):+.1f}%",
        ]


HEADER = [
    "table",
    "domains",
    "rows",
    "real spread",
    "predicted",
    "clear",
    "to ordinary",
    "to domain-weighted",
    "mean risk",
]


def study(source: MultilevelSource, splits: int) -> Study:
    """Split a table ``splits`` times."""
    table = load(source)
    names, generator = np.array(table.moments.names), np.random.default_rng(0)
    found = []
    for _ in range(splits):
        order = generator.permutation(len(names))
        half = len(names) // 2
        found.append(judge(table, list(names[order[:half]]), list(names[order[half:]])))
    return Study(source, len(names), len(table.y), tuple(found))


PAGE = """# LinearQRM on real tables
Written by `PYTHONPATH=. python benchmarks/linear_real_data.py --page docs/linear-on-real-data.md`.

Half of the domains train, the other half test; {splits} random halves. Measured by the
.9-quantile over unseen domains of the mean squared error; domains of fewer than {least} rows are
left out. Changes of `LinearQRM(alpha=0.9)` are relative; ± is a 95% interval in percentage points
that allows for splits that overlap (the corrected resampled t).

{table}

{sources}

- **real spread**: the share of the variance of the training domains' risks (ordinary least
  squares) that is not sampling noise, `eqrm.evaluation.noise_split`.
- **predicted**: the change against ordinary least squares that the training domains show among
  themselves, from `cross_fitted_risks`; **clear**: in how many splits
  `eqrm.evaluation.paired_differences` calls it a gain at 95%.
- **to ordinary**, **to domain-weighted**: the change of the .9-quantile on unseen domains against
  least squares with every row, and with every domain, counted once.
- **mean risk**: the change of the mean risk on unseen domains, against ordinary least squares.

{verdict}

## How to tell beforehand
```python
moments = eqrm.linear.DomainMoments.from_arrays(X, y, domain)
erm, qrm = eqrm.linear.LinearERM("rows"), eqrm.LinearQRM(alpha=0.9)
first, second = erm.cross_fitted_risks(moments), qrm.cross_fitted_risks(moments)
for difference in eqrm.evaluation.paired_differences(first, second, levels=[0.9]):
    print(difference.sentence)
```
1. The predicted change is measured on domains that were not used in the fit. If it is not a clear
   gain, stay with least squares.
2. `eqrm.evaluation.noise_split` of the risks: where little of their spread is real, the quantile
   is mostly noise and there is nothing to gain from it.
3. A .9-quantile of m domains rests on m/10 of them. With fewer than a few hundred domains, expect
   its estimate to be too poor to gain from it.
"""


def verdict(studies: Sequence[Study]) -> str:
    """On which tables it helps."""
    helps = [found.source.name for found in studies if found.helps()]
    return f"It helps on {', '.join(helps) or 'none of them'}; on the others no gain is clear."


def page(studies: Sequence[Study]) -> str:
    """The whole page."""
    sources = "\n".join(
        f"- {s.source.name} ({s.source.package}): {s.source.about}; "
        f"{s.source.target} from {', '.join(s.source.features)}."
        for s in studies
    )
    return PAGE.format(
        splits=len(studies[0].splits),
        least=LEAST_ROWS,
        table=markdown(HEADER, [s.cells() for s in studies]),
        sources=sources,
        verdict=verdict(studies),
    )


def main(arguments: list[str]) -> int:
    """Run all tables; 1 if the first, Chem97, shows no clear gain or every table does."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="Chem97 and bdf, 5 splits")
    parser.add_argument("--json", type=Path, default=Path("bench-output/linear_real_data.json"))
    parser.add_argument("--page", type=Path, help="also write the page of the docs")
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    sources = (MULTILEVEL[0], MULTILEVEL[-1]) if given.quick else MULTILEVEL
    studies = [study(source, 5 if given.quick else SPLITS) for source in sources]
    print(aligned(HEADER, [s.cells() for s in studies]))
    passed = studies[0].helps() and not all(s.helps() for s in studies)
    seconds = time.perf_counter() - start
    print(
        f"{'pass' if passed else 'FAIL'}: a clear gain on {studies[0].source.name}, and at least "
        f"one table without; {seconds:.0f} s"
    )
    rows = [dict(zip(HEADER, s.cells(), strict=True)) for s in studies]
    splits = {s.source.name: [asdict(split) for split in s.splits] for s in studies}
    content = {"passed": passed, "rows": rows, "splits": splits, "machine": machine()}
    write_json(given.json, {**content, "seconds": seconds})
    if given.page:
        given.page.write_text(page(studies), encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
