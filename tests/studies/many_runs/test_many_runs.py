"""Runs trained together against runs trained apart, and against a loop of torch's own parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from studies.many_runs.train_many import Run, runs_of, train_many
from torch import Tensor

from eqrm.data import DomainBatches, DomainData
from eqrm.errors import EqrmWarning
from eqrm.level import Level
from eqrm.objectives import EQRM, ERM, RiskObjective
from eqrm.objectives.loss_scaling import gradient_norm
from eqrm.predictors.small_networks import MLP
from eqrm.training.phases import Phase
from eqrm.training.state import seed_everything
from eqrm.training.trainer import Trainer
from eqrm.training.training_settings import TrainingSettings
from small_runs import difference, small, world

LEVELS = (Level(0.5), Level(0.9), Level(log_tail=-100), Level(log_tail=-1000))


def one_by_one(run: Run, data: DomainData, k: int | None, network: Callable[[], MLP]) -> MLP:
    """The same run with torch's own modules, optimizer and schedule, one step after another."""
    seed_everything(run.seed)
    predictor = network().double()
    stream = DomainBatches(data, None, k, seed=run.seed)
    optimizer = torch.optim.Adam(predictor.parameters())
    erm_norm: float | None = None
    for phase in run.phases:
        if phase.fresh_optimizer:
            optimizer = torch.optim.Adam(predictor.parameters())
        for group in optimizer.param_groups:
            group["lr"] = phase.learning_rate
            group.pop("initial_lr", None)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, phase.steps)
        objective, divisor = phase.minimised, None
        assert isinstance(objective, RiskObjective)
        for _ in range(phase.steps):
            batch = data.rows(next(stream))
            losses = predictor.losses(predictor(batch.x.double()), batch.y)
            if erm_norm is None:
                erm = ERM()(losses, batch.domains)
                erm_norm = gradient_norm(erm, list(predictor.parameters()))
            if divisor is None:
                divisor = _divisor(phase, losses, batch.domains, predictor, erm_norm)
            optimizer.zero_grad()
            (objective(losses, batch.domains) / divisor).backward()
            optimizer.step()
            if phase.schedule == "cosine":
                schedule.step()
    return predictor


def _divisor(
    phase: Phase, losses: Tensor, domains: Tensor, predictor: MLP, erm_norm: float
) -> float:
    if phase.loss_scaling == "none":
        return 1.0
    assert isinstance(phase.minimised, RiskObjective)
    return gradient_norm(phase.minimised(losses, domains), list(predictor.parameters())) / erm_norm


SCALED: dict[str, Any] = {"schedule": "cosine", "loss_scaling": "gradient-norm-ratio"}

SETTINGS = {
    "levels after one burn-in": [
        Run(seed, (Phase("erm", 7, 1e-2), Phase(EQRM(level), 6, 3e-3, "cosine")))
        for seed in (0, 1)
        for level in LEVELS
    ],
    "burn-ins and learning rates of their own": [
        Run(3, (Phase("erm", 4, 1e-2), Phase(EQRM(0.9), 9, 3e-3))),
        Run(3, (Phase("erm", 9, 1e-2), Phase(EQRM(0.9), 4, 1e-3, "cosine"))),
        Run(4, (Phase("erm", 13, 1e-3),)),
    ],
    "Adam kept, and losses scaled": [
        Run(5, (Phase("erm", 5, 1e-2), Phase(EQRM(0.9), 5, 1e-3, fresh_optimizer=False))),
        Run(5, (Phase("erm", 5, 1e-2), Phase(EQRM("1-e^-50"), 5, 1e-3, **SCALED))),
    ],
}


