"""What the simulations must show."""

from __future__ import annotations

import math

from studies.domains_in_time import settings as promised
from studies.domains_in_time.experiment import TimeFindings
from studies.domains_in_time.settings import TimeSettings
from studies.outcome import Check


def check_in_time(findings: TimeFindings, settings: TimeSettings) -> list[Check]:
    """The promises of certificates, bounds and the watch, in order."""
    return [
        *_check_dependent(findings, settings),
        *_check_spells(findings, settings),
        _check_recent(findings, settings),
        _check_online(findings),
        *_check_alarms(findings, settings),
    ]


def _error(share: float, worlds: int) -> float:
    """4 standard errors of a simulated share: of hundreds of cases none should exceed it."""
    return 4.0 * math.sqrt(max(share * (1.0 - share), 1e-4) / worlds)


def _check_dependent(findings: TimeFindings, settings: TimeSettings) -> list[Check]:
    source = "k-dependent domains"
    worst = min(findings.dependent, key=lambda each: each.held)
    return [
        Check(
            "domains needed for k = 0, 1, 2, 5",
            findings.needed == promised.NEEDED and all(findings.refused_below.values()),
            ", ".join(map(str, findings.needed.values())),
            f"{', '.join(map(str, promised.NEEDED.values()))}, and one fewer refused",
            source,
        ),
        Check(
            "bounds for k-dependent domains hold as often as stated",
            worst.held >= promised.CONFIDENCE - _error(promised.CONFIDENCE, settings.worlds),
            f"in {100 * worst.held:.1f}% of worlds at worst ({worst.sequence}, {worst.law}, "
            f"k = {worst.dependence}, {worst.domains} domains)",
            f"{100 * promised.CONFIDENCE:g}% less the error of the simulation",
            source,
        ),
    ]


def _check_spells(findings: TimeFindings, settings: TimeSettings) -> list[Check]:
    source = "domains in spells"
    given = [each for each in findings.spells if each.expected == "given"]
    long = [each for each in findings.spells if each.expected == "refused"]
    worst = min(given, key=lambda each: each.held or 0.0)
    told = [each for each in given if each.world != promised.NOT_TOLD]
    rarest = max(told, key=lambda each: each.refused)
    least, wrong = min(long, key=lambda e: e.refused), max(long, key=lambda e: e.wrong)
    # The full size has as many worlds as the promise names; fewer are allowed their error.
    error = _error(0.9, settings.spell_worlds) if settings.spell_worlds < 1000 else 0.0
    rows = [
        (
            "bounds for spells hold: AR(1) up to 0.7, regimes with stays of up to 5",
            (worst.held or 0.0) >= promised.SPELL_COVERAGE - error,
            f"in {_percent(worst.held or 0.0)} of worlds at worst ({worst.world})",
            f"{_percent(promised.SPELL_COVERAGE)}",
        ),
        (
            "regimes with stays of 10 domains and more are refused",
            least.refused >= promised.LONG_REFUSED - error,
            f"in {_percent(least.refused)} of worlds at worst ({least.world})",
            f"{_percent(promised.LONG_REFUSED)} of worlds",
        ),
        (
            "a bound is given and wrong in few worlds with such stays",
            wrong.wrong <= promised.LONG_WRONG + error,
            f"in {_percent(wrong.wrong)} at worst ({wrong.world})",
            f"at most {_percent(promised.LONG_WRONG)}",
        ),
        (
            f"a bound is given for short spells (all but {promised.NOT_TOLD})",
            1.0 - rarest.refused >= promised.SHORT_GIVEN - error,
            f"in {_percent(1.0 - rarest.refused)} at worst ({rarest.world})",
            f"{_percent(promised.SHORT_GIVEN)} of worlds",
        ),
    ]
    return [Check(*row, source) for row in rows]


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _check_recent(findings: TimeFindings, settings: TimeSettings) -> Check:
    worst = min(findings.recent, key=lambda each: each.held - each.promised)
    return Check(
        "weighted bounds hold with the tabulated probability",
        worst.held >= worst.promised - _error(worst.promised, settings.worlds),
        f"{100 * worst.held:.1f}% where {100 * worst.promised:.1f}% are computed, at worst "
        f"(drift {worst.drift:g}, half-life {worst.half_life:g})",
        "the probability less the error of the simulation",
        "recent domains",
    )


def _check_online(findings: TimeFindings) -> Check:
    worst = max(findings.online, key=lambda each: each.beyond)
    return Check(
        f"miss rates of online bounds are within the guarantee at all times, "
        f"{len(findings.online)} sequences",
        worst.beyond <= 1e-9,
        f"{worst.beyond:+.4f} beyond it at worst ({worst.kind}, {worst.method})",
        "0 or less",
        "online bounds",
    )


def _check_alarms(findings: TimeFindings, settings: TimeSettings) -> list[Check]:
    return [
        Check(
            f"{each.what} (dependence={each.dependence})",
            each.rang <= each.promised + _error(each.promised, settings.worlds),
            f"{100 * each.rang:.2f}% of worlds",
            f"at most {100 * each.promised:.3g}% and the error of the simulation",
            "false alarms",
        )
        for each in findings.false_alarms
        if each.promised is not None
    ]
