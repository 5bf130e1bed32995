"""ERM, EQRM, Superquantile, GroupDRO and VREx against closed forms and hand-computed cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import eqrm
from eqrm.errors import DomainDataError, LevelError, SettingError
from eqrm.objectives import (
    EQRM,
    ERM,
    GroupDRO,
    Superquantile,
    VREx,
)
from objectives.finite_differences import finite_difference_gradient

RISK_OBJECTIVES = {
    "erm": ERM,
    "eqrm": lambda: EQRM(0.9),
    "eqrm-gaussian": lambda: EQRM(0.9, "gaussian"),
    "eqrm-empirical": lambda: EQRM(0.9, "empirical"),
    "eqrm-lognormal": lambda: EQRM(0.9, "lognormal"),
    "eqrm-silverman": lambda: EQRM(0.9, bandwidth="silverman"),
    "eqrm-deep": lambda: EQRM("1-e^-1000"),
    "superquantile": lambda: Superquantile(0.6),
    "superquantile-gaussian": lambda: Superquantile(0.6, "gaussian"),
    "groupdro": lambda: GroupDRO(0.1),
    "vrex": lambda: VREx(2.0),
}

every_objective = pytest.mark.parametrize("name", RISK_OBJECTIVES)


def random_losses(n: int = 40, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=generator, dtype=torch.float64) + 0.1


def domain_means(losses: Tensor, domains: Tensor) -> Tensor:
    return torch.stack([losses[domains == e].mean() for e in domains.unique()])


@every_objective
def test_the_one_line_is_the_objective_of_the_domains_mean_losses(name: str) -> None:
    losses = random_losses().requires_grad_()
    domains = torch.arange(40) % 5
    domains[:7] = 4
    one_line = RISK_OBJECTIVES[name]()(losses, domains)
    by_hand = RISK_OBJECTIVES[name]().of_risks(domain_means(losses, domains))
    assert one_line.item() == pytest.approx(by_hand.item(), rel=1e-13)
    gradients = [torch.autograd.grad(value, losses)[0] for value in (one_line, by_hand)]
    assert torch.allclose(*gradients, rtol=1e-11, atol=1e-14)


@every_objective
def test_names_numbers_and_known_numbers_of_domains_are_the_same(name: str) -> None:
    losses, ids = random_losses(), torch.arange(40) % 3
    words = [["Bern", "Oslo", "Rome"][i] for i in ids.tolist()]
    expected = RISK_OBJECTIVES[name]()(losses, words).item()
    assert RISK_OBJECTIVES[name]()(losses, ids).item() == pytest.approx(expected, rel=1e-13)
    assert RISK_OBJECTIVES[name]()(losses, ids, num_domains=3).item() == pytest.approx(expected)


@every_objective
def test_gradients_match_finite_differences(name: str) -> None:
    risks = torch.nn.Parameter(torch.tensor([0.3, 1.1, 0.7, 1.9], dtype=torch.float64))
    objective = RISK_OBJECTIVES[name]().eval()
    if name == "groupdro":
        objective.domain_weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(objective.of_risks(risks), risks)
    expected = finite_difference_gradient(lambda: objective.of_risks(risks), [risks])
    assert torch.allclose(gradient, expected, rtol=1e-6, atol=1e-8)


@every_objective
def test_the_loss_has_the_dtype_of_the_losses_or_float32(name: str) -> None:
    for given, expected in {
        torch.float64: torch.float64,
        torch.float32: torch.float32,
        torch.bfloat16: torch.float32,
    }.items():
        losses = random_losses().to(given).requires_grad_()
        loss = RISK_OBJECTIVES[name]()(losses, torch.arange(40) % 4)
        loss.backward()
        assert (loss.dtype, losses.grad.dtype) == (expected, given)


def test_erm_counts_every_domain_once_however_many_examples_it_has() -> None:
    losses = torch.tensor([1.0, 2.0, 3.0, 10.0])
    assert ERM()(losses, ["a", "a", "a", "b"]).item() == 6.0
    assert ERM().of_risks(torch.tensor([2.0, 10.0]), torch.tensor([0.75, 0.25])).item() == 4.0


def test_vrex_is_mean_plus_beta_times_the_variance_over_m() -> None:
    risks = random_losses(7)
    expected = np.mean(risks.numpy()) + 3.5 * np.var(risks.numpy())
    assert VREx(3.5).of_risks(risks).item() == pytest.approx(expected, rel=1e-13)


def test_eqrm_is_the_quantile_of_the_estimated_distribution() -> None:
    risks, weights = random_losses(9), random_losses(9, seed=1)
    for level in (0.5, 0.9, eqrm.Level(log_tail=-1000.0)):
        expected = eqrm.KDE(risks, bandwidth="scott", weights=weights).quantile(level)
        assert EQRM(level, bandwidth="scott", weights=weights).of_risks(risks) == expected
    assert EQRM(1.0, "empirical").of_risks(risks) == risks.max()


def test_superquantile_is_the_mean_of_the_worst_domains() -> None:
    risks = torch.tensor([4.0, 1.0, 3.0, 2.0, 5.0])
    assert Superquantile(0.6).of_risks(risks).item() == pytest.approx(4.5)
    assert Superquantile(0.5).of_risks(risks).item() == pytest.approx((5 + 4 + 3 / 2) / 2.5)
    assert Superquantile(0.0, "gaussian").of_risks(risks).item() == pytest.approx(3.0)


class TestGroupDRO:
    def test_weights_follow_exponentiated_gradient(self) -> None:
        objective, q = GroupDRO(0.5), np.full(3, 1 / 3)
        for risks in ([1.0, 2.0, 0.5], [3.0, 0.0, 1.0], [0.2, 0.1, 0.9]):
            value = objective.of_risks(torch.tensor(risks, dtype=torch.float64))
            q = q * np.exp(0.5 * np.array(risks))
            q = q / q.sum()
            assert objective.domain_weights.tolist() == pytest.approx(q.tolist(), rel=1e-13)
            assert value.item() == pytest.approx(float(q @ risks), rel=1e-13)

    def test_weights_rest_in_evaluation(self) -> None:
        objective = GroupDRO(0.5)
        objective.of_risks(torch.tensor([1.0, 2.0]))
        before = objective.domain_weights.clone()
        objective.eval().of_risks(torch.tensor([5.0, 1.0]))
        assert torch.equal(objective.domain_weights, before)

    def test_an_absent_domain_has_no_risk_to_grow_by(self) -> None:
        objective = GroupDRO(1.0)
        objective(torch.tensor([2.0]), torch.tensor([1]), num_domains=3)
        grown = np.array([1.0, math.e**2, 1.0])
        assert objective.domain_weights.tolist() == pytest.approx((grown / grown.sum()).tolist())

    def test_batches_of_few_domains_have_the_full_gradient_on_average(self) -> None:
        q = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
        objective = GroupDRO().eval()
        objective.domain_weights = q
        total = torch.zeros(4, dtype=torch.float64)
        pairs = [(i, j) for i in range(4) for j in range(i)]
        for pair in pairs:
            losses = torch.ones(2, dtype=torch.float64, requires_grad=True)
            (slopes,) = torch.autograd.grad(objective(losses, torch.tensor(pair), 4), losses)
            total[list(pair)] += slopes / len(pairs)
        assert torch.allclose(total, q)

    def test_other_domains_than_before_are_refused(self) -> None:
        objective = GroupDRO()
        objective.of_risks(torch.ones(3))
        with pytest.raises(DomainDataError, match="follows 3 domains, but got 2 risks"):
            objective.of_risks(torch.ones(2))


class Uniform:
    """A user's own law: uniform on mean ± √3·std. ``icdf`` takes a Level."""

    def __init__(self, risks: Tensor) -> None:
        self.risks = risks

    def icdf(self, level: eqrm.Level) -> Tensor:
        width = 2 * math.sqrt(3) * self.risks.std()
        return self.risks.mean() + (level.alpha - 0.5) * width


