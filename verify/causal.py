"""Causal recovery at full size: the cases of the paper, compared with the truth."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
from verify.registry import Options, Result, check, passed


@check("causal.sigmas", "the seven cases of appendix G.1.2 compared with the truth")
def seven_cases(options: Options) -> Result:
    from studies.linear_worlds import changing_sigmas, example_world

    from studies.causal import minimal_invariant_risk

    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for seed, count in itertools.product(range(25), (4, 5, 10, 100)):
        generator = np.random.default_rng(seed)
        sigma1, sigma_y, sigma2 = np.exp(0.5 * generator.standard_normal(3))
        between = sigma_y**2 / (sigma_y**2 + sigma2**2)
        truths = {"X1": between, "X2": 0.0, "X1 X2": 0.0, "Y": 1.0, "X1 Y": 1.0}
        for changing in (*truths, "X2 Y", "X1 X2 Y"):
            names = changing.split()
            sigmas = {name: np.exp(generator.standard_normal(count)) for name in names}
            world = example_world(float(sigma1), float(sigma_y), float(sigma2))
            answer = minimal_invariant_risk(world.population(changing_sigmas(**sigmas)))
            truth = truths.get(changing)
            right = answer.status == ("none" if truth is None else "unique")
            if right and truth is not None:
                gap = answer.coefficients.numpy() - [1 - truth, truth]
                right = bool(np.abs(gap).max() < 1e-7)
            tally[changing] += right
            if not right:
                wrong.append(f"{changing}, {count} domains, seed {seed}: {answer.status}")
    total = sum(tally.values())
    summary = f"{total} of 700 systems decided correctly (100 of each case, 4 to 100 domains)"
    return passed(not wrong, summary, right=dict(tally), wrong=wrong)


@check("causal.cases", "the six cases of appendix A.2.3 compared with the truth, on 204 DAGs")
def six_cases(options: Options) -> Result:
    from causal.test_assumption_v import SQUARES, WORLDS, as_scm, without_effects
    from studies.linear_worlds import two_effects

    from oracle.rational_worlds import do_is_enough
    from studies.causal import paper_case

    tally: Counter[str] = Counter()
    wrong: list[str] = []

    def note(what: str, truth: bool, answer: bool | None, world: object) -> None:
        tally[f"{what}: {'enough' if truth else 'not enough'}"] += 1
        if answer is not truth:
            wrong.append(f"{what}: {answer} instead of {truth} in {world}")

    for world in WORLDS:
        scm = as_scm(world)
        upstream = without_effects(scm)
        if upstream is not None:
            note("1", True, paper_case(upstream, 1).enough, world)
        for case in (3, 4, 5, 6):
            name = "6 with shifts" if case == 6 else str(case)
            note(name, True, paper_case(scm, case, value=0.7).enough, world)
        for case, square in itertools.product((2, 6), SQUARES):
            variables = world.features if case == 2 else scm.effects
            truth = do_is_enough(world, variables, Fraction(square))
            answer = paper_case(scm, case, kind="do", value=float(square) ** 0.5).enough
            note("2" if case == 2 else "6 with do", truth, answer, world)
    found = paper_case(two_effects(), 2, value=0.5**0.5).answer
    gap = np.abs(found.difference.numpy() + 4 / 7).max() if found.difference is not None else 1.0
    known = found.status == "not unique" and gap < 1e-12 and abs(found.excess + 16 / 49) < 1e-12
    total = sum(tally.values())
    counts = ", ".join(f"{what} {count}" for what, count in sorted(tally.items()))
    return passed(
        not wrong and known,
        f"{total - len(wrong)} of {total} decided correctly ({counts}); "
        f"counter-example to case 2: x = (−4/7, −4/7) to {gap:.0e}",
        wrong=wrong,
    )
