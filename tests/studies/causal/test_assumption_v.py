"""Assumption (v): the truth in rational arithmetic, theorems, and no guesses."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from studies.causal.scm import laws
from studies.linear_worlds import FIGURE_PARENTS, example_world, figure_world, two_effects

from cases import in_full
from eqrm.errors import DomainDataError, SettingError
from eqrm.linear import DomainMoments
from oracle.rational_worlds import (
    RationalWorld,
    do_is_enough,
    random_dyadic_world,
    weighted_dag,
)
from studies.causal import (
    Do,
    LinearSCM,
    Noise,
    Shift,
    assumption_v,
    intervention_domains,
    invariant_risk_predictors,
    minimal_invariant_risk,
    paper_case,
    sufficient_interventions,
)

# 200 random DAGs, and the DAG of the paper's figure four times.
WORLDS = [random_dyadic_world(2 + seed % 4, seed) for seed in range(200)]
WORLDS += [weighted_dag(FIGURE_PARENTS, seed) for seed in range(4)]


def as_scm(world: RationalWorld) -> LinearSCM:
    equations = {k: {p: float(c) for p, c in v.items()} for k, v in world.equations.items()}
    return LinearSCM(equations, "Y", {name: float(std) for name, std in world.stds.items()})


def without_effects(scm: LinearSCM) -> LinearSCM | None:
    features = [name for name in scm.features if name not in scm.effects]
    return LinearSCM(scm.equations, "Y", scm.noise, features) if features else None


SQUARES = [Fraction(1, 2), Fraction(1), Fraction(4)]
# A twelfth of them here, the figure's among them; `make verify` decides all.
SOME = [slice(0, None, 12), *in_full(slice(5, None, 12), slice(11, None, 12))]


@pytest.mark.unmeasured
@pytest.mark.parametrize("some", SOME, ids=str)
def test_do_is_decided_as_rational_arithmetic_decides_it(some: slice) -> None:
    for number, world in enumerate(WORLDS[some]):
        scm, square = as_scm(world), SQUARES[number % 3]
        for case, variables in ((2, world.features), (6, scm.effects)):
            plan = paper_case(scm, case, kind="do", value=float(square) ** 0.5)
            assert plan.enough is do_is_enough(world, variables, square), (world, case)


def test_do_is_enough_in_some_worlds_and_not_in_others() -> None:
    answers = [do_is_enough(world, world.features, Fraction(1)) for world in WORLDS[:60]]
    assert 5 < sum(answers) < 55


@pytest.mark.unmeasured
@pytest.mark.parametrize("some", SOME, ids=str)
def test_the_other_cases_of_the_paper_hold_in_every_world(some: slice) -> None:
    for world in WORLDS[some]:
        scm = as_scm(world)
        for case in (3, 4, 5, 6):
            plan = paper_case(scm, case, value=0.7)
            assert plan.answer.status == "unique", (world, case)
            assert plan.answer.homoskedastic
            assert plan.answer.proof
        upstream = without_effects(scm)
        if upstream is not None:
            assert paper_case(upstream, 1).answer.status == "unique"


def test_the_counter_example_to_case_2_is_found() -> None:
    plan = paper_case(two_effects(), 2, value=0.5**0.5)
    assert plan.answer.status == "not unique"
    assert plan.answer.difference.tolist() == pytest.approx([-4 / 7, -4 / 7], abs=1e-12)
    assert plan.answer.counterexample.tolist() == pytest.approx([4 / 7, 4 / 7], abs=1e-12)
    assert plan.answer.excess == pytest.approx(-16 / 49, abs=1e-12)
    moments = two_effects().population(plan.domains)
    assert moments.risks(plan.answer.counterexample).tolist() == pytest.approx([33 / 49] * 3)


def test_every_counter_example_has_lower_and_equal_risks() -> None:
    seen = 0
    for world in WORLDS[:80]:
        scm = as_scm(world)
        plan = paper_case(scm, 6, kind="do")
        if plan.enough is False:
            seen += 1
            risks = scm.population(plan.domains).risks(plan.answer.counterexample)
            causal = scm.population(plan.domains).risks(scm.causal_coefficients)
            assert float((risks - risks.mean()).abs().max()) < 1e-9 * float(causal.mean())
            assert float(risks.mean()) <= float(causal.mean()) + 1e-9
            gap = plan.answer.counterexample - scm.causal_coefficients
            assert float(gap.abs().max()) > 1e-4
    assert seen > 10


def test_one_domain_is_never_enough_when_the_target_has_effects() -> None:
    scm = example_world()
    answer = assumption_v(scm.population({"observed": []}), scm.causal_coefficients)
    assert answer.status == "not unique"
    # The best predictor of one domain is least squares.
    assert answer.counterexample.tolist() == pytest.approx([1 / 3, 2 / 3], abs=1e-12)


def test_one_scale_per_variable_is_not_enough_but_two_are() -> None:
    scm = example_world()
    one = intervention_domains("scale", ["X1", "X2"], scales=(2.0, 2.0))
    one = {name: domain for name, domain in one.items() if "X1" not in name}
    two = intervention_domains("scale", ["X2"])
    causal = scm.causal_coefficients
    assert assumption_v(scm.population(one), causal).status == "not unique"
    assert assumption_v(scm.population(two), causal).status == "unique"


def test_shifts_need_centred_variables() -> None:
    """With E[X] ≠ 0 the risks differ by z²τ² + 2zτE[r], which has another zero."""
    noise = {"Y": laws.normal(0.0, 1.0), "X": laws.normal(1.0, 1.0)}
    scm = LinearSCM({"X": {"Y": 1.0}, "Y": {}}, "Y", noise)
    answer = assumption_v(
        scm.population({"base": [], "shift": [Shift("X", -2.5)]}), scm.causal_coefficients
    )
    # zx(zx + 2x) = 0 has only x = 0, but z = −2 makes it hold everywhere.
    assert answer.status == "unique"
    answer = assumption_v(
        scm.population({"base": [], "shift": [Shift("X", -2.0)]}), scm.causal_coefficients
    )
    assert answer.status == "not unique"
    assert answer.counterexample.tolist() == pytest.approx([1 / 3])


def test_collinear_features_are_never_unique() -> None:
    moments = example_world().population({"a": [], "b": [Noise("X2", std=3.0)]})
    order = [0, 1, 0, 2]
    doubled = DomainMoments.population(
        moments.mean[:, order], moments.covariance[:, order][:, :, order]
    )
    answer = assumption_v(doubled, [1.0, 0.0, 0.0])
    assert answer.status == "not unique"
    assert answer.excess == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("gap", "expected"), [(1.0, "unique"), (1e-2, "unique"), (1e-5, "undecided")]
)
def test_nearly_collinear_features_are_decided_or_left_undecided(gap: float, expected: str) -> None:
    equations = {"X1": {}, "X2": {"Y": 1.0}, "X3": {"X1": 1.0}, "Y": {"X1": 1.0}}
    scm = LinearSCM(equations, "Y", {"X3": gap})
    domains = {"a": [], "b": [Noise("X2", std=3.0)]}
    answer = assumption_v(scm.population(domains), scm.causal_coefficients)
    assert answer.status == expected
    assert bool(answer.tried) == (expected == "undecided")


def test_a_changing_target_noise_is_reported_as_heteroskedastic() -> None:
    scm = example_world()
    domains = {"a": [], "b": [Noise("Y", std=3.0)], "c": [Noise("X2", std=3.0)]}
    assert not assumption_v(scm.population(domains), scm.causal_coefficients).homoskedastic


def test_an_intercept_is_one_more_coefficient() -> None:
    scm = LinearSCM({"X": {}, "Y": {"X": 1.0}}, "Y", {"Y": laws.normal(2.0, 1.0)})
    moments = scm.population({"base": [], "do": [Do("X", 1.0)]})
    assert assumption_v(moments, [1.0], intercept=2.0).status == "unique"
    # Without it, the mean of the noise can be had from X where X does not vary.
    assert assumption_v(scm.population({"do": [Do("X", 1.0)]}), [1.0]).status == "not unique"


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(s, marks=pytest.mark.full) for s in range(10, 40))]
)
def test_claims_on_arbitrary_domains_survive_a_long_search(seed: int) -> None:
    from studies.causal.common_zeros import find_common_zeros, independent_forms
    from studies.causal.quadratic_forms import excess_forms

    scm = as_scm(random_dyadic_world(2 + seed % 3, 1000 + seed))
    generator = np.random.default_rng(seed)
    domains: dict[str, list] = {"0": []}
    for e in range(1, 3 + seed % 3):
        chosen = [name for name in scm.features if generator.random() < 0.6]
        sizes = generator.standard_normal(len(chosen))
        domains[str(e)] = [
            [Do, Shift][int(generator.integers(2))](name, float(size))
            for name, size in zip(chosen, sizes, strict=True)
        ]
    moments = scm.population(domains)
    answer = assumption_v(moments, scm.causal_coefficients)
    if answer.status == "not unique":
        risks = moments.risks(answer.counterexample)
        assert float((risks - risks.mean()).abs().max()) < 1e-8
        assert float(risks.mean()) <= float(moments.risks(scm.causal_coefficients).mean()) + 1e-9
    elif answer.status == "unique":
        q = excess_forms(moments, scm.causal_coefficients.numpy(), False)
        gaps = q.forms[1:] - q.forms[:1]
        basis = independent_forms(gaps, np.full(len(gaps), 1e-12))
        points = find_common_zeros(basis, starts=300, seed=1)
        # A multiple zero at 0 is found as a cloud of points around it.
        far = points[np.linalg.norm(points, axis=1) > 0.1]
        h = np.concatenate([np.ones((len(far), 1)), far], axis=1)
        assert (np.einsum("si,ij,sj->s", h, q.forms[0], h) > 0).all()
    else:
        assert answer.tried


def test_what_is_enough_is_listed_with_the_reason() -> None:
    plans = {plan.kind: plan for plan in sufficient_interventions(figure_world(2))}
    assert {kind for kind, plan in plans.items() if plan.enough} >= {"shift", "noise", "scale"}
    assert all(plan.on == ("X5", "X6", "X7") for plan in plans.values())
    assert "Not enough in general" in plans["do"].always
    (nothing,) = sufficient_interventions(LinearSCM({"X": {}, "Y": {"X": 1.0}}, "Y"))
    assert nothing.kind == "none"
    assert nothing.enough


def test_mistakes_are_told_apart() -> None:
    moments = example_world().population({"a": []})
    with pytest.raises(DomainDataError, match="causal must hold 2 coefficients"):
        assumption_v(moments, [1.0])
    with pytest.raises(SettingError, match="case must be an integer from 1 to 6"):
        paper_case(example_world(), 7)
    with pytest.raises(SettingError, match="'X2' is one"):
        paper_case(example_world(), 1)
    with pytest.raises(SettingError, match="Did you mean 'shift'"):
        intervention_domains("shfit", ["X1"])
    assert isinstance(assumption_v(moments, torch.tensor([1.0, 0.0])).status, str)


def test_what_is_no_predictor_is_refused() -> None:
    scm = LinearSCM({"X": {}, "Y": {"X": 1.0}}, "Y")
    moments = scm.population({"a": [], "b": [Shift("X", 1.0)]})
    for wrong in ("a", ["a"], [float("nan")], None):
        with pytest.raises(DomainDataError, match="Coefficients must be"):
            assumption_v(moments, wrong)
    with pytest.raises(DomainDataError, match="intercept must be a number"):
        assumption_v(moments, [1.0], intercept=True)
    for function in (minimal_invariant_risk, invariant_risk_predictors):
        with pytest.raises(DomainDataError, match="moments must be DomainMoments"):
            function([[1.0]])
    with pytest.raises(SettingError, match="kind can only be chosen for case 6"):
        paper_case(scm, 2, kind="shift")
    with pytest.raises(SettingError, match="must be a list of names"):
        intervention_domains("do", "X1")