def torch_normal(risks: Tensor) -> torch.distributions.Normal:
    return torch.distributions.Normal(risks.mean(), risks.std())


class TestOwnDistributions:
    def test_any_class_with_an_icdf_plugs_in(self) -> None:
        risks = random_losses(6).requires_grad_()
        value = EQRM(0.9, Uniform).of_risks(risks)
        expected = risks.mean() + 0.4 * 2 * math.sqrt(3) * risks.std()
        assert value.item() == pytest.approx(expected.item(), rel=1e-12)
        value.backward()
        assert bool(risks.grad.isfinite().all())

    def test_a_distribution_of_torch_plugs_in(self) -> None:
        risks = random_losses(6)
        value = EQRM(0.9, torch_normal).of_risks(risks)
        expected = EQRM(0.9, "gaussian").of_risks(risks)
        assert value.item() == pytest.approx(expected.item(), rel=1e-6)
        with pytest.raises(LevelError, match="Use one of eqrm's own distributions"):
            EQRM("1-e^-100", torch_normal).of_risks(risks)

    def test_one_without_weights_is_told_when_it_needs_them(self) -> None:
        objective = EQRM(0.9, Uniform)
        assert objective(torch.rand(4), [0, 0, 1, 1]).isfinite()
        with pytest.raises(SettingError, match="Give it an argument 'weights'"):
            objective(torch.rand(4), [0, 0, 1, 1], num_domains=2)


class TestBadInput:
    @every_objective
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_a_bad_loss_is_traced_to_its_domain(self, name: str, bad: float) -> None:
        objective = RISK_OBJECTIVES[name]()
        losses = torch.tensor([0.5, 1.0, bad, 2.0], requires_grad=True)
        with pytest.raises(DomainDataError, match=r"risk of domain 'Rome' is (nan|inf)\..*finite"):
            objective(losses, ["Oslo", "Oslo", "Rome", "Bern"])

    def test_a_wrong_distribution_gets_a_suggestion(self) -> None:
        with pytest.raises(SettingError, match=r"Unknown distribution .* Did you mean 'gaussian'"):
            EQRM(distribution="gausian")
        with pytest.raises(SettingError, match=r"a name or a class .* got int"):
            EQRM(distribution=3)  # type: ignore[arg-type]

    def test_a_bandwidth_needs_a_kernel(self) -> None:
        with pytest.raises(SettingError, match="Only distribution='kde' has a bandwidth"):
            EQRM(distribution="gaussian", bandwidth="scott")

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    @pytest.mark.parametrize("distribution", ["kde", "gaussian", "lognormal"])
    def test_levels_0_and_1_are_refused_where_there_is_no_end(
        self, alpha: float, distribution: str
    ) -> None:
        with pytest.raises(LevelError, match="Empirical"):
            EQRM(alpha, distribution)

    def test_weights_for_other_domains_are_refused(self) -> None:
        objective = EQRM(weights=torch.ones(3))
        with pytest.raises(DomainDataError, match=r"weights for 3 domains, .* the risks of 2"):
            objective(torch.rand(4), [0, 0, 1, 1])
