"""What holds for every objective. A new one gets all of this with one row in ``cases.py``."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from eqrm.errors import DomainDataError, SettingError
from eqrm.objectives import OBJECTIVES, Batch, Objective
from eqrm.objectives.base import objective_class
from objectives.cases import CASES, Case
from objectives.toy_worlds import (
    SIZES,
    image_batch,
    image_predictor,
    predictor_for,
    risk_of,
    toy_batch,
)
from objectives.training_loop import apply, optimizers_for, train

every_case = pytest.mark.parametrize("case", CASES, ids=str)
one_per_class = pytest.mark.parametrize(
    "case", {case.name: case for case in CASES}.values(), ids=lambda case: case.name
)


def in_full(case: Case, usual: bool) -> list[pytest.MarkDecorator]:
    """Variants, and all but the usual world and refusals: of those `make test` has two methods."""
    left_out = case.label or not (usual or case.name in ("erm", "eqrm"))
    return [pytest.mark.full] if left_out else []


def trained(case: Case, batch: Batch, task: str = "classes", seed: int = 0, steps: int = 50):
    torch.manual_seed(seed)
    made = case.make()
    predictor = made.prepare(predictor_for(task, batch.x.dtype), batch.num_domains)
    losses = train(made, predictor, [batch] * steps)
    return made, predictor, losses


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("num_domains", "case"),
    [
        pytest.param(
            n, case, marks=in_full(case, n == 5 or n < case.make().min_domains), id=f"{n}-{case}"
        )
        for n in SIZES
        for case in CASES
    ],
)
def test_fifty_steps_learn_and_stay_finite(case: Case, num_domains: int) -> None:
    batch = toy_batch(sizes=SIZES[num_domains])
    if num_domains < case.make().min_domains:
        with pytest.raises(DomainDataError, match=r"needs at least 2 of them, but .* has 1"):
            trained(case, batch)
        return
    torch.manual_seed(0)
    start = risk_of(case.make().prepare(predictor_for("classes"), num_domains), batch)
    _, predictor, losses = trained(case, batch)
    assert np.isfinite(losses).all()
    assert all(bool(p.isfinite().all()) for p in predictor.parameters())
    assert risk_of(predictor, batch) < 0.7 * start


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("task", "case"),
    [
        pytest.param(task, case, marks=in_full(case, task not in case.tasks), id=f"{task}-{case}")
        for task in ("binary", "regression")
        for case in CASES
    ],
)
def test_other_tasks_are_learned_or_refused(case: Case, task: str) -> None:
    batch = toy_batch(task)
    if task not in case.tasks:
        with pytest.raises((SettingError, DomainDataError), match=r"[Cc]lass"):
            trained(case, batch, task, steps=1)
        return
    torch.manual_seed(0)
    start = risk_of(case.make().prepare(predictor_for(task), batch.num_domains), batch)
    _, predictor, losses = trained(case, batch, task)
    assert np.isfinite(losses).all()
    assert risk_of(predictor, batch) < 0.8 * start


@every_case
def test_domains_may_be_missing_from_a_batch(case: Case) -> None:
    full = toy_batch(sizes=(4, 3, 5))
    keep = full.domains != 1
    part = Batch(full.x[keep], full.y[keep], full.domains[keep], 3)
    without_it = Batch(part.x, part.y, (part.domains > 0).long(), 2)
    torch.manual_seed(0)
    made = case.make()
    predictor = made.prepare(predictor_for("classes"), 3)
    (*_, loss) = _losses(made, part, predictor)
    assert np.isfinite(loss)
    # A discriminator has an output for each domain.
    if not made.optimizer_settings(predictor) and not case.counts_absent:
        torch.manual_seed(0)
        made = case.make()
        predictor = made.prepare(predictor_for("classes"), 2)
        (*_, expected) = _losses(made, without_it, predictor)
        assert loss == pytest.approx(expected, rel=1e-5)


@every_case
def test_the_order_of_the_examples_does_not_matter(case: Case) -> None:
    if case.random or case.ordered:
        pytest.skip("this objective draws at random, or splits examples by their order")
    batch = toy_batch(dtype=torch.float64)
    order = torch.randperm(len(batch.y), generator=torch.Generator().manual_seed(1))
    shuffled = Batch(batch.x[order], batch.y[order], batch.domains[order], batch.num_domains)
    losses = []
    for each in (batch, shuffled):
        torch.manual_seed(0)
        made = case.make()
        predictor = made.prepare(predictor_for("classes", torch.float64), batch.num_domains)
        losses.append(_losses(made, each, predictor))
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


@pytest.mark.unmeasured
@every_case
def test_a_seed_determines_everything(case: Case) -> None:
    batch = toy_batch()
    first, again, other = (trained(case, batch, seed=seed, steps=5)[2] for seed in (3, 3, 4))
    assert first == again
    assert first != other


@every_case
def test_a_saved_state_continues_as_if_never_saved(case: Case) -> None:
    batch = toy_batch()
    made, predictor, _ = trained(case, batch, steps=5)
    torch.manual_seed(99)  # other initial weights, which loading must replace
    fresh = case.make()
    copy = fresh.prepare(predictor_for("classes"), batch.num_domains)
    fresh.load_state_dict(made.state_dict())
    copy.load_state_dict(predictor.state_dict())
    assert _losses(made, batch, predictor, seed=7) == _losses(fresh, batch, copy, seed=7)


@every_case
def test_images_work(case: Case) -> None:
    torch.manual_seed(0)
    made, batch = case.make(), image_batch()
    predictor = made.prepare(image_predictor(), batch.num_domains)
    assert np.isfinite(train(made, predictor, [batch] * 3)).all()
    assert predictor(batch.x, batch.domains).shape == (len(batch.y), 3)


@one_per_class
def test_init_takes_exactly_the_declared_hyperparameters(case: Case) -> None:
    kind = objective_class(case.name)
    arguments = dict(list(inspect.signature(kind.__init__).parameters.items())[1:])
    # Keyword-only arguments are the user's data (weights, a memory), not hyperparameters.
    arguments = {name: a for name, a in arguments.items() if a.kind is not a.KEYWORD_ONLY}
    declared = {name: each.default for name, each in kind.hyperparameters.items()}
    assert {name: each.default for name, each in arguments.items()} == declared
    made = kind(**declared)
    assert {name: getattr(made, name) for name in declared} == declared
    assert all(each.meaning for each in kind.hyperparameters.values())


@one_per_class
def test_every_draw_from_the_search_space_is_accepted(case: Case) -> None:
    kind, generator = objective_class(case.name), np.random.default_rng(0)
    spaces = {name: each.space for name, each in kind.hyperparameters.items() if each.space}
    draws = [{name: s.sample(generator) for name, s in spaces.items()} for _ in range(50)]
    for draw in draws:
        kind(**draw)
    for name in spaces:
        assert len({draw[name] for draw in draws}) > 1, f"{name} never varies"


@every_case
def test_float64_stays_float64(case: Case) -> None:
    _, predictor, _ = trained(case, toy_batch(dtype=torch.float64), steps=2)
    assert {p.dtype for p in predictor.parameters()} == {torch.float64}


@one_per_class
def test_a_mistyped_hyperparameter_is_named(case: Case) -> None:
    kind = objective_class(case.name)
    with pytest.raises(SettingError, match=f"{kind.__name__} has no hyperparameter 'colour'"):
        kind(colour=1)
    for name in kind.hyperparameters:
        with pytest.raises(SettingError, match=f"Did you mean '{name}'"):
            kind(**{name + "s": 1})


@one_per_class
def test_a_value_that_is_not_allowed_is_refused(case: Case) -> None:
    kind = objective_class(case.name)
    for name, each in kind.hyperparameters.items():
        if each.rule is not None:
            with pytest.raises(SettingError, match=rf"{name} \(.*must be"):
                kind(**{name: "many"})


@every_case
def test_every_optimizer_and_every_network_is_used(case: Case) -> None:
    torch.manual_seed(0)
    made, batch = case.make(), toy_batch()
    predictor = made.prepare(predictor_for("classes"), batch.num_domains)
    optimizers = optimizers_for(made, predictor, 1e-2)
    networks = [*predictor.named_parameters(), *made.named_parameters()]
    before = {name: p.detach().clone() for name, p in networks}
    names = set()
    for step in range(2):
        for update in made.updates(batch, predictor, step):
            names.add(update.optimizer)
            apply(update, optimizers)
    assert names == set(optimizers)
    still = [name for name, p in networks if torch.equal(before[name], p)]
    assert still == []


def test_every_registered_objective_has_a_row() -> None:
    assert {case.name for case in CASES} == set(OBJECTIVES)


def _losses(made: Objective, batch: Batch, predictor, seed: int = 0) -> list[float]:
    torch.manual_seed(seed)
    optimizers = optimizers_for(made, predictor, 1e-2)
    losses = []
    for update in made.updates(batch, predictor, 0):
        losses.append(float(update.loss.detach()))
        apply(update, optimizers)
    return losses