@pytest.mark.parametrize("runs", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("k", [None, 20])
def test_together_they_become_what_each_becomes_with_torchs_own_parts(
    runs: list[Run], k: int | None
) -> None:
    data = world()
    trained = train_many(runs, data, small(), examples_per_domain=k, dtype=torch.float64)
    for position, run in enumerate(runs):
        truth = one_by_one(run, data, k, small())
        assert difference(trained.predictor(position), truth) < 1e-9, run


def test_a_run_of_the_stack_is_the_run_that_the_trainer_makes() -> None:
    data = world()
    phases = (Phase("erm", 8, 1e-2), Phase(EQRM("1-e^-100"), 7, 3e-3, "cosine"))
    runs = [Run(seed, phases) for seed in (3, 4)]
    trained = train_many(runs, data, small(), examples_per_domain=20)
    for position, seed in enumerate((3, 4)):
        seed_everything(seed)
        settings = TrainingSettings(seed=seed, device="cpu", tensorboard=False)
        batches = DomainBatches(data, None, 20, seed=seed)
        alone = Trainer(small()(), data, phases, batches, settings=settings).fit()
        assert isinstance(alone.predictor, MLP)
        assert difference(trained.predictor(position), alone.predictor) < 1e-5


@pytest.mark.unmeasured
@pytest.mark.parametrize("k", [20, pytest.param(None, marks=pytest.mark.full)])
def test_twenty_runs_together_match_twenty_apart_with_dropout(k: int | None) -> None:
    data = world()
    levels = [Phase(EQRM(level), 6, 3e-3, "cosine") for level in LEVELS]
    runs = runs_of(range(5), Phase("erm", 8, 1e-2), levels)
    options = {"examples_per_domain": k, "dtype": torch.float64}
    together = train_many(runs, data, small(0.3), **options)
    for position, run in enumerate(runs):
        apart = train_many([run], data, small(0.3), **options)
        assert difference(together.predictor(position), apart.predictor(0)) < 1e-12
        torch.testing.assert_close(together.risks[position], apart.risks[0])


def test_a_seed_gives_the_same_bits_again_and_others_do_not_change_them() -> None:
    data, network = world(), small(0.2)
    runs = runs_of([0, 1], Phase("erm", 5, 1e-2), Phase(EQRM(0.9), 5, 1e-3))
    state = torch.get_rng_state()
    first = train_many(runs, data, network, examples_per_domain=10)
    assert torch.equal(torch.get_rng_state(), state)  # others' random numbers stay as they were
    torch.rand(3)
    again = train_many(runs, data, network, examples_per_domain=10)
    for one, other in zip(first.stack.parameters, again.stack.parameters, strict=True):
        assert torch.equal(one, other)
    backwards = train_many(runs[::-1], data, network, examples_per_domain=10)
    assert difference(first.predictor(0), backwards.predictor(1)) < 1e-6
    assert difference(first.predictor(0), first.predictor(1)) > 1e-3


def test_runs_may_have_data_of_their_own() -> None:
    data = [world(0), world(1)]
    runs = [Run(0, (Phase("erm", 6, 1e-2),), data=which) for which in (0, 1)]
    trained = train_many(runs, data, small(), dtype=torch.float64)
    for position, run in enumerate(runs):
        truth = one_by_one(run, data[position], None, small())
        assert difference(trained.predictor(position), truth) < 1e-9


def test_dropout_drops_its_share_and_only_in_training() -> None:
    data = world()
    plain = train_many([Run(0, (Phase("erm", 1, 1e-9),))], data, small(0.0))
    dropped = train_many([Run(0, (Phase("erm", 1, 1e-9),))], data, small(0.5))
    assert not torch.allclose(plain.risks, dropped.risks)
    torch.testing.assert_close(plain.outputs(data.x), dropped.outputs(data.x))


def test_accuracies_are_those_of_each_predictor_in_each_domain() -> None:
    data = world()
    trained = train_many(runs_of([0, 1], Phase("erm", 30, 1e-2)), data, small())
    accuracies = trained.accuracies([data])
    for position in (0, 1):
        right = (trained.predictor(position)(data.x)[:, 0] > 0).long() == data.y
        for domain in range(3):
            share = right[data.domains == domain].double().mean()
            assert accuracies[position, domain].item() == pytest.approx(share.item())


def test_a_run_that_diverges_is_named_and_the_others_are_not_touched() -> None:
    good, bad = Run(0, (Phase("erm", 6, 1e-2),)), Run(1, (Phase("erm", 6, 1e300),))
    with pytest.warns(EqrmWarning, match=r"Run 1 \(seed 1\) has a risk that is not finite"):
        both = train_many([good, bad], world(), small())
    alone = train_many([good], world(), small())
    torch.testing.assert_close(both.risks[0], alone.risks[0])
