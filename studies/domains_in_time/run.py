"""The reproduction ``domains-in-time``: the class, its tables and its remarks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from eqrm.evaluation import recent_bound
from eqrm.evaluation.presenting.plots import ACCENT, INK, QUIET, new_figure
from studies.base import Study
from studies.domains_in_time.checks import check_in_time
from studies.domains_in_time.experiment import TimeFindings, run_simulations
from studies.domains_in_time.sequences import KINDS
from studies.domains_in_time.settings import (
    ALPHA,
    CONFIDENCE,
    DELTA,
    DEPENDENCES,
    DRIFTS,
    HALF_LIVES,
    SIZES,
    SPELL_DOMAINS,
)
from studies.outcome import Cell, Outcome, Picture, Progress, ResultTable, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DomainsInTime(Study):
    """Simulations behind every statement about domains in time."""

    name = "domains-in-time"
    title = "Domains in time: how often bounds hold and alarms ring"
    reproduces = (
        "The promises of this package for domains that come one after the other, in simulated "
        "worlds with a known truth"
    )
    sources = (
        "k-dependent domains: twice the mean of p-values is a p-value (Rüschendorf 1982; Vovk & "
        "Wang 2020)",
        "Recent domains: Conformal prediction beyond exchangeability (Barber, Candès, Ramdas & "
        "Tibshirani 2023)",
        "Online bounds: Adaptive conformal inference under distribution shift (Gibbs & Candès "
        "2021); Conformal PID control (Angelopoulos, Candès & Tibshirani 2023)",
        "The watch: Estimating means of bounded random variables by betting (Waudby-Smith & "
        "Ramdas 2024); conformal test martingales (Vovk, Gammerman & Shafer 2005)",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Simulate every world and count."""
        levels = {"alpha": ALPHA, "confidence": CONFIDENCE, "delta": DELTA}
        findings = run_simulations(sizes := SIZES[size], seed, progress)
        return Outcome(
            settings=asdict(sizes) | levels | {"domains in spells": SPELL_DOMAINS},
            checks=check_in_time(findings, sizes),
            tables=[
                dependent_table(findings),
                spells_table(findings),
                _told_table(findings),
                _drift_table(),
                _online_table(findings),
                _alarms_table(findings, sizes.watched),
                _delays_table(findings),
            ],
            pictures=[
                Picture(
                    "spells",
                    "How often bounds at a stated confidence of 95% hold in AR(1) worlds: the "
                    "plain certificate, and the bound for spells where it is given.",
                    lambda: draw_spells(findings),
                )
            ],
            remarks=_remarks(),
        )


def dependent_table(findings: TimeFindings) -> ResultTable:
    """A row per k, kind of sequence and number of domains; the worst of five laws."""
    rows: list[list[Cell]] = []
    for k in DEPENDENCES:
        for sequence, domains in dict.fromkeys(
            (each.sequence, each.domains) for each in findings.dependent if each.dependence == k
        ):
            cells = [
                each
                for each in findings.dependent
                if (each.dependence, each.sequence, each.domains) == (k, sequence, domains)
            ]
            held, plain = min(each.held for each in cells), min(each.plain for each in cells)
            rows.append([str(k), sequence, str(domains), percent(held), percent(plain)])
    columns = ["k", "sequence", "domains", "dependence=k", "plain certificate"]
    title = "k-dependent domains: how often bounds at 95% hold, the worst of five laws"
    return ResultTable("dependent", title, columns, rows)


def spells_table(findings: TimeFindings) -> ResultTable:
    """A row per world."""
    rows: list[list[Cell]] = [
        [
            each.world,
            each.expected or "nothing",
            "" if each.held is None else percent(each.held),
            percent(each.refused),
            percent(each.wrong),
            percent(each.plain),
            "" if each.block_length is None else f"{each.block_length:.1f}",
        ]
        for each in findings.spells
    ]
    columns = ["world", "promised", "holds where given", "refused", "given and wrong"]
    title = f"Spells: {SPELL_DOMAINS} domains, bounds at 95%"
    return ResultTable("spells", title, [*columns, "plain certificate", "block length"], rows)


def _told_table(findings: TimeFindings) -> ResultTable:
    rows: list[list[Cell]] = [
        [
            each.world,
            f"{100 * each.refused:g}%",
            *(percent(share) for share in each.served.values()),
            percent(each.best),
        ]
        for each in findings.told
    ]
    columns = ["world", "refused of stays of 10", *findings.told[0].served, "best possible test"]
    title = (
        f"What {SPELL_DOMAINS} domains can tell: worlds of short spells that are served where a "
        "share of the worlds with stays of 10 is refused"
    )
    return ResultTable("told", title, columns, rows)


