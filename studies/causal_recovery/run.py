"""The reproduction ``causal-recovery``: the class, its tables, its figure and its remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eqrm.evaluation.presenting.plots import INK, QUIET, new_figure, shades
from studies.base import Study
from studies.causal_recovery.checks import (
    check_case,
    check_random_domains,
    check_table,
    check_three_domains,
    pair,
    paper_agrees,
    paper_words,
    recovered,
)
from studies.causal_recovery.limits import Solved, solve_case
from studies.causal_recovery.settings import (
    ANTI_CAUSAL,
    CASES,
    CAUSAL,
    LEVELS,
    METHODS,
    PENALTY_WEIGHTS,
    ROWS,
    SIGMAS,
    SIZES,
    RecoverySettings,
)
from studies.outcome import Cell, Outcome, Picture, Progress, ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class CausalRecovery(Study):
    """The table of appendix G.1.2 and its seven cases."""

    name = "causal-recovery"
    title = "Causal recovery: which noises change, and what invariant risk then finds"
    reproduces = "Appendix G.1.2: the table and the seven cases of changing σ"
    sources = (
        "Claims: Probable Domain Generalization via Quantile Risk Minimization (NeurIPS 2022), "
        "appendix G.1.2",
        "Truth: derived from the appendix's own formula of the risk, in `settings.py`",
        "The σ's of the domains: ours, the paper names none",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Solve every case from population moments; the seed chooses the random domains."""
        settings = SIZES[size]
        solved = []
        for index, case in enumerate(CASES):
            progress(0.5 * index / len(CASES), f"{case.name} changes")
            solved.append(solve_case(case))
        progress(0.5, "random domains")
        three, counts = check_three_domains(settings, seed)
        checks = [
            *(check for each in solved for check in check_case(each, settings)),
            *check_table(solved, settings),
            *check_random_domains(settings, seed),
            *three,
        ]
        return Outcome(
            settings={
                "σ in the domains": SIGMAS,
                "σ where it does not change": "σ1 = 1, σY = √2, σ2 = 1 unless the case says",
                "EQRM's levels": [str(level) for level in LEVELS],
                "penalty weights of VREx and IRM": PENALTY_WEIGHTS,
                "random sets of domains per case": settings.draws,
            },
            checks=checks,
            tables=[cases_table(solved, settings), ticks_table(solved, settings)],
            pictures=[
                Picture(
                    "coefficients",
                    "EQRM's coefficients from α = 0.9 to 1 − e^−1e8 (dots), and the predictors "
                    "the paper speaks of.",
                    lambda: draw_ways(solved),
                )
            ],
            remarks=_remarks(counts, settings),
        )


def draw_ways(solved: Sequence[Solved]) -> Figure:
    """EQRM's coefficients as α → 1, in the plane of cause and effect.

    Draws, computes nothing.
    """
    figure = new_figure(width=7.0, height=4.2)
    axes = figure.subplots()
    axes.plot([1, 0], [0, 1], color=QUIET, linestyle=":", linewidth=1)
    for (first, second), name in ((CAUSAL, "causal"), (ANTI_CAUSAL, "anti-causal")):
        axes.plot([first], [second], "*", color=INK, markersize=14)
        axes.annotate(name, (first, second), xytext=(8, 6), textcoords="offset points")
    for index, (each, colour) in enumerate(zip(solved, shades(len(solved)), strict=True)):
        cause, effect = each.path.coefficients.T
        style = "o-" if index % 2 else "o--"  # some ways lie on each other
        size = 7 - 0.5 * index
        axes.plot(cause, effect, style, color=colour, markersize=size, label=each.case.name)
    axes.set_xlabel("β1, the cause's coefficient")
    axes.set_ylabel("β2, the effect's coefficient")
    axes.set_xlim(-0.1, 1.25)
    axes.set_ylim(-0.1, 1.15)
    figure.legend(frameon=False, loc="outside right upper", title="changing")
    return figure


def cases_table(solved: Sequence[Solved], settings: RecoverySettings) -> ResultTable:
    """The seven cases, the first in three parts."""
    rows: list[list[Cell]] = []
    for each in solved:
        case, decided = each.case, each.decided
        risk = "" if case.paper is None else f"{float(each.moments.risks(case.paper).mean()):.4f}"
        rows.append(
            [
                case.name,
                paper_words(case),
                risk,
                pair(decided.coefficients),
                "" if decided.coefficients is None else f"{decided.risk:.4f}",
                pair(each.eqrm),
                pair(each.vrex),
                pair(each.irm),
                "holds" if paper_agrees(each, settings.exact) else "does not hold",
            ]
        )
    columns = ["changing", "paper", "its risk", "minimal invariant risk", "risk"]
    columns += ["EQRM, α → 1", "VREx", "IRM", "the paper's claim"]
    return ResultTable("cases", "The seven cases: β1 (cause), β2 (effect)", columns, rows)


def ticks_table(solved: Sequence[Solved], settings: RecoverySettings) -> ResultTable:
    """The paper's table: its ticks, and where the methods end here."""
    by_name = {each.case.name: each for each in solved}
    rows: list[list[Cell]] = []
    for row in ROWS:
        found = recovered(by_name[row.case], settings.near)
        cells: list[Cell] = [row.case, "homo" if row.homoskedastic else "hetero"]
        cells += [row.invariant_risk, row.invariant_function]
        for printed, ours in zip(row.paper_recovers, found, strict=True):
            cells += [printed, ours]
        rows.append(cells)
    columns = ["changing", "scedasticity", "invariant risk", "invariant function"]
    for method in METHODS:
        columns += [f"{method}, paper", f"{method}, here"]
    return ResultTable("recovery", "The table: is the causal predictor recovered?", columns, rows)


def _remarks(counts: Counter[str], settings: RecoverySettings) -> list[str]:
    """Where the paper errs."""
    some = settings.draws - counts["none"]
    return [
        "Only σ1 changes: the appendix names the causal predictor (σY < σ2), the anti-causal one "
        "(σY > σ2) or a continuum (σY = σ2). Along β1 + β2 = 1 the risk is a parabola in β2, so "
        "the minimum is unique, β2 = σY²/(σY² + σ2²), and none of these. All three methods "
        "converge to it: the ticks in the table's first row need further assumptions, which are "
        "not part of this case.",
        "All three σ change: the appendix says there is no invariant-risk predictor. That holds "
        "for four or more domains in general position. For three it can fail, on an open set of "
        f"σ's: {some} of {settings.draws} random triples have one.",
        "σ2 and σY change: with three or more domains in general position there is none, as "
        "printed; with two there may be.",
    ]
