"""Speed and memory of the KDE quantile, forward and backward, against named alternatives.

    python benchmarks/quantile.py [--quick] [--parts sizes rules memory] [--json FILE]

Competitors, all in one process and taking turns:

(a) Algorithm 1 as published: 32 steps of bisection under autograd (benchmarks/published.py), and
    the same without ``torch.distributions`` ("lean"), which nobody published;
(b) scipy's gaussian_kde inverted by brentq: the value only, it has no gradient;
(c) the plain mean of the risks, forward and backward: the least that any objective can cost;
(d) every other bandwidth rule against the default one, up to 1000 risks.

``KDE(risks).quantile(level).backward()`` is timed as a user writes it, checks included.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from memory import Memory, measure_memory, print_memory
from published import lean_quantile, published_quantile
from scipy.optimize import brentq
from scipy.stats import gaussian_kde
from tables import aligned, busy_warning, machine, write_json
from timing import Budget, Timing, interleaved
from torch import Tensor

import eqrm
from eqrm.distributions.bandwidths import BANDWIDTHS

COUNTS = (2, 10, 100, 1000, 44_930, 1_000_000, 10_000_000)
LEVELS = ("0.5", "0.75", "0.99", "1-e^-1000")
DEEP = "1-e^-1000"
LARGEST_FOR_BISECTION = 1_000_000
LARGEST_FOR_SCIPY = 44_930
LARGEST_GROWTH = 1.5
"""How much faster the cost may grow than the number of risks, or than the cost of their mean where
that grows faster still: it is linear, but beyond the caches every byte costs more."""

MEMORY_BOUND = 10.0

ROUNDS_OF_SLOW = 15
"""Turns of competitors that take tens of times as long. (Up to 2026-11-17 as many as the others, up
to 50: most of the time of this benchmark, for ratios that are far from their bounds.)"""

DEFAULT_RULE = "gaussian-optimal"
RULES: dict[str, object] = {
    **{name: name for name in BANDWIDTHS},
    "number 0.1": 0.1,
    "number 3": 3.0,
    "function": lambda risks, weights: (weights * risks).sum(-1) / 3.0,
}
"""By their names in the table. No bound applies to a function of the user's."""
RULE_COUNTS = (2, 10, 100, 1000)
PARTS = ("sizes", "rules", "memory")
RULE_BOUND = 2.0


@dataclass(frozen=True)
class Row:
    """The timings of all competitors for one number of domains and one level."""

    m: int
    level: str
    timings: dict[str, Timing]

    def ratio(self, slower: str, faster: str) -> float:
        """How many times the time of ``faster`` ``slower`` takes; NaN where one did not run."""
        if slower not in self.timings or faster not in self.timings:
            return math.nan
        return self.timings[slower].times(self.timings[faster])


@dataclass(frozen=True)
class Verdict:
    """One bound, the worst value measured against it, and whether it holds.

    A bound that was not measured neither holds nor fails.
    """

    text: str
    worst: float
    passed: bool | None

    @property
    def word(self) -> str:
        """PASS, FAIL, or SKIP where nothing was measured."""
        return "SKIP" if self.passed is None else "PASS" if self.passed else "FAIL"


def lognormal_risks(m: int, dtype: torch.dtype) -> Tensor:
    """The same lognormal risks in every run."""
    generator = torch.Generator().manual_seed(m)
    return torch.empty(m, dtype=dtype).log_normal_(generator=generator)


def scipy_quantile(risks: np.ndarray, alpha: float) -> float:
    """gaussian_kde with the Gaussian-optimal factor, inverted between safe ends."""
    factor = (4.0 / (3.0 * len(risks))) ** 0.2
    estimate = gaussian_kde(risks, bw_method=factor)
    reach = 10.0 * factor * risks.std(ddof=1)
    low, high = float(risks.min() - reach), float(risks.max() + reach)
    return float(brentq(lambda x: estimate.integrate_box_1d(-np.inf, x) - alpha, low, high))