def _drift_table() -> ResultTable:
    rows: list[list[Cell]] = []
    for half_life in HALF_LIVES:
        bound = recent_bound(np.arange(200), ALPHA, half_life)  # the same for any risks
        rows.append([f"{half_life:g}", *(percent(bound.probability(each)) for each in DRIFTS)])
    columns = ["half-life", *(f"drift {drift:g}" for drift in DRIFTS)]
    title = (
        "Weighted bounds: probability that the next domain is within the bound at 90%, by "
        "half-life and assumed drift in total variation per domain (200 domains)"
    )
    return ResultTable("recent", title, columns, rows)


def _online_table(findings: TimeFindings) -> ResultTable:
    rows: list[list[Cell]] = []
    for kind in KINDS:
        for method in ("adaptive", "tracking"):
            found = [e for e in findings.online if (e.kind, e.method) == (kind, method)]
            if found:
                reports = [each.bound.report for each in found]
                rates = [report.miss_rate for report in reports]
                rows.append(
                    [
                        kind,
                        method,
                        f"{percent(min(rates))} to {percent(max(rates))}",
                        percent(0.1 + reports[0].guarantee),
                        percent(float(np.mean([report.infinite for report in reports]))),
                        percent(float(np.mean([report.empty for report in reports]))),
                        percent(max(report.worst_recent_miss_rate for report in reports)),
                    ]
                )
    columns = ["sequence", "method", "miss rates", "guaranteed at most", "allow every risk"]
    title = "Online bounds at 90%: miss rates, and bounds that say nothing"
    return ResultTable("online", title, [*columns, "allow none", "worst of any 200 domains"], rows)


def _alarms_table(findings: TimeFindings, watched: int) -> ResultTable:
    rows: list[list[Cell]] = [
        [
            each.what,
            f"dependence={each.dependence}",
            percent(each.rang, 2),
            "nothing" if each.promised is None else f"{percent(each.promised)} at most",
        ]
        for each in [*findings.false_alarms, *findings.correlated]
    ]
    title = f"False alarms of the watch over {watched:,} domains at δ = {DELTA:g}"
    return ResultTable("alarms", title, ["domains", "watched with", "alarm", "promised"], rows)


def _delays_table(findings: TimeFindings) -> ResultTable:
    rows: list[list[Cell]] = [
        [
            percent(each.miss_rate),
            str(each.good_before),
            f"{each.median:g}",
            f"{each.by_power:g}",
            str(each.fixed),
        ]
        for each in findings.delays
    ]
    columns = ["misses (10% allowed)", "good domains before", "median delay", "80% rang by"]
    title = (
        "Detection: domains until the alarm, and how many the best test of a size fixed in "
        "advance needs for a power of 80%"
    )
    return ResultTable("delays", title, [*columns, "best fixed size"], rows)


def draw_spells(findings: TimeFindings) -> Figure:
    """Coverage by correlation in AR(1) worlds. Draws, computes nothing."""
    figure = new_figure(width=5.2, height=3.2)
    axes = figure.subplots()
    found = [each for each in findings.spells if each.world.startswith("AR(1)")]
    at = [float(each.world.split()[-1]) for each in found]
    given = [each.held if each.held is not None else np.nan for each in found]
    axes.plot(at, [each.plain for each in found], color=QUIET, marker="o", label="plain")
    axes.plot(at, given, color=INK, marker="o", label="spells, where given")
    axes.plot(at, [e.refused for e in found], color=ACCENT, linestyle=":", label="spells refused")
    axes.axhline(CONFIDENCE, color=QUIET, linewidth=0.8)
    axes.set_xlabel("correlation of neighbouring domains")
    axes.set_ylabel("share of worlds")
    figure.legend(frameon=False, loc="outside upper center", ncols=3)
    return figure


def _remarks() -> list[str]:
    return [
        "A threshold for each statistic of spells is chosen so that the named share of all three "
        "worlds with stays of 10 is refused. The best possible test is the likelihood ratio of the "
        "two worlds compared (for AR(1) the hardest pair), which knows means, noise and both "
        "lengths. No test can tell overlapping regimes with stays of 5 from those with stays of 10 "
        "reliably in 200 domains: there the bound is often refused where it need not be.",
        "A bad regime that rules a tenth of the time and was seen once or twice, or never, is "
        "beyond any bound that rests on the domains seen: the rows of the bad regime show how "
        "often the bound for spells is wrong there. Nothing is promised for it.",
        "An alarm after good domains comes later than one from the beginning, because the time of "
        "the change is not known and the false-alarm probability is for all times together.",
    ]
