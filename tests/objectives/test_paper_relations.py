"""What the paper proves of EQRM (appendices A and F), checked by number."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from torch import Tensor

from cases import in_full
from eqrm import Level
from eqrm.objectives import EQRM, GroupDRO, Superquantile
from objectives.minimisers import minimiser, trained

RISKS = {
    m: torch.empty(m, dtype=torch.float64).log_normal_(generator=torch.Generator().manual_seed(m))
    for m in (2, 3, 10, 100)
}
ALPHAS = (0.5, 0.6, 0.75, 0.9, 0.99)

every_m = pytest.mark.parametrize("m", RISKS)
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


@every_m
@every_alpha
def test_gaussian_eqrm_is_mean_plus_z_times_std(m: int, alpha: float) -> None:
    numbers = RISKS[m].numpy()
    expected = numbers.mean() + norm.ppf(alpha) * numbers.std(ddof=1)
    assert EQRM(alpha, "gaussian").of_risks(RISKS[m]).item() == pytest.approx(expected, rel=1e-12)


def two_quadratics(theta: Tensor) -> Tensor:
    """(θ−1)² and (θ+1)²/2 + 0.4: the mean is smallest at 1/3."""
    return torch.cat([(theta - 1.0) ** 2, 0.5 * (theta + 1.0) ** 2 + 0.4])


EQUAL = 3.0 - math.sqrt(8.8)
"""Where the two risks are equal and smallest: θ²/2 − 3θ + 0.1 = 0."""


@pytest.mark.unmeasured
@pytest.mark.parametrize("distribution", ["kde", *in_full("gaussian")])
def test_alpha_to_1_equalises_two_risks_at_their_smallest_common_value(distribution: str) -> None:
    found = [
        trained(EQRM(level, distribution).of_risks, two_quadratics, [0.6])
        for level in (0.5, 0.52, 0.75, "1-e^-10", "1-e^-1000")
    ]
    gaps = [abs(two_quadratics(theta).diff().item()) for theta in found]
    assert found[0].item() == pytest.approx(1 / 3, abs=1e-4)
    assert gaps[0] > gaps[1] > 0.1
    assert max(gaps[2:]) < 1e-4
    assert found[-1].item() == pytest.approx(EQUAL, abs=1e-4)
    worst = minimize_scalar(lambda x: two_quadratics(torch.tensor([x])).max().item())
    assert found[-1].item() == pytest.approx(worst.x, abs=1e-4)


NOISE = torch.empty(12, dtype=torch.float64).log_normal_(
    std=0.5**0.5, generator=torch.Generator().manual_seed(0)
)
"""The variances σ2² of X2 ← Y + N2 in twelve domains."""


def linear_world(beta: Tensor) -> Tensor:
    """Risks of β1·X1 + β2·X2 in X1 ← N1, Y ← X1 + NY, X2 ← Y + N2 with σ1 = 1, σY² = 2.

    The causal predictor (1, 0) has risk 2 in every domain.
    """
    return (beta[0] + beta[1] - 1) ** 2 + 2 * (beta[1] - 1) ** 2 + beta[1] ** 2 * NOISE


@pytest.mark.parametrize("distribution", ["gaussian", "kde", "empirical"])
def test_the_path_is_the_closed_form_of_the_linear_world(distribution: str) -> None:
    """β1 + β2 = 1, β2 = 2/(2 + Q_α), with Q_α the quantile of σ2² by the same estimator."""
    for alpha in ALPHAS:
        objective = EQRM(alpha, distribution)
        beta = minimiser(objective.of_risks, linear_world, [[0.5, 0.5]])
        share = 2.0 / (2.0 + objective.of_risks(NOISE).item())
        assert beta.tolist() == pytest.approx([1.0 - share, share], abs=1e-6)


@every_m
def test_superquantile_goes_from_the_mean_to_the_maximum(m: int) -> None:
    risks = RISKS[m]
    levels = [Level(0.0), Level(1e-9), *(Level(a) for a in (0.1, 0.5, 0.9, 0.999))]
    levels += [Level(log_tail=-50), Level(log_tail=-1e4), Level(1.0)]
    values = [Superquantile(level).of_risks(risks).item() for level in levels]
    assert values[0] == pytest.approx(risks.mean().item(), rel=1e-12)
    assert values[1] == pytest.approx(risks.mean().item(), rel=1e-8)
    assert values == sorted(values)
    assert values[-3:] == [risks.max().item()] * 3


def test_superquantile_near_1_and_groupdro_meet_in_the_worst_case() -> None:
    risks = RISKS[10].clone().requires_grad_()
    (slopes,) = torch.autograd.grad(Superquantile("1-e^-100").of_risks(risks), risks)
    assert slopes.tolist() == [float(r == RISKS[10].max()) for r in RISKS[10]]
    dro = GroupDRO(step_size=1.0)
    for _ in range(200):
        value = dro.of_risks(RISKS[10])
    assert torch.allclose(dro.domain_weights, slopes, atol=1e-6)
    assert value.item() == pytest.approx(RISKS[10].max().item(), rel=1e-6)