def competitors(m: int, level_text: str, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """What takes turns at this size and level."""
    risks = lognormal_risks(m, dtype).requires_grad_()
    values = risks.detach().double().numpy()
    level = eqrm.Level.parse(level_text)

    def forward_backward(objective: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def action() -> None:
            risks.grad = None
            objective(risks).backward()

        return action

    actions: dict[str, Callable[[], object]] = {
        "eqrm": forward_backward(lambda r: eqrm.KDE(r).quantile(level)),
        "mean": forward_backward(lambda r: r.mean()),
    }
    if level_text != DEEP and m <= LARGEST_FOR_BISECTION:
        alpha = level.alpha
        actions["published"] = forward_backward(lambda r: published_quantile(r, alpha))
        actions["lean"] = forward_backward(lambda r: lean_quantile(r, alpha))
    if level_text != DEEP and m <= LARGEST_FOR_SCIPY:
        actions["scipy"] = lambda: scipy_quantile(values, level.alpha)
    return actions


def measure_row(m: int, level: str, dtype: torch.dtype, quick: bool) -> Row:
    """Time all competitors at one size and level."""
    few = m <= 1000  # they need one thread: the time of the processor, whatever else it does
    rounds = 7 if quick or m > 1_000_000 else 50 if few else 25
    budget = Budget(
        rounds=rounds,
        burst=0.004 if quick else 0.02,
        longest=3.0 if quick else 6.0,
        pause=0.01 if few else 0.05,
    )
    clock = time.process_time if few else time.perf_counter
    slow = dict.fromkeys(("published", "lean", "scipy"), min(rounds, ROUNDS_OF_SLOW))
    return Row(
        m,
        level,
        interleaved(competitors(m, level, dtype), budget, clock=clock, fewer_rounds=slow),
    )


def measure_rules(m: int, level_text: str, quick: bool) -> Row:
    """Time the quantile with every bandwidth rule at one size and level."""
    risks = lognormal_risks(m, torch.float64).requires_grad_()
    level = eqrm.Level.parse(level_text)

    def action(bandwidth: Any) -> Callable[[], None]:
        def forward_backward() -> None:
            risks.grad = None
            eqrm.KDE(risks, bandwidth=bandwidth).quantile(level).backward()

        return forward_backward

    budget = Budget(rounds=7 if quick else 25, burst=0.004 if quick else 0.005, pause=0.01)
    actions = {name: action(bandwidth) for name, bandwidth in RULES.items()}
    # So few risks need one thread only: the time of the processor, whatever else it does.
    return Row(m, level_text, interleaved(actions, budget, clock=time.process_time))


def print_rules(rows: list[Row]) -> None:
    """Milliseconds of the default rule, and the cost of the others as a multiple of it."""
    others = [name for name in RULES if name != DEFAULT_RULE]
    cells = [
        [
            f"{row.m}",
            row.level,
            _number(row.timings[DEFAULT_RULE].milliseconds),
            *(f"{row.ratio(name, DEFAULT_RULE):.2f}" for name in others),
        ]
        for row in rows
    ]
    print(aligned(["m", "level", f"{DEFAULT_RULE} ms", *others], cells))


def rule_verdict(rows: list[Row]) -> Verdict:
    """The bound on what a rule may cost."""
    ratios = [row.ratio(name, DEFAULT_RULE) for row in rows for name in RULES if name != "function"]
    text = f"any bandwidth rule / the default rule <= {RULE_BOUND:g} for m <= 1000"
    return _bound(text, ratios, lambda v: v <= RULE_BOUND, False)


def _number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def print_rows(rows: list[Row]) -> None:
    """Milliseconds and ratios, a line per number of domains and level."""
    header = ["m", "level", "eqrm ms", "published", "lean", "scipy", "mean"]
    header += ["published/eqrm", "lean/eqrm", "scipy/eqrm", "eqrm/mean"]
    cells = []
    for row in rows:
        times = [
            _number(row.timings[name].milliseconds) if name in row.timings else "-"
            for name in ("eqrm", "published", "lean", "scipy", "mean")
        ]
        ratios = [_number(row.ratio(name, "eqrm")) for name in ("published", "lean", "scipy")]
        cells.append([f"{row.m}", row.level, *times, *ratios, _number(row.ratio("eqrm", "mean"))])
    print(aligned(header, cells))


def growth(rows: list[Row], name: str = "eqrm") -> list[tuple[str, int, int, float]]:
    """(level, m, next m, time ratio) of a competitor between neighbouring sizes."""
    found = []
    for level in dict.fromkeys(row.level for row in rows):
        line = [row for row in rows if row.level == level]
        for small, large in pairwise(line):
            ratio = large.timings[name].median / small.timings[name].median
            found.append((level, small.m, large.m, ratio))
    return found


def print_growth(rows: list[Row]) -> None:
    """How the cost grows between neighbouring sizes, with the exponent of m."""
    cells = [
        [
            level,
            f"{small} -> {large}",
            f"{large / small:.1f}x",
            f"{ratio:.2f}x",
            f"{math.log(ratio) / math.log(large / small):.2f}",
        ]
        for level, small, large, ratio in growth(rows)
    ]
    print(aligned(["level", "domains", "risks grow", "time grows", "exponent"], cells))


def _bound(text: str, values: list[float], holds: Callable[[float], bool], least: bool) -> Verdict:
    measured = [v for v in values if not math.isnan(v)]
    if not measured:
        return Verdict(f"{text} (not measured in this run)", math.nan, None)
    worst = min(measured) if least else max(measured)
    return Verdict(text, worst, holds(worst))


def speed_verdicts(rows: list[Row]) -> list[Verdict]:
    """The bounds on speed."""
    plain = [row for row in rows if row.level != DEEP]
    deep = [row for row in rows if row.level == DEEP]
    small = [row.ratio("published", "eqrm") for row in plain if row.m <= 44_930]
    million = [row.ratio("published", "eqrm") for row in plain if row.m == 1_000_000]
    mean = [row.ratio("eqrm", "mean") for row in plain if row.m <= 1000]
    deep_mean = [row.ratio("eqrm", "mean") for row in deep if row.m <= 1000]
    mean_million = [row.ratio("eqrm", "mean") for row in plain if row.m == 1_000_000]
    largest = [
        ratio / max(large_m / small_m, of_mean)
        for (_, small_m, large_m, ratio), (*_, of_mean) in zip(
            growth(rows), growth(rows, "mean"), strict=True
        )
        if small_m >= 44_930
    ]
    return [
        _bound("published/eqrm >= 25 for m <= 44,930", small, lambda v: v >= 25, True),
        _bound("published/eqrm >= 30 at m = 1e6", million, lambda v: v >= 30, True),
        _bound("eqrm/mean <= 2.8 for m <= 1000", mean, lambda v: v <= 2.8, False),
        _bound("eqrm/mean <= 8 at 1-e^-1000, m <= 1000", deep_mean, lambda v: v <= 8, False),
        _bound("eqrm/mean <= 5 at m = 1e6", mean_million, lambda v: v <= 5, False),
        _bound(
            f"growth of time / growth of m (or of the mean's time) <= {LARGEST_GROWTH:g}",
            largest,
            lambda v: v <= LARGEST_GROWTH,
            False,
        ),
    ]


def memory_verdict(measured: list[Memory]) -> Verdict:
    """The bound on memory."""
    text = f"extra memory / risks <= {MEMORY_BOUND:g}"
    return _bound(text, [m.ratio for m in measured], lambda v: v <= MEMORY_BOUND, False)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, up to 1e6 risks")
    parser.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        default="float64",
        help="type of the risks; eqrm computes in float64 either way (default: float64)",
    )
    parser.add_argument("--counts", type=int, nargs="+", help="numbers of domains to measure")
    parser.add_argument("--levels", nargs="+", default=list(LEVELS))
    parser.add_argument(
        "--parts",
        choices=PARTS,
        nargs="+",
        default=list(PARTS),
        help="what to measure: speed by size, bandwidth rules, memory (default: all)",
    )
    parser.add_argument("--json", type=Path, default=Path("bench-output/quantile.json"))
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measure, print, store; 1 when a bound does not hold."""
    options = parse(arguments)
    dtype: torch.dtype = getattr(torch, options.dtype)
    counts = options.counts or [m for m in COUNTS if m <= 1_000_000 or not options.quick]
    here = machine()
    print(f"KDE quantile, forward + backward, {options.dtype}, lognormal risks, milliseconds")
    print(", ".join(f"{key} {value}" for key, value in here.items()), end="\n\n")
    here["warning"] = busy_warning()
    if here["warning"]:
        print(here["warning"], end="\n\n")
    rows = []
    for m in counts if "sizes" in options.parts else []:
        for level in options.levels:
            rows.append(measure_row(m, level, dtype, options.quick))
            print(f"  measured m = {m}, level {level}", file=sys.stderr, flush=True)
    if rows:
        print_rows(rows)
        print()
        print_growth(rows)
        print()
    rules = [
        measure_rules(m, level, options.quick)
        for m in (RULE_COUNTS if "rules" in options.parts else ())
        for level in options.levels
    ]
    if rules:
        print_rules(rules)
        print()
    measured = measure_memory(options.quick) if "memory" in options.parts else []
    if measured:
        print_memory(measured)
        print()
    verdicts = [*speed_verdicts(rows), rule_verdict(rules), memory_verdict(measured)]
    for verdict in verdicts:
        print(f"{verdict.word} {verdict.text}: {_number(verdict.worst)}")
    write_json(options.json, _content(here, options.dtype, rows, rules, measured, verdicts))
    print(f"\nwritten to {options.json}")
    return 0 if all(verdict.passed is not False for verdict in verdicts) else 1


def _content(
    here: dict[str, str],
    dtype: str,
    rows: list[Row],
    rules: list[Row],
    measured: list[Memory],
    verdicts: list[Verdict],
) -> dict[str, object]:
    def times(row: Row) -> dict[str, object]:
        return {"m": row.m, "level": row.level, **{k: t.as_dict() for k, t in row.timings.items()}}

    return {
        "machine": here,
        "dtype": dtype,
        "rows": [times(row) for row in rows],
        "rules": [times(row) for row in rules],
        "growth": [
            {"level": level, "from": small, "to": large, "time_ratio": ratio}
            for level, small, large, ratio in growth(rows)
        ],
        "memory": [
            {"m": x.m, "dtype": x.dtype, "log_tail": x.log_tail, "ratio": x.ratio} for x in measured
        ],
        "verdicts": [
            {"bound": v.text, "worst": None if math.isnan(v.worst) else v.worst, "passed": v.passed}
            for v in verdicts
        ],
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
