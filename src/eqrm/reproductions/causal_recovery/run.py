"""The reproduction ``causal-recovery``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from eqrm.reproductions.base import Cell, Outcome, Picture, Progress, Reproduction, Table
from eqrm.reproductions.causal_recovery.checks import (
    check_case,
    check_random_domains,
    check_table,
    check_three_domains,
    pair,
    paper_agrees,
    paper_words,
    recovered,
)
from eqrm.reproductions.causal_recovery.drawing import draw_ways
from eqrm.reproductions.causal_recovery.expected import CASES, METHODS, ROWS
from eqrm.reproductions.causal_recovery.limits import Solved, solve
from eqrm.reproductions.causal_recovery.settings import (
    LEVELS,
    PENALTY_WEIGHTS,
    SETTINGS,
    SIGMAS,
    Settings,
)


class CausalRecovery(Reproduction):
    """The table of appendix G.1.2 and its seven cases."""

    name = "causal-recovery"
    title = "Causal recovery: which noises change, and what invariant risk then finds"
    reproduces = "Appendix G.1.2: the table and the seven cases of changing σ"
    sources = (
        "Claims: Probable Domain Generalization via Quantile Risk Minimization (NeurIPS 2022), "
        "appendix G.1.2",
        "Truth: derived from the appendix's own formula of the risk, in `expected.py`",
        "The σ's of the domains: ours, the paper names none",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Solve every case from population moments; the seed chooses the random domains."""
        settings = SETTINGS[size]
        solved = []
        for index, case in enumerate(CASES):
            progress(0.5 * index / len(CASES), f"{case.name} changes")
            solved.append(solve(case))
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
            remarks=remarks(counts, settings),
        )


def cases_table(solved: Sequence[Solved], settings: Settings) -> Table:
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
    columns += ["EQRM, α → 1", "VREx", "IRM", "the paper's word"]
    return Table("cases", "The seven cases: β1 (cause), β2 (effect)", columns, rows)


def ticks_table(solved: Sequence[Solved], settings: Settings) -> Table:
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
    return Table("recovery", "The table: is the causal predictor recovered?", columns, rows)


def remarks(counts: Counter[str], settings: Settings) -> list[str]:
    """Where the paper errs."""
    some = settings.draws - counts["none"]
    return [
        "Only σ1 changes: the appendix names the causal predictor (σY < σ2), the anti-causal one "
        "(σY > σ2) or a continuum (σY = σ2). Along β1 + β2 = 1 the risk is a parabola in β2, so "
        "the minimum is unique, β2 = σY²/(σY² + σ2²), and none of these. All three methods go "
        "there: the ticks in the table's first row stand for further assumptions that the case "
        "itself does not bring.",
        "All three σ change: the appendix says there is no invariant-risk predictor. That holds "
        "for four or more domains in general position. For three it can fail, on an open set of "
        f"σ's: {some} of {settings.draws} random triples have one.",
        "σ2 and σY change: with three or more domains in general position there is none, as "
        "printed; with two there may be.",
    ]
