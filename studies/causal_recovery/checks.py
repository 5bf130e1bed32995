"""Every case decided and compared with the truth and with the paper's claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from studies.causal_recovery.invariance import InvariantRisk, minimal_invariant_risk
from studies.causal_recovery.limits import Solved
from studies.causal_recovery.settings import (
    APPENDIX,
    CASES,
    CAUSAL,
    DERIVED,
    METHODS,
    ROWS,
    TABLE,
    THREE_DOMAINS,
    Case,
    Pair,
    RecoverySettings,
)
from studies.linear_worlds import ExampleWorld, changing_sigmas
from studies.outcome import Check


def pair(values: object) -> str:
    """Two coefficients as text; "none" for None."""
    if values is None:
        return "none"
    first, second = torch.as_tensor(values, dtype=torch.float64).tolist()
    return f"({round(first, 8) + 0.0:.4f}, {round(second, 8) + 0.0:.4f})"


def paper_words(case: Case) -> str:
    """What the paper says of a case."""
    return "any (c, 1 − c)" if case.paper_status == "continuum" else pair(case.paper)


def agrees(decided: InvariantRisk, truth: Pair | None, tolerance: float) -> bool:
    """Whether the decision is the truth: "none", or "unique" with these coefficients."""
    if truth is None:
        return decided.status == "none"
    if decided.status != "unique" or decided.coefficients is None:
        return False
    return bool(np.abs(np.subtract(decided.coefficients, truth)).max() < tolerance)


def paper_agrees(solved: Solved, tolerance: float) -> bool:
    """Whether what was decided is what the paper says."""
    if solved.case.paper_status == "continuum":
        return solved.decided.status == "continuum"
    return agrees(solved.decided, solved.case.paper, tolerance)


def check_case(solved: Solved, settings: RecoverySettings) -> list[Check]:
    """One case: the decision, EQRM's way there, the paper's claim."""
    case, decided = solved.case, solved.decided
    found = decided.status
    if decided.coefficients is not None:
        found += f" {pair(decided.coefficients)}"
    verdict = "right" if paper_agrees(solved, settings.exact) else "wrong"
    return [
        Check(
            f"changing {case.name}: the minimal invariant-risk predictor",
            agrees(decided, case.truth, settings.exact),
            found,
            f"{pair(case.truth)} to {settings.exact:g}",
            DERIVED,
        ),
        _check_eqrm(solved, settings),
        Check(
            f"changing {case.name}: the paper's claim",
            (verdict == "right") == case.paper_is_right,
            f"it says {paper_words(case)}, which is {verdict}",
            "right" if case.paper_is_right else "wrong",
            APPENDIX,
        ),
    ]


def _check_eqrm(solved: Solved, settings: RecoverySettings) -> Check:
    claim = f"changing {solved.case.name}: EQRM as α → 1"
    if solved.case.truth is None:
        return Check(
            claim,
            solved.remaining_spread > 0.1,
            f"ends at {pair(solved.eqrm)} with risks {solved.remaining_spread:.3f} apart",
            "risks that still differ by more than 0.1",
            DERIVED,
        )
    distances = solved.distances
    return Check(
        claim,
        distances[-1] < settings.near and distances[-1] <= distances[0] + settings.exact,
        f"distance {distances[0]:.2g} at α = 0.9, {distances[-1]:.2g} at 1 − e^−1e8",
        f"below {settings.near}, and no more than at α = 0.9",
        DERIVED,
    )


def check_random_domains(settings: RecoverySettings, seed: int) -> list[Check]:
    """Each case again in random domains, four to six of them."""
    checks = []
    for index, case in enumerate(CASES):
        generator = np.random.default_rng([seed, index])
        right = sum(
            agrees(_decide(case, generator, int(generator.integers(4, 7))), case.truth, 1e-6)
            for _ in range(settings.draws)
        )
        checks.append(
            Check(
                f"changing {case.name}, random domains",
                right == settings.draws,
                f"{right} of {settings.draws} decided as {pair(case.truth)}",
                "all",
                DERIVED,
            )
        )
    return checks


def _decide(case: Case, generator: np.random.Generator, domains: int) -> InvariantRisk:
    sigmas = {name: generator.uniform(0.5, 2.0, domains).tolist() for name in case.changing}
    return minimal_invariant_risk(case.variances(sigmas))


def check_three_domains(settings: RecoverySettings, seed: int) -> tuple[list[Check], Counter[str]]:
    """All σ's change over three domains only: there can be a solution."""
    moments = ExampleWorld().population(changing_sigmas(**THREE_DOMAINS))
    answer = minimal_invariant_risk(CASES[-1].variances(THREE_DOMAINS))
    risks = moments.risks([1.0, 0.5])
    found = set(map(pair, answer.predictors))
    generator = np.random.default_rng([seed, len(CASES)])
    counts = Counter(_decide(CASES[-1], generator, 3).status for _ in range(settings.draws))
    check = Check(
        "changing σ1, σ2 and σY over three domains only: there can be an invariant-risk predictor",
        bool(risks.max() - risks.min() < settings.exact) and pair((1.0, 0.5)) in found,
        f"{answer.status}: {', '.join(sorted(found))}, risk {answer.risk:.4f} in all three",
        "(1, ½) has risk 1.5 in all three domains and is found",
        DERIVED,
    )
    return [check], counts


def check_table(solved: Sequence[Solved], settings: RecoverySettings) -> list[Check]:
    """The paper's table: which method ends at the causal predictor."""
    by_name = {each.case.name: each for each in solved}
    checks = []
    for row in ROWS:
        found = recovered(by_name[row.case], settings.near)
        printed = row.homoskedastic, row.invariant_risk, row.invariant_function
        checks.append(
            Check(
                f"table, {row.case}: {', '.join(METHODS)} recover the causal predictor",
                found == row.recovers and _first_columns(by_name[row.case]) == printed,
                f"{_ticks(found)}; the paper prints {_ticks(row.paper_recovers)}",
                _ticks(row.recovers),
                TABLE if row.recovers == row.paper_recovers else DERIVED,
            )
        )
    return checks


def recovered(solved: Solved, tolerance: float) -> tuple[bool, bool, bool]:
    """Whether IRM, VREx and EQRM end at the causal predictor."""
    ends = (solved.irm, solved.vrex, solved.eqrm)
    irm, vrex, eqrm = (float(np.linalg.norm(end - np.array(CAUSAL))) < tolerance for end in ends)
    return irm, vrex, eqrm


def _first_columns(solved: Solved) -> tuple[bool, bool, bool]:
    """Domain-homoskedastic, invariant risk, invariant function, of the causal predictor."""
    risks = solved.moments.risks(CAUSAL)
    same = bool(risks.max() - risks.min() < 1e-9)
    covariance = solved.moments.covariance
    slopes = covariance[:, 0, 2] / covariance[:, 0, 0]
    return same, same, bool(np.abs(slopes - 1).max() < 1e-9)


def _ticks(values: tuple[bool, bool, bool]) -> str:
    return " ".join("✓" if value else "✗" for value in values)
