"""The risk memory: its gradient and value against the full ones, its state, CUDA."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from eqrm import KDE, Gaussian
from eqrm.between_domains import denoised
from eqrm.errors import DomainDataError, SettingError
from eqrm.objectives import EQRM, RiskMemory, Superquantile

# Small worlds take small batches.
pytestmark = pytest.mark.filterwarnings(
    "ignore::eqrm.objectives.training_warnings.SmallBatchWarning"
)

DOMAINS, BATCH, EXAMPLES = 48, 8, 3

OBJECTIVES: dict[str, Callable[[RiskMemory | None], EQRM]] = {
    "kde": lambda memory: EQRM(0.9, memory=memory),
    "kde-median": lambda memory: EQRM(0.5, memory=memory),
    "gaussian": lambda memory: EQRM(0.9, "gaussian", memory=memory),
    "deep": lambda memory: EQRM("1-e^-1000", memory=memory),
    "superquantile": lambda memory: Superquantile(0.75, memory=memory),
}


def random_world(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features (domains, examples, 4) and targets: squared losses of a linear predictor."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn((DOMAINS, EXAMPLES, 4), generator=generator, dtype=torch.float64)
    scale = torch.rand((DOMAINS, 1), generator=generator, dtype=torch.float64) + 0.2
    return x, scale * torch.randn((DOMAINS, EXAMPLES), generator=generator, dtype=torch.float64)


def squared_losses(x: Tensor, y: Tensor, beta: Tensor) -> Tensor:
    return (y - x @ beta) ** 2


def mean_gradient_of_an_epoch(
    objective: EQRM, x: Tensor, y: Tensor, beta: Tensor, order: Tensor, epochs: int = 2
) -> Tensor:
    """The mean gradient of the last epoch; those before it fill the memory."""
    total = torch.zeros_like(beta)
    for epoch in range(epochs):
        for ids in order.view(-1, BATCH):
            losses = squared_losses(x[ids], y[ids], beta)
            loss = objective(losses.flatten(), ids.repeat_interleave(x.shape[1]))
            if epoch == epochs - 1:
                total += torch.autograd.grad(loss, beta)[0]
    return total / (len(order) // BATCH)


def relative(error: Tensor, truth: Tensor) -> float:
    return float(error.norm() / truth.norm())


class TestGradient:
    @pytest.mark.parametrize("name", OBJECTIVES)
    def test_over_an_epoch_without_replacement_it_is_the_full_gradient(self, name: str) -> None:
        x, y = random_world()
        beta = torch.full((4,), 0.3, dtype=torch.float64, requires_grad=True)
        whole = OBJECTIVES[name](None).of_risks(squared_losses(x, y, beta).mean(dim=1))
        (full,) = torch.autograd.grad(whole, beta)
        objective = OBJECTIVES[name](RiskMemory(DOMAINS))
        mean = mean_gradient_of_an_epoch(objective, x, y, beta, torch.randperm(DOMAINS))
        assert relative(mean - full, full) < 1e-10

    def test_it_is_so_however_much_old_risks_have_aged(self) -> None:
        """Where every batch has the same risks, ageing moves weights but not the distribution.

        The bandwidth is a number: rules see a smaller effective number of domains.
        """
        x, y = random_world()
        copies = DOMAINS // BATCH
        x, y = x[:BATCH].repeat(copies, 1, 1), y[:BATCH].repeat(copies, 1)
        beta = torch.full((4,), 0.3, dtype=torch.float64, requires_grad=True)
        whole = EQRM(0.9, bandwidth=0.1).of_risks(squared_losses(x, y, beta).mean(dim=1))
        (full,) = torch.autograd.grad(whole, beta)
        objective = EQRM(0.9, bandwidth=0.1, memory=RiskMemory(DOMAINS, half_life=2.0))
        mean = mean_gradient_of_an_epoch(objective, x, y, beta, torch.arange(DOMAINS))
        assert relative(mean - full, full) < 1e-10

    def test_denoised_whole_domains_have_the_gradient_of_the_denoised_objective(self) -> None:
        x, y = random_world()
        beta = torch.full((4,), 0.3, dtype=torch.float64, requires_grad=True)
        losses = squared_losses(x, y, beta)
        risks, variances = losses.mean(dim=1), losses.var(dim=1).mean().expand(DOMAINS)
        weights = torch.full((DOMAINS,), 1 / DOMAINS, dtype=torch.float64)
        (full,) = torch.autograd.grad(
            denoised(EQRM(0.9).of_risks, risks, variances / EXAMPLES, weights), beta
        )
        memory = RiskMemory(DOMAINS, averaging=0.3, denoise=True, domain_sizes=EXAMPLES)
        objective = EQRM(0.9, memory=memory)
        mean = mean_gradient_of_an_epoch(objective, x, y, beta, torch.randperm(DOMAINS))
        assert relative(mean - full, full) < 1e-10
        assert torch.allclose(memory.variances, losses.var(dim=1).detach() / EXAMPLES, rtol=1e-12)


class TestValue:
    def test_it_is_the_quantile_over_all_remembered_risks(self) -> None:
        objective = EQRM(0.9, memory=RiskMemory(6))
        objective(torch.tensor([1.0, 5.0, 2.0]), torch.tensor([0, 1, 2]))
        value = objective(torch.tensor([9.0, 4.0, 3.0]), torch.tensor([3, 4, 1]))
        latest = torch.tensor([1.0, 3.0, 2.0, 9.0, 4.0])
        assert value.item() == pytest.approx(KDE(latest).quantile(0.9).item(), rel=1e-6)

    def test_domains_never_seen_have_no_weight(self) -> None:
        few, many = EQRM(0.9, memory=RiskMemory(3)), EQRM(0.9, memory=RiskMemory(1000))
        losses, domains = torch.tensor([1.0, 4.0, 2.5]), torch.tensor([0, 1, 2])
        assert many(losses, domains).item() == few(losses, domains).item()
        assert many.memory is not None
        assert many.memory.staleness().never_seen == 997

    def test_old_risks_count_less_with_a_half_life(self) -> None:
        objective = EQRM(0.9, "gaussian", memory=RiskMemory(3, half_life=1.0))
        for domain, risk in enumerate([1.0, 2.0, 4.0]):
            value = objective(torch.tensor([risk]), torch.tensor([domain]))
        weights = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) / 7.0
        risks = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
        expected = Gaussian(risks, weights=weights).quantile(0.9).item()
        assert value.item() == pytest.approx(expected, rel=1e-6)


class TestOfSeenDomains:
    """Domains that were never seen are left out, or have the weight 0: the same either way."""

    def test_a_risk_that_is_refused_is_called_by_its_domain(self) -> None:
        objective = EQRM(0.8, "lognormal", memory=RiskMemory(9))
        objective(torch.tensor([1.0, 2.0]), torch.tensor([2, 5]))
        with pytest.raises(DomainDataError, match=r"risk of domain 7 is -1\.0") as caught:
            objective(torch.tensor([1.0, -1.0]), torch.tensor([2, 7]))
        assert caught.value.index == (7,)

    @pytest.mark.parametrize("denoise", [False, True])
    def test_a_memory_that_was_cast_with_its_model_is_calculated_with_in_float64(
        self, denoise: bool
    ) -> None:
        losses, ids = torch.tensor([1.1, 1.3, 2.3, 2.0, 4.7, 4.1]), torch.tensor([0, 0, 1, 1, 2, 2])
        usual, cast = (EQRM(0.9, memory=RiskMemory(6, denoise=denoise)) for _ in range(2))
        found = cast.to(torch.bfloat16)(losses, ids).item()
        assert found == pytest.approx(usual(losses, ids).item(), rel=1e-6)


class TestState:
    def test_staleness_by_hand(self) -> None:
        objective = EQRM(0.9, memory=RiskMemory(5))
        assert objective.memory is not None
        empty = objective.memory.staleness()
        assert (empty.never_seen, empty.max_age) == (5, 0)
        assert math.isnan(empty.mean_age)
        for ids in ([0, 1], [1, 2], [3, 2]):
            objective(torch.tensor([1.0, 2.0]), torch.tensor(ids))
        stale = objective.memory.staleness()
        # Ages: domain 0 two steps, 1 one step, 2 and 3 none; 4 was never seen.
        assert (stale.mean_age, stale.max_age, stale.never_seen) == (0.75, 2, 1)
        assert str(stale) == "4 of 5 domains remembered, 0.8 steps old on average, 2 at most"

    def test_training_goes_on_from_a_state_dict_as_if_never_stopped(self) -> None:
        def made() -> EQRM:
            memory = RiskMemory(6, averaging=0.5, half_life=3.0, denoise=True, domain_sizes=9)
            return EQRM(0.9, memory=memory)

        losses = torch.rand(4, 6, dtype=torch.float64)
        domains = torch.tensor([[0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]] * 2)
        first, second = made(), made()
        for step in (0, 1):
            first(losses[step], domains[step])
        second.load_state_dict(first.state_dict())
        for step in (2, 3):
            here, there = (each(losses[step], domains[step]) for each in (first, second))
            assert here.item() == there.item()
        assert "memory.domain_sizes" not in first.state_dict()

    def test_evaluation_neither_uses_nor_touches_it(self) -> None:
        objective = EQRM(0.9, memory=RiskMemory(4))
        objective(torch.tensor([1.0, 7.0]), torch.tensor([0, 1]))
        before = {name: kept.clone() for name, kept in objective.state_dict().items()}
        objective.eval()
        value = objective(torch.tensor([2.0, 3.0]), torch.tensor([2, 3]))
        assert value.item() == pytest.approx(EQRM(0.9).of_risks(torch.tensor([2.0, 3.0])).item())
        assert all(torch.equal(kept, before[name]) for name, kept in objective.state_dict().items())

    def test_a_bad_risk_is_named_and_not_remembered(self) -> None:
        objective = EQRM(0.9, memory=RiskMemory(3))
        objective(torch.tensor([1.0, 2.0]), torch.tensor([0, 1]))
        assert objective.memory is not None
        with pytest.raises(DomainDataError, match="The risk of domain 1 is nan"):
            objective(torch.tensor([3.0, math.nan]), torch.tensor([0, 1]))
        assert objective.memory.risks.tolist()[1] == 2.0
        assert objective(torch.tensor([3.0, 4.0]), torch.tensor([0, 2])).isfinite()

    def test_a_memory_of_the_wrong_size_is_refused(self) -> None:
        objective = EQRM(0.9, memory=RiskMemory(4))
        with pytest.raises(DomainDataError, match=r"holds 4 domains.*made for 5"):
            objective(torch.tensor([1.0]), torch.tensor([0]), 5)
        with pytest.raises(DomainDataError, match="from 0 to 3"):
            objective(torch.tensor([1.0]), torch.tensor([4]))
        with pytest.raises(RuntimeError, match="size mismatch for risks"):
            RiskMemory(3).load_state_dict(RiskMemory(4).state_dict())

    @pytest.mark.parametrize(
        ("settings", "complaint"),
        [
            ({"num_domains": 0}, "num_domains must be an integer of at least 1"),
            ({"averaging": 0.0}, "averaging must be a number above 0 and at most 1"),
            ({"averaging": 1.5}, "averaging must be a number above 0 and at most 1"),
            ({"half_life": 0.0}, "half_life must be None or a number above 0"),
            ({"domain_sizes": torch.ones(3)}, "one number, or one for each of 4 domains"),
            ({"domain_sizes": 0}, "at least 1 example"),
        ],
    )
    def test_wrong_settings_are_refused(self, settings: dict[str, Any], complaint: str) -> None:
        with pytest.raises(SettingError, match=complaint):
            RiskMemory(**{"num_domains": 4, **settings})
