"""Runs trained together against runs trained apart, and against those of the trainer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from studies.many_runs.train_many import Run, runs_of, train_many

from eqrm.errors import EqrmWarning
from eqrm.level import Level
from eqrm.objectives import EQRM
from eqrm.training.phases import Phase
from small_runs import alone, difference, in_double, small, world

LEVELS = (Level(0.5), Level(0.9), Level(log_tail=-100), Level(log_tail=-1000))


SCALED: dict[str, Any] = {"schedule": "cosine", "loss_scaling": "gradient-norm-ratio"}

SETTINGS = {
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
def test_together_they_become_what_the_trainer_makes_of_each(
    runs: list[Run], k: int | None
) -> None:
    data = in_double(world())
    trained = train_many(runs, data, small(), examples_per_domain=k, dtype=torch.float64)
    for position, run in enumerate(runs):
        truth = alone(run, data, k, small())
        assert difference(trained.predictor(position), truth) < 1e-9, run


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
    data = [in_double(world(0)), in_double(world(1))]
    runs = [Run(0, (Phase("erm", 6, 1e-2),), data=which) for which in (0, 1)]
    trained = train_many(runs, data, small(), dtype=torch.float64)
    for position, run in enumerate(runs):
        truth = alone(run, data[position], None, small())
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
