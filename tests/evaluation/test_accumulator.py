"""Batches and processes in any order give what all losses at once give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import eqrm
from eqrm.errors import DomainDataError
from evaluation.routes import assert_same
from evaluation.two_processes import gather_in_one_of_two, losses_and_sites
from processes import run_in_processes


def by_pandas(losses: torch.Tensor, sites: list[str]) -> pd.DataFrame:
    return pd.Series(losses.numpy()).groupby(np.array(sites)).agg(["count", "mean", "var"])


@pytest.mark.parametrize("batch", [1, 10, 997])
def test_batches_of_any_size_give_the_same(batch: int) -> None:
    losses, sites = losses_and_sites()
    gathered = eqrm.evaluation.RiskAccumulator()
    for start in range(0, len(sites), batch):
        gathered.update(losses[start : start + batch], sites[start : start + batch])
    assert_same(gathered.compute(), by_pandas(losses, sites))


def test_losses_far_from_zero_keep_their_variance() -> None:
    losses, sites = losses_and_sites(offset=1e8)
    gathered = eqrm.evaluation.RiskAccumulator()
    for part in range(7):
        gathered.update(losses[part::7], sites[part::7])
    wanted = by_pandas(losses - 1e8, sites)
    np.testing.assert_allclose(gathered.compute().variances, wanted["var"], rtol=1e-6)


def test_merging_loses_nothing() -> None:
    losses, sites = losses_and_sites()
    first, second = (eqrm.evaluation.RiskAccumulator() for _ in range(2))
    first.update(losses[:400], sites[:400])
    second.update(losses[400:], sites[400:])
    first.merge(second)
    assert_same(first.compute(), by_pandas(losses, sites))


def test_it_takes_tensors_with_gradients_half_precision_and_integer_domains() -> None:
    losses = torch.tensor([0.5, 0.25, 1.0], dtype=torch.float16, requires_grad=True)
    gathered = eqrm.evaluation.RiskAccumulator()
    gathered.update(losses, torch.tensor([3, 1, 3]))
    gathered.update(torch.empty(0), torch.empty(0, dtype=torch.int64))
    found = gathered.compute()
    assert found.domains == (1, 3)
    assert found.risks.tolist() == [0.25, 0.75]


def test_a_loss_that_is_not_finite_is_refused_and_not_added() -> None:
    gathered = eqrm.evaluation.RiskAccumulator()
    gathered.update(torch.ones(2), ["a", "b"])
    with pytest.raises(DomainDataError, match="domain 'b' is NaN or infinite"):
        gathered.update(torch.tensor([1.0, float("inf")]), ["a", "b"])
    assert gathered.compute().counts.tolist() == [1, 1]


@pytest.mark.xdist_group("two processes")
def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    run_in_processes(gather_in_one_of_two, str(tmp_path))
    first, second = (torch.load(tmp_path / f"rank-{rank}.pt") for rank in range(2))
    wanted = by_pandas(*losses_and_sites())
    for case in ("split", "again", "on one"):
        assert first[case] == second[case]
        assert_same(eqrm.risks.MeasuredRisks.from_dict(first[case]), wanted)
    assert first["apart"] != second["apart"]
    assert "Rome" not in second["apart"]["domains"]
