"""The reproduction ``intervals``: the class, its checks, its tables and its remarks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from studies.base import Study
from studies.interval_coverage.coverage import (
    CHANGE,
    ONE,
    REFERENCES,
    TWO,
    CoveredInterval,
    IntervalCase,
    bootstrap_coverage,
    interval_coverage,
)
from studies.interval_coverage.worlds import LAWS
from studies.outcome import Cell, Check, Outcome, Progress, ResultTable, percent

CONFIDENCE = 0.95
DOMAINS = (10, 20, 30, 100, 300)
OTHERS = (0.8, 0.99)
"""Other confidences, tried with :data:`OTHER_DOMAINS`."""
OTHER_DOMAINS = (30, 100)
MANY = (100, 300)
"""Numbers of domains with which widths are compared."""
SLACK = 0.02
"""By how much an interval may hold less often than stated."""
WIDEST = 2.5
"""The most by which intervals may be wider than the bootstrap's, on average over laws."""
FEWEST_FOR_MEAN, FEWEST_AT_99, FEWEST_IN_TAIL = 30, 44, 10
"""Domains that a mean needs at 95% and at 99%, and a superquantile beyond its level."""
Key = tuple[str, str]


class CoverageSettings(NamedTuple):
    """How many worlds of each case are simulated, and how many of them bootstrapped as well."""

    worlds: int
    bootstrapped: int


RUNS = {"full": CoverageSettings(2000, 300), "quick": CoverageSettings(60, 10)}
"""By size."""


@dataclass(frozen=True)
class CoverageFound:
    """Intervals of the package, and percentiles of a bootstrap in the same worlds."""

    ours: list[CoveredInterval]
    bootstrap: list[CoveredInterval]

    @property
    def main(self) -> list[CoveredInterval]:
        """Ours, at the main confidence."""
        return [each for each in self.ours if each.case.confidence == CONFIDENCE]

    @property
    def kinds(self) -> list[Key]:
        """What is bounded: of one predictor, differences, changes."""
        found = dict.fromkeys((each.what, each.label) for each in self.ours)
        return [key for what in (ONE, TWO, CHANGE) for key in found if key[0] == what]


