"""The risk memory's averages over visits and their sampling noise: against simulations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from eqrm import KDE, Gaussian, domain_risks
from eqrm.between_domains import (
    denoised,
    with_common_losses,
)
from eqrm.errors import SettingError
from eqrm.objectives import EQRM, RiskMemory


class TestAveraging:
    def test_risks_are_averaged_over_visits(self) -> None:
        objective = EQRM(0.5, memory=RiskMemory(2, averaging=0.25))
        for risk in (8.0, 4.0, 0.0):
            objective(torch.tensor([risk, 1.0]), torch.tensor([0, 1]))
        assert objective.memory is not None
        assert objective.memory.risks.tolist() == [5.25, 1.0]  # 8, 8 − ¼·4 = 7, 7 − ¼·7

    @pytest.mark.parametrize(("sizes", "second"), [(None, 0.5), (8, 0.625), (2, 1.0)])
    def test_variances_follow_by_hand(self, sizes: int | None, second: float) -> None:
        """s² = 2 and k = 2, so s²/k = 1; then ¼ + ¼ + ½·k/n, where k/n is 0, ¼ or 1."""
        memory = RiskMemory(2, averaging=0.5, denoise=True, domain_sizes=sizes)
        objective = EQRM(0.5, memory=memory)
        losses, domains = torch.tensor([1.0, 3.0, 0.0, 4.0]), torch.tensor([0, 0, 1, 1])
        objective(losses, domains)
        assert memory.variances.tolist() == [1.0, 4.0]
        objective(losses[:2], domains[:2])
        assert memory.variances.tolist() == [second, 4.0]
        assert memory.unit_variances.tolist() == [second / 2.0, 0.5]


def visits(
    domains: int, visible: int, size: int | None, number: int
) -> list[tuple[Tensor, Tensor]]:
    """Standard normal losses: ``visible`` of ``size`` fixed ones per domain, or new ones."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.arange(domains).repeat_interleave(visible)
    made = []
    fixed = torch.randn((domains, size or 1), generator=generator, dtype=torch.float64)
    for _ in range(number):
        if size is None:
            losses = torch.randn((domains, visible), generator=generator, dtype=torch.float64)
        else:
            order = torch.rand((domains, size), generator=generator).argsort(dim=1)
            losses = fixed.gather(1, order[:, :visible])
        made.append((losses.flatten(), ids))
    return made


# All pairs of two settings; with the mark full all three together.
NOISY = [
    pytest.param(law, averaging, size, marks=() if (i + j + k) % 2 == 0 else pytest.mark.full)
    for i, law in enumerate(("gaussian", "kde"))
    for j, averaging in enumerate((1.0, 0.3))
    for k, size in enumerate((None, 20))
]


class TestNoise:
    @pytest.mark.parametrize("estimate", [Gaussian, KDE])
    @pytest.mark.parametrize("noise", [0.0, 0.25, 4.0])
    def test_the_quantile_of_true_risks_is_found_behind_noise(
        self, estimate: Any, noise: float
    ) -> None:
        """True risks N(3, 1), seen with noise of a known variance, up to 80% of the spread."""
        m = 40_000
        true = 3.0 + torch.randn(m, dtype=torch.float64)
        variances = noise * 2.0 * torch.rand(m, dtype=torch.float64)
        seen = true + variances.sqrt() * torch.randn(m, dtype=torch.float64)
        weights = torch.full((m,), 1 / m, dtype=torch.float64)

        def quantile(risks: Tensor, p: Tensor) -> Tensor:
            value: Tensor = estimate(risks, weights=p).quantile(0.9)
            return value

        found = denoised(quantile, seen, variances, weights)
        truth = 3.0 + 1.2816
        assert found.item() == pytest.approx(truth, abs=0.04)
        if noise == 4.0:
            assert quantile(seen, weights).item() > truth + 1.4

    def test_every_domain_counts_the_same_in_the_noise_that_the_gradient_takes_back(self) -> None:
        """Also where those visited last are known better: else their noise would be rewarded."""
        memory = RiskMemory(6, averaging=0.3, denoise=True, domain_sizes=20)
        for ids in ([0, 1, 2, 3, 4, 5], [0, 1], [0, 1], [0, 1]):
            domains = torch.tensor(ids).repeat_interleave(2)
            batch = domain_risks(torch.rand(len(domains), dtype=torch.float64), domains, 6)
            memory.estimate(lambda risks, p: (p * risks).sum(), batch)
        weights = torch.full((6,), 1 / 6, dtype=torch.float64)
        own = memory.variances.clone().requires_grad_()
        common = with_common_losses(own, memory.unit_variances, weights)
        (slope,) = torch.autograd.grad((weights * common).sum(), own)
        assert slope.tolist() == pytest.approx([1 / 6] * 6)
        assert memory.unit_variances[0] < 0.7 * memory.unit_variances[5]

    @pytest.mark.parametrize(("distribution", "averaging", "size"), NOISY)
    def test_noise_is_not_worth_removing(
        self, distribution: str, averaging: float, size: int | None
    ) -> None:
        """Losses μ_e + θ·ξ: θ scales noise only, so true risks do not depend on it.

        The plain memory has a clear slope in θ, since smaller noise means a smaller quantile.
        """
        domains, visible = 3000, 5
        true = 0.5 * torch.randn((domains, 1), dtype=torch.float64)
        theta = torch.ones((), dtype=torch.float64, requires_grad=True)
        slopes: dict[bool, float] = {}
        for denoise in (False, True):
            memory = RiskMemory(domains, averaging, denoise=denoise, domain_sizes=size)
            objective = EQRM(0.9, distribution, memory=memory)
            after = []
            for noise, ids in visits(domains, visible, size, number=20):
                losses = true + theta * noise.view(domains, visible)
                (slope,) = torch.autograd.grad(objective(losses.flatten(), ids), theta)
                after.append(slope.item())
            slopes[denoise] = sum(after[10:]) / 10
        assert slopes[False] > 0.1
        assert abs(slopes[True]) < 0.15 * slopes[False]

    def test_reliability_is_the_share_of_the_spread_that_is_no_noise(self) -> None:
        memory = RiskMemory(2000, denoise=True)
        true = torch.randn((2000, 1), dtype=torch.float64)
        losses = true + math.sqrt(5.0) * torch.randn((2000, 5), dtype=torch.float64)
        EQRM(0.9, memory=memory)(losses.flatten(), torch.arange(2000).repeat_interleave(5))
        assert memory.reliability() == pytest.approx(0.5, abs=0.05)
        with pytest.raises(SettingError, match="denoise=True"):
            RiskMemory(3).reliability()


def test_weights_and_noise_removal_are_refused_together() -> None:
    memory = RiskMemory(3, denoise=True)
    with pytest.raises(SettingError, match="cannot be combined with weights"):
        EQRM(0.9, weights=torch.ones(3), memory=memory)
