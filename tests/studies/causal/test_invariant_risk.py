"""Minimal invariant-risk predictors, against closed forms and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from studies.linear_worlds import changing_sigmas, example_domains, example_world, random_world

from eqrm.linear import DomainMoments
from studies.causal import (
    Do,
    LinearSCM,
    Noise,
    Shift,
    invariant_risk_predictors,
    minimal_invariant_risk,
)

SIGMAS = [(1.0, 2.0**0.5, 1.0), (0.7, 0.5, 2.0), (2.0, 1.0, 1.0)]


def drawn(names: tuple[str, ...], count: int, seed: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {name: np.exp(0.7 * generator.standard_normal(count)) for name in names}


@pytest.mark.parametrize("count", [3, 4, 40])
@pytest.mark.parametrize("sigmas", SIGMAS)
@pytest.mark.parametrize(
    ("changing", "expected"),
    [
        (("X1",), "between"),
        (("X2",), "causal"),
        (("X1", "X2"), "causal"),
        (("Y",), "anti-causal"),
        (("X1", "Y"), "anti-causal"),
        (("X2", "Y"), "none"),
    ],
)
def test_the_cases_of_appendix_g_have_their_closed_form(
    changing: tuple[str, ...], expected: str, sigmas: tuple[float, ...], count: int
) -> None:
    _, sigma_y, sigma2 = sigmas
    domains = changing_sigmas(**drawn(changing, count, seed=count))
    answer = minimal_invariant_risk(example_world(*sigmas).population(domains))
    if expected == "none":
        assert answer.status == "none"
        assert answer.coefficients is None
        return
    # Where only σ1 changes, the paper errs: the risk on β1 + β2 = 1 is a parabola in β2.
    between = sigma_y**2 / (sigma_y**2 + sigma2**2)
    beta2 = {"causal": 0.0, "anti-causal": 1.0, "between": between}[expected]
    assert answer.status == "unique"
    assert answer.coefficients.tolist() == pytest.approx([1 - beta2, beta2], abs=1e-9)
    assert answer.tried == ()


@pytest.mark.parametrize("seed", range(10))
def test_no_predictor_is_invariant_when_all_three_noises_change_over_four_domains(
    seed: int,
) -> None:
    domains = changing_sigmas(**drawn(("X1", "X2", "Y"), 4, seed))
    assert minimal_invariant_risk(example_world().population(domains)).status == "none"


@pytest.mark.parametrize("seed", range(10))
def test_three_domains_with_all_noises_changing_are_solved_in_squares(seed: int) -> None:
    """a = (β1+β2−1)², b = (β2−1)², c = β2² obey two linear equations: a ray, solved by hand."""
    sigmas = drawn(("X1", "X2", "Y"), 3, seed)
    answer = minimal_invariant_risk(example_world().population(changing_sigmas(**sigmas)))
    squares = np.stack([sigmas["X1"] ** 2, sigmas["Y"] ** 2, sigmas["X2"] ** 2], axis=1)
    a, b, c = np.cross(squares[1] - squares[0], squares[2] - squares[0])
    if not (np.sign(a) == np.sign(b) == np.sign(c)):
        assert answer.status == "none"
        return
    solutions = []
    for sign_b, sign_c in itertools.product((-1, 1), repeat=2):
        # β2 − 1 = sign_b·√b·t and β2 = sign_c·√c·t for some t.
        t = 1 / (sign_c * abs(c) ** 0.5 - sign_b * abs(b) ** 0.5)
        solutions.append(squares[0] @ [abs(a) * t**2, abs(b) * t**2, abs(c) * t**2])
    assert answer.status == "several"  # the sign of β1 + β2 − 1 is free
    assert answer.risk == pytest.approx(min(solutions), rel=1e-8)
    moments = example_world().population(changing_sigmas(**sigmas))
    for beta in (answer.coefficients, *answer.others):
        assert moments.risks(beta).tolist() == pytest.approx([min(solutions)] * 3, rel=1e-8)


def test_two_domains_with_opposite_changes_have_two_equally_good_predictors() -> None:
    # a(β1+β2−1)² = bβ2² with a = 3, b = 3/4: β2 = ±2(β1+β2−1).
    domains = changing_sigmas(X1=[1.0, 2.0], X2=[1.0, 0.5])
    answer = minimal_invariant_risk(example_world().population(domains))
    assert answer.status == "several"
    found = torch.stack([answer.coefficients, *answer.others])
    beta2 = found[:, 1]
    assert torch.allclose(beta2**2, 4 * (found.sum(1) - 1) ** 2, atol=1e-12)
    # Risk 1·β2²/4 + 2(β2−1)² + β2²: minimal at 2/3.25.
    assert beta2.tolist() == pytest.approx([2 / 3.25] * 2, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_one_equation_is_solved_as_well_as_a_fine_grid_does(seed: int) -> None:
    sigmas = drawn(("X1", "X2", "Y"), 2, seed)
    moments = example_world().population(changing_sigmas(**sigmas))
    answer = minimal_invariant_risk(moments)
    assert answer.status in ("unique", "several", "none")
    # For a given β2, (β1 + β2 − 1)² follows from the equation.
    gaps = {name: float(s[1] ** 2 - s[0] ** 2) for name, s in sigmas.items()}
    beta2 = np.linspace(-8, 8, 200_001)
    square = -(gaps["Y"] * (beta2 - 1) ** 2 + gaps["X2"] * beta2**2) / gaps["X1"]
    real = square >= 0
    if answer.status == "none":
        assert not real.any()
        return
    risk = sum(
        float(sigmas[name][0] ** 2) * value[real]
        for name, value in (("X1", square), ("Y", (beta2 - 1) ** 2), ("X2", beta2**2))
    )
    assert answer.risk <= risk.min() + 1e-9
    assert answer.risk == pytest.approx(risk.min(), rel=1e-3)
    both = moments.risks(answer.coefficients).tolist()
    assert both == pytest.approx([answer.risk] * 2, rel=1e-9)


def test_a_duplicated_feature_gives_a_continuum() -> None:
    equations = {"X1": {}, "X2": {"Y": 1.0}, "Y": {"X1": 1.0}}
    moments = LinearSCM(equations, "Y").population(changing_sigmas(X2=[1.0, 2.0]))
    order = [0, 1, 1, 2]
    doubled = DomainMoments.population(
        moments.mean[:, order], moments.covariance[:, order][:, :, order]
    )
    answer = minimal_invariant_risk(doubled)
    assert answer.status == "continuum"
    along = answer.coefficients + 5 * answer.directions[:, 0]
    assert torch.allclose(doubled.risks(along), doubled.risks(answer.coefficients), rtol=1e-9)
    assert float(answer.directions[:, 0].abs().max()) > 0


def test_sampled_moments_have_no_invariant_predictor_with_many_domains() -> None:
    moments = example_world().sample_moments(example_domains().draw(200), 1000)
    answer = minimal_invariant_risk(moments)
    assert answer.status == "none"
    assert answer.proof


def test_an_intercept_makes_shifts_of_the_target_invariant_where_they_can_be() -> None:
    # X1 shifts by s, and Y with it: Y − X1 has the mean 3 in every domain.
    scm = LinearSCM({"X1": {}, "Y": {"X1": 1.0}}, "Y")
    domains = {str(s): [Shift("X1", float(s)), Shift("Y", 3.0)] for s in range(4)}
    moments = scm.population(domains)
    answer = minimal_invariant_risk(moments, intercept=True)
    assert answer.status == "unique"
    assert answer.coefficients.tolist() == pytest.approx([1.0], abs=1e-9)
    assert answer.intercept == pytest.approx(3.0, abs=1e-9)
    assert answer.risk == pytest.approx(1.0, rel=1e-9)
    without = minimal_invariant_risk(moments)
    assert without.risk == pytest.approx(10.0, rel=1e-9)


def test_all_invariant_predictors_are_found_where_only_the_cause_changes() -> None:
    moments = example_world().population(changing_sigmas(X1=[1.0, 2.0, 3.0]))
    (line,), unsolved = invariant_risk_predictors(moments)
    assert unsolved == []
    for t in (-2.0, 0.0, 1.5):
        beta = line.point + t * line.directions[:, 0]
        assert float(beta.sum()) == pytest.approx(1.0, abs=1e-9)
        assert float(moments.risks(beta).std()) < 1e-9


def test_invariant_predictors_of_a_hard_intervention_are_two_lines() -> None:
    scm = example_world()
    moments = scm.population({"base": [], "do": [Do("X2", 1.0)]})
    lines, unsolved = invariant_risk_predictors(moments)
    assert unsolved == []
    assert len(lines) == 2
    for line in lines:
        for t in (-3.0, 0.5):
            risks = moments.risks(line.point + t * line.directions[:, 0])
            assert float(risks[0]) == pytest.approx(float(risks[1]), rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_noise_on_every_covariate_makes_the_causal_predictor_minimal(seed: int) -> None:
    world = random_world(1 + seed % 5, seed)
    generator = np.random.default_rng(seed)
    domains = {
        str(e): [Noise(name, factor=float(f)) for name, f in zip(world.features, row, strict=True)]
        for e, row in enumerate(np.exp(generator.standard_normal((10, len(world.features)))))
    }
    answer = minimal_invariant_risk(world.population(domains))
    assert answer.status == "unique"
    assert torch.allclose(answer.coefficients, world.causal_coefficients, atol=1e-7)