class IntervalCoverage(Study):
    """Simulations behind every confidence interval that the package prints."""

    name = "intervals"
    title = "Intervals: how often they hold, and how wide they are"
    sources = (
        "Skewness-corrected t: Modified t tests and confidence intervals for asymmetrical "
        "populations (Johnson 1978); On the removal of skewness by transformation (Hall 1992)",
        "Superquantile as a mean: Optimization of conditional value-at-risk (Rockafellar & "
        "Uryasev 2000)",
        "Likelihood ratio of two quantiles: The large-sample distribution of the likelihood ratio "
        "for testing composite hypotheses (Wilks 1938)",
    )
    reproduces = (
        "The promise of this package that a confidence interval holds as often as it says, less "
        "two points, in simulated worlds with a known truth"
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Simulate every case and count."""
        settings = RUNS[size]
        found = intervals_simulated(settings, seed, progress)
        return Outcome(
            settings=settings._asdict()
            | {"confidence": CONFIDENCE, "domains": ", ".join(map(str, DOMAINS)), "seed": seed},
            checks=interval_checks(found, settings.worlds),
            tables=[
                worst_table(found.main, "coverage", "Intervals at 95%: how often they hold", True),
                worst_table(
                    found.bootstrap,
                    "bootstrap",
                    "For comparison, percentiles of a bootstrap over domains",
                ),
                width_table(found),
                other_table(found),
                *(law_table(found.main, what) for what in (ONE, TWO)),
            ],
            pictures=[],
            remarks=_remarks(),
        )


def intervals_simulated(settings: CoverageSettings, seed: int, progress: Progress) -> CoverageFound:
    """Every case, each with seeds of its own."""
    cases = [IntervalCase(law, m, CONFIDENCE) for m in DOMAINS for law in LAWS]
    others = [IntervalCase(law, m, c) for c in OTHERS for m in OTHER_DOMAINS for law in LAWS]
    ours: list[CoveredInterval] = []
    bootstrap: list[CoveredInterval] = []
    for number, case in enumerate([*cases, *others]):
        progress(number / len(cases + others), f"{case.law}, {case.domains} domains")
        ours += interval_coverage(case, settings.worlds, seed)
        if case.confidence == CONFIDENCE:
            bootstrap += bootstrap_coverage(case, settings.bootstrapped, seed)
    return CoverageFound(ours, bootstrap)


def interval_checks(found: CoverageFound, worlds: int) -> list[Check]:
    """What the simulations must show; with few worlds, up to 4 standard errors."""
    checks = []
    for what in (ONE, TWO, CHANGE):
        same = [each for each in found.main if each.what == what]
        given = [each for each in same if each.given]
        checks.append(
            _held(
                f"intervals at 95% hold ({_WORDS[what]}), {len(given)} combinations of statistic, "
                f"law and number of domains",
                given,
                worlds,
            )
        )
    checks += [
        _held(
            f"intervals at {100 * confidence:g}% hold",
            [each for each in found.ours if each.case.confidence == confidence and each.given],
            worlds,
        )
        for confidence in OTHERS
    ]
    early = [e for e in found.ours if e.both and e.case.domains < e.needed]
    worst = min(found.bootstrap, key=lambda each: each.coverage)
    ratios = {m: max(_ratios(found, m).values()) for m in MANY}
    return [
        *checks,
        Check(
            "no interval has two ends where there are fewer domains than it needs",
            not early,
            f"{len(early)} of {len(found.ours)}",
            "none",
            "refusals",
        ),
        Check(
            "percentiles of a bootstrap do not hold as often as stated",
            worst.coverage < CONFIDENCE - SLACK,
            f"in {percent(worst.coverage)} of worlds at worst ({_place(worst)})",
            f"below {percent(CONFIDENCE - SLACK)}",
            "the defect",
        ),
        Check(
            "with 100 domains and more, intervals are not much wider than the bootstrap's",
            max(ratios.values()) <= WIDEST,
            ", ".join(f"{m} domains: {ratio:.2f} times at most" for m, ratio in ratios.items()),
            f"at most {WIDEST:g} times, on average over laws",
            "use",
        ),
    ]


_WORDS = {
    ONE: "mean, quantiles and superquantiles of one predictor",
    TWO: "differences between two predictors, paired by domain",
    CHANGE: "changes of a quantile, as shares of a reference's",
}


def _held(claim: str, given: Sequence[CoveredInterval], worlds: int) -> Check:
    worst = min(given, key=lambda each: each.coverage - each.case.confidence)
    stated = worst.case.confidence
    least = stated - SLACK
    slack = 4.0 * math.sqrt(stated * (1.0 - stated) / worlds) if worlds < 1000 else 0.0
    return Check(
        claim,
        worst.coverage >= least - slack,
        f"in {percent(worst.coverage)} of worlds at worst ({_place(worst)})",
        f"{percent(least)}{' less the error of the simulation' if slack else ''}",
        "coverage",
    )


def _place(each: CoveredInterval) -> str:
    return f"{each.what}, {each.label}, {each.case.law}, {each.case.domains} domains"


def worst_table(
    counted: Sequence[CoveredInterval], name: str, title: str, leading: bool = False
) -> ResultTable:
    """A row per kind of interval, a column per number of domains: the worst of all laws."""
    rows: list[list[Cell]] = []
    for what, label in dict.fromkeys((each.what, each.label) for each in counted):
        row: list[Cell] = [what, label]
        for m in DOMAINS:
            same = [e for e in counted if (e.what, e.label, e.case.domains) == (what, label, m)]
            worst = min(same, key=lambda each: each.coverage)
            text = percent(worst.coverage)
            if not any(each.given for each in same):
                text = f"refused ({worst.needed:g} needed)"
            elif m < worst.needed:
                text += " (one end)"
            row.append(text)
        rows.append(row)
    columns = ["of", "statistic", *(f"{m} domains" for m in DOMAINS)]
    return ResultTable(
        name, f"{title}, at worst over {len(LAWS)} laws", columns, rows, leading=leading
    )


def law_table(counted: Sequence[CoveredInterval], what: str) -> ResultTable:
    """A row per law and number of domains, a column per statistic."""
    same = [each for each in counted if each.what == what]
    labels = list(dict.fromkeys(each.label for each in same))
    rows: list[list[Cell]] = []
    for law in LAWS:
        for m in DOMAINS:
            row = {e.label: e for e in same if (e.case.law, e.case.domains) == (law, m)}
            texts = [percent(row[label].coverage) if row[label].given else "–" for label in labels]
            rows.append([law, str(m), *texts])
    title = f"Every law, {what}: how often intervals at 95% hold (–: refused)"
    return ResultTable(
        f"laws-{what.split()[0]}", title, ["law", "domains", *labels], rows, folded=True
    )


def _ratios(found: CoverageFound, domains: int) -> dict[Key, float]:
    """The mean width over that of the bootstrap, averaged over laws, by kind."""
    widths = {(e.what, e.label, e.case): e.mean_width for e in found.bootstrap}
    ratios: dict[Key, list[float]] = {}
    for each in found.main:
        other = widths.get((each.what, each.label, each.case), 0.0)
        if each.case.domains == domains and each.both == each.worlds and other > 0.0:
            ratios.setdefault((each.what, each.label), []).append(each.mean_width / other)
    return {key: sum(own) / len(own) for key, own in ratios.items()}


def width_table(found: CoverageFound) -> ResultTable:
    """Mean widths over those of the bootstrap, averaged over laws."""
    by_number = {m: _ratios(found, m) for m in MANY}
    rows: list[list[Cell]] = [
        [*key, *(f"{by_number[m][key]:.2f}" if key in by_number[m] else "" for m in MANY)]
        for key in found.kinds
        if any(key in ratios for ratios in by_number.values())
    ]
    columns = ["of", "statistic", *(f"{m} domains" for m in MANY)]
    title = "Mean width over that of the bootstrap's percentiles, averaged over laws"
    return ResultTable("widths", title, columns, rows)


def other_table(found: CoverageFound) -> ResultTable:
    """The worst of all laws and numbers of domains, at other confidences."""
    rows: list[list[Cell]] = []
    for key in found.kinds:
        row: list[Cell] = [*key]
        for confidence in OTHERS:
            same = [
                e
                for e in found.ours
                if (e.what, e.label) == key and e.case.confidence == confidence and e.given
            ]
            row.append(percent(min(each.coverage for each in same)) if same else "refused")
        rows.append(row)
    tried = " and ".join(map(str, OTHER_DOMAINS))
    title = f"Other confidences, at worst over {len(LAWS)} laws with {tried} domains"
    return ResultTable(
        "confidences", title, ["of", "statistic", *(f"{100 * c:g}%" for c in OTHERS)], rows
    )


def _remarks() -> list[str]:
    return [
        "An end that domains cannot support is open (a question mark in tables); with two open "
        "ends the interval is refused. A world in which it is refused because all risks are equal "
        "counts as one in which nothing false is stated.",
        f"A mean needs {FEWEST_FOR_MEAN} domains, and {FEWEST_AT_99} at 99%: of fewer, one "
        "in ten that differs from the others by much may be missing altogether, and no interval "
        f"computed from the rest can know. A superquantile needs {FEWEST_IN_TAIL} domains beyond "
        "its level as well; with fewer it has a lower end alone, that of the quantile.",
        "Quantiles hold whatever the law: of one predictor by order statistics, exactly; of two by "
        "a likelihood ratio of the counts below both quantiles, in the limit of many domains. The "
        "limit is that of the least favourable law. Where densities hardly change around the "
        "quantiles it is too cautious; where one jumps there, no smaller one holds.",
        "Means and superquantiles cannot hold for every law: for every number of domains there is "
        "one with a tail too rare to be seen. They hold in the laws tried here, skewness of 6 and "
        "infinite skewness included.",
        f"'Best of {REFERENCES}' is the change from the reference with the lowest estimate, among "
        "as many independent ones of the same law: what a verdict prints was chosen by the same "
        "domains.",
        "Domains are independent draws. Where they are not (domains in time, members of groups), "
        "use the certificates made for that.",
    ]
