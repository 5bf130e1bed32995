"""The reproduction ``control-coverage``: the class, its checks, its table and its remarks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from studies.base import Study
from studies.control_coverage import settings as promised
from studies.control_coverage.coverage import Held, simulated_cell
from studies.control_coverage.trainings import DOMAINS, NEW, HeldByTraining, trainings
from studies.outcome import Cell, Check, Outcome, Progress, ResultTable, percent

SPREAD = 0.05
"""Of the share of new domains over worlds of 29; four standard errors of its mean are allowed."""
MOST_TIES = 0.002
"""A setting that fewer domains share is taken for one of a continuous law."""


class ControlCoverage(Study):
    """Simulations behind the guarantee of operating points."""

    name = "control-coverage"
    title = "Operating points: how often enough new domains meet the requirement"
    reproduces = (
        "The promise of `eqrm control`: with 95% confidence, at least 9 in 10 new domains meet the "
        "requirement, in simulated worlds with a known truth"
    )
    sources = (
        "Order statistics as bounds of quantiles: Nonparametric estimation (Scheffé & Tukey 1945)",
        "Requirements that are monotone in a setting: Conformal risk control (Angelopoulos et al. "
        "2024); Distribution-free, risk-controlling prediction sets (Bates et al. 2021)",
        "Sets of classes: Least ambiguous set-valued classifiers (Sadinle, Lei & Wasserman 2019); "
        "Classification with valid and adaptive coverage (Romano, Sesia & Candès 2020)",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Simulate every cell and count."""
        settings, found = promised.RUNS[size], list[Held]()
        tried = list(promised.cells())
        for number, cell in enumerate(tried):
            progress(number / len(tried), str(cell))
            found.append(simulated_cell(cell, settings, seed))
        fitted = trainings(settings, seed, progress)
        stated = {"alpha": promised.ALPHA, "confidence": promised.CONFIDENCE, "seed": seed}
        return Outcome(
            settings=asdict(settings) | stated,
            checks=[*checks_of(found), check_of_trainings(fitted)],
            tables=[trainings_table(fitted), coverage_table(found)],
            pictures=[],
            remarks=_remarks(),
        )


def checks_of(found: Sequence[Held]) -> list[Check]:
    """What the simulations must show, by the form of the guarantee."""
    forms = {
        "one model, independent domains": [e for e in found if e.cell.plain],
        "true shares": [e for e in found if e.cell.true],
        "the best of five models": [e for e in found if e.cell.models > 1],
        "new members of new groups": [e for e in found if e.cell.form == promised.NESTED],
        "dependent domains": [e for e in found if e.cell.dependence],
    }
    checks = []
    for form, cells in forms.items():
        worst = min(cells, key=_margin)
        failed = [str(e.cell) for e in cells if _margin(e) < 0.0]
        checks.append(
            Check(
                f"enough new domains meet the requirement as often as stated: {form}",
                not failed,
                f"in {percent(worst.success)} of worlds at worst ({worst.cell})"
                + f"; fails in {len(failed)} of {len(cells)} cells" * bool(failed),
                f"{percent(worst.wanted)}: 95% less the error of the simulation",
                "guarantee",
            )
        )
    continuous = [e for e in found if e.theory is not None and e.ties < MOST_TIES]
    away = max(continuous, key=_away)
    most = max(promised.POINT, 4.0 * SPREAD / math.sqrt(away.worlds))
    checks += [
        Check(
            "the mean share of new domains that meet it is that of the order statistic",
            _away(away) <= most,
            f"{percent(away.mean, 2)} instead of {percent(away.theory, 2)} at worst of "
            f"{len(continuous)} cells without ties ({away.cell})",
            f"within {percent(most)}",
            "order statistics",
        ),
    ]
    return checks


def check_of_trainings(found: Sequence[HeldByTraining]) -> Check:
    """What is said to be checked by simulation and not proven."""
    worst = min(found, key=lambda each: each.success)
    failed = sum(each.success < each.wanted for each in found)
    return Check(
        "enough new domains meet the requirement as often as stated: models fitted to the same "
        "domains",
        not failed,
        f"in {percent(worst.success)} of worlds at worst ({worst})"
        + f"; fails in {failed} of {len(found)} cells" * bool(failed),
        f"{percent(worst.wanted)}: 95% less the error of the simulation",
        "guarantee",
    )


def trainings_table(found: Sequence[HeldByTraining]) -> ResultTable:
    """A row per way to fit models and kind of world."""
    rows: list[list[Cell]] = [
        [
            e.by,
            e.kind,
            e.require,
            str(e.worlds),
            percent(e.success),
            percent(e.wanted),
            percent(e.mean, 2),
            percent(e.kept),
        ]
        for e in found
    ]
    heads = ["by", "kind", "requirement", "worlds", "success", "wanted", "mean share", "answered"]
    title = f"Models fitted to the same {DOMAINS} domains, judged on {NEW} new ones"
    return ResultTable("trainings", title, heads, rows, leading=True)


def _margin(each: Held) -> float:
    return each.success - each.wanted


def _away(each: Held) -> float:
    return abs(each.mean - (each.theory or 0.0))


def coverage_table(found: Sequence[Held]) -> ResultTable:
    """A row per cell."""
    rows: list[list[Cell]] = [
        [
            e.cell.name,
            e.cell.require,
            str(e.cell.domains),
            e.cell.sizes,
            percent(e.success),
            percent(e.wanted),
            percent(e.mean, 2),
            percent(e.theory, 2),
            percent(e.ties),
            percent(e.refused),
        ]
        for e in found
    ]
    heads = ["kind", "requirement", "domains", "rows", "success", "wanted", "mean share", "theory"]
    title = "How often at least 9 in 10 new domains meet the requirement"
    return ResultTable("coverage", title, [*heads, "ties", "refused"], rows, leading=True)


def _remarks() -> list[str]:
    return [
        "Domains come from pools of each kind, drawn once; what each needs is computed by the "
        "package from its rows. A world measures some of them, drawn without replacement, bounds "
        "what they need as `eqrm control` does, and is judged on all the others. Where domains are "
        "dependent every world is a sequence of its own.",
        "*mean share* is that of new domains which meet the requirement, *theory* rank/(m+1), that "
        "of the order statistic of m domains: of a continuous law and one model. *ties* is the "
        "share of domains that need the very setting; more of them can only meet it more often. "
        "Worlds in which no setting is enough are *refused*: nothing is stated there.",
        "True shares are known in closed form; a new domain meets the requirement there if its "
        "true share does, however many rows it has.",
        "The best of five models keeps most in the domains that were measured; each is bounded "
        "with a confidence of 99%.",
        "Models that are fitted to the domains they are bounded on: each domain is judged by a fit "
        "without it, then the chosen model is fitted to all. `eqrm train --require` chooses among "
        "ten linear candidates by what they keep on the same domains, which its bound does not "
        f"count; `control_model` has one logistic regression. Of {DOMAINS} domains an order "
        "statistic holds with 95.1%.",
    ]
