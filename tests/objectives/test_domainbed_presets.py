"""Updates of the DomainBed presets against the same updates worked out from their definitions.

Parameters are compared after several updates, in double precision and with weight decay, which
makes a wrong factor on the whole loss visible behind Adam.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eqrm.data import DomainData
from eqrm.objectives import OBJECTIVES, Batch, Objective, objective
from eqrm.objectives.registry import PRESETS
from eqrm.predictors import MLP, Predictor
from eqrm.training import OptimizerChoice, Trainer, TrainingSettings, recommended_phases
from eqrm.training.state import Optimizers
from objectives import domainbed_updates as domainbed
from objectives.domainbed_updates import LEARNING_RATE, WEIGHT_DECAY, Adam, Minibatches, Network

DOMAINS, PER_DOMAIN, STEPS = 4, 6, 4
CHOICE = OptimizerChoice(weight_decay=WEIGHT_DECAY)
EXACT = 1e-6


def made_batch(step: int, image: bool = False) -> Batch:
    """Equally many examples of every domain, rows in random order, every class in the batch."""
    generator = torch.Generator().manual_seed(100 + step)
    domains = torch.arange(DOMAINS).repeat(PER_DOMAIN)
    domains = domains[torch.randperm(len(domains), generator=generator)]
    shape = (3, 8, 8) if image else (5,)
    x = torch.randn(len(domains), *shape, generator=generator, dtype=torch.float64)
    x = x + 0.5 * domains.reshape(-1, *[1] * len(shape))
    y = torch.randint(3, (len(domains),), generator=generator)
    return Batch(x, y, domains, DOMAINS)


def minibatches_of(batch: Batch) -> Minibatches:
    return [(batch.x[batch.domains == e], batch.y[batch.domains == e]) for e in range(DOMAINS)]


def network(image: bool = False) -> Predictor:
    torch.manual_seed(7)
    if image:
        layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return Predictor(nn.Sequential(*layers), nn.Linear(4, 3)).double()
    return MLP(5, 3, width=8, depth=1).double()


def prepared(name: str, image: bool = False, **settings: Any) -> tuple[Objective, Predictor]:
    made = objective(name, preset="domainbed", **settings)
    return made, made.prepare(network(image), DOMAINS)


def copied(predictor: Predictor, **others: nn.Module) -> Network:
    return Network(
        copy.deepcopy(predictor.featurizer),
        copy.deepcopy(predictor.head),
        {name: copy.deepcopy(module) for name, module in others.items()},
    )


def update(
    made: Objective, predictor: Predictor, steps: int = STEPS, image: bool = False
) -> Iterator[int]:
    """Take our steps; yields after each, so that the other side can take its own."""
    optimizers = Optimizers(CHOICE, LEARNING_RATE, predictor, made)
    for step in range(steps):
        torch.manual_seed(step)
        for each in made.updates(made_batch(step, image), predictor, step):
            optimizers.apply(each, 1.0, None)
        torch.manual_seed(step)
        yield step


def assert_same(ours: Iterator[Tensor], theirs: Iterator[Tensor] | list[Tensor]) -> None:
    pairs = list(zip(ours, theirs, strict=True))
    assert pairs
    for mine, other in pairs:
        assert float((mine - other).detach().abs().max()) < EXACT


Loss = Callable[[Network, Minibatches], Tensor]
ONE_LOSS: dict[str, tuple[dict[str, Any], Loss]] = {
    "erm": ({}, domainbed.erm),
    "groupdro": ({"step_size": 0.5}, lambda n, m: domainbed.groupdro(n, m, 0.5)),
    "iga": ({"penalty_weight": 20.0}, lambda n, m: domainbed.iga(n, m, 20.0)),
    "sd": ({"penalty_weight": 0.3}, lambda n, m: domainbed.sd(n, m, 0.3)),
    "coral": ({"penalty_weight": 3.0}, lambda n, m: domainbed.coral(n, m, 3.0)),
    "mmd": ({"penalty_weight": 3.0}, lambda n, m: domainbed.mmd(n, m, 3.0)),
    "irm": ({"penalty_weight": 30.0}, lambda n, m: domainbed.irm(n, m, 30.0)),
    "vrex": ({"penalty_weight": 30.0}, lambda n, m: domainbed.vrex(n, m, 30.0)),
    "eqrm": ({"alpha": 0.75}, lambda n, m: domainbed.eqrm(n, m, 0.75)),
    "mixup": ({"concentration": 0.4}, lambda n, m: domainbed.mixup(n, m, 0.4)),
    "rsc": (
        {"feature_drop": 0.3, "example_drop": 0.4},
        lambda n, m: domainbed.rsc(n, m, 0.3, 0.4),
    ),
}


@pytest.mark.parametrize("name", ONE_LOSS)
def test_updates_of_one_loss_are_domainbeds(name: str) -> None:
    settings, loss = ONE_LOSS[name]
    made, predictor = prepared(name, **settings)
    theirs = copied(predictor)
    adam = Adam(theirs.parameters)
    for step in update(made, predictor):
        adam.descend(loss(theirs, minibatches_of(made_batch(step))))
        assert_same(predictor.parameters(), theirs.parameters)


@pytest.mark.parametrize("held_out", [1, 2])
def test_mldg_takes_the_inner_step_of_a_fresh_adam(held_out: int) -> None:
    made, predictor = prepared("mldg", beta=0.7, num_meta_test=held_out)
    theirs = copied(predictor)
    adam = Adam(theirs.parameters)
    for step in update(made, predictor):
        batch = minibatches_of(made_batch(step))
        adam.step(dict(enumerate(domainbed.mldg(theirs, batch, 0.7, held_out))))
        assert_same(predictor.parameters(), theirs.parameters)


def test_sagnet_mixes_variances_in_three_updates() -> None:
    made, predictor = prepared("sagnet", adversarial_weight=0.5)
    style_head = made.style_head
    theirs = copied(predictor, style=style_head)
    adam, style = Adam(theirs.parameters), Adam(list(theirs.others["style"].parameters()))
    for step in update(made, predictor):
        x, y = made_batch(step).x, made_batch(step).y
        restyled = domainbed.restyled
        adam.descend(domainbed.risk(theirs.head(restyled(theirs.featurizer(x), "style")), y))
        style_of = theirs.others["style"]
        style.descend(
            domainbed.risk(style_of(restyled(theirs.featurizer(x).detach(), "content")), y)
        )
        unsure = style_of(restyled(theirs.featurizer(x), "content")).log_softmax(dim=1)
        adam.descend(-0.5 * unsure.mean(), only=list(theirs.featurizer.parameters()))
        assert_same(predictor.parameters(), theirs.parameters)
        assert_same(style_head.parameters(), list(style_of.parameters()))


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize(("each", "penalty"), [(1, 0.0), (2, 0.8)])
def test_dann_and_cdann_train_one_network_a_step(
    conditional: bool, each: int, penalty: float
) -> None:
    settings = {"discriminator_steps": each, "gradient_penalty": penalty, "width": 6, "beta1": 0.5}
    settings |= {"discriminator_learning_rate": 0.02, "discriminator_weight_decay": 0.05}
    made, predictor = prepared(
        "cdann" if conditional else "dann", reversal_strength=0.6, **settings
    )
    own = dict(made.named_children())
    theirs = copied(predictor, **own)
    adam = Adam(theirs.parameters, betas=(0.5, 0.9))
    others = [p for module in theirs.others.values() for p in module.parameters()]
    discriminator = Adam(others, 0.02, 0.05, betas=(0.5, 0.9))
    trained = []
    for step in update(made, predictor, steps=2 * (each + 1)):
        batch = minibatches_of(made_batch(step))
        against = domainbed.discriminator_loss(theirs, batch, conditional, penalty)
        if (step + 1) % (each + 1) < each:
            discriminator.descend(against)
        else:
            adam.descend(domainbed.erm(theirs, batch) - 0.6 * against)
        trained.append((step + 1) % (each + 1) < each)
        assert_same(predictor.parameters(), theirs.parameters)
        assert_same(made.parameters(), others)
    assert sum(trained) == 2 * each


def test_arm_has_batch_norm_in_its_context_network() -> None:
    made, predictor = prepared("arm", image=True, context_width=4)
    kinds = [type(layer).__name__ for layer in predictor.context]
    assert kinds == [*["Conv2d", "BatchNorm2d", "ReLU"] * 2, "Conv2d"]
    theirs = copied(predictor, context=predictor.context)
    parameters = [*theirs.parameters, *theirs.others["context"].parameters()]
    adam = Adam(parameters)
    for step in update(made, predictor, image=True):
        adam.descend(domainbed.arm(theirs, minibatches_of(made_batch(step, image=True))))
        assert_same(predictor.parameters(), parameters)


def test_mtl_gives_the_head_noise_and_sums_the_risks() -> None:
    made, predictor = prepared("mtl", update_rate=0.9)
    theirs = copied(predictor)
    adam, means = Adam(theirs.parameters), torch.zeros(DOMAINS, 8, dtype=torch.float64)
    for step in update(made, predictor):
        batch = made_batch(step)
        drawn = torch.randn(len(batch.y), 8, dtype=torch.float64)
        noise = [drawn[batch.domains == e] for e in range(DOMAINS)]
        with torch.no_grad():
            now = [theirs.featurizer(x).mean(dim=0) for x, _ in minibatches_of(batch)]
        means = 0.9 * torch.stack(now) + 0.1 * means
        adam.descend(domainbed.mtl(theirs, minibatches_of(batch), noise))
        assert_same(predictor.parameters(), theirs.parameters)
        assert float((predictor.embeddings - means).abs().max()) < EXACT


class _FixedBatches(Iterator[Tensor]):
    """Batch number t is the t-th block of rows."""

    def __init__(self, rows: int) -> None:
        self.rows, self.step = rows, 0

    def __next__(self) -> Tensor:
        self.step += 1
        return torch.arange(self.rows) + (self.step - 1) * self.rows

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])


@pytest.mark.parametrize("name", ["irm", "vrex", "eqrm"])
def test_annealing_and_burn_in_switch_weight_rate_and_adam(name: str) -> None:
    """As in DomainBed: from the step on whose number is that of the switch, with a new Adam."""
    switch, steps = 3, 7
    made = objective(name, preset="domainbed")
    weight = getattr(made, "penalty_weight", None)
    first, last = recommended_phases(made, 3000, LEARNING_RATE)
    rate = last.learning_rate if name == "eqrm" else LEARNING_RATE
    assert name != "eqrm" or rate == 1e-6
    batches = [made_batch(step) for step in range(steps)]
    x, y = torch.cat([b.x for b in batches]), torch.cat([b.y for b in batches])
    data = DomainData(x, y, torch.cat([b.domains for b in batches]), tuple("abcd"))
    shortened = [
        replace(first, steps=switch),
        replace(last, steps=steps - switch, learning_rate=rate),
    ]
    trainer = Trainer(
        network(),
        data,
        shortened,
        _FixedBatches(len(batches[0].y)),
        settings=TrainingSettings(device="cpu", optimizer=CHOICE),
    )
    theirs = copied(trainer.state.predictor)
    trained = trainer.fit().predictor
    adam = Adam(theirs.parameters)
    for step, batch in enumerate(batches):
        parts = minibatches_of(batch)
        if step == switch:
            adam = Adam(theirs.parameters, rate)
        if name == "eqrm":
            loss = (
                domainbed.erm(theirs, parts)
                if step < switch
                else domainbed.eqrm(theirs, parts, 0.75)
            )
        else:
            now = weight if step >= switch else 1.0
            loss = getattr(domainbed, name)(theirs, parts, now)
        adam.descend(loss)
    assert_same(trained.parameters(), theirs.parameters)


def test_defaults_and_phases_are_those_of_domainbed() -> None:
    expected: dict[str, dict[str, Any]] = {
        "irm": {"penalty_weight": 100.0},
        "vrex": {"penalty_weight": 10.0},
        "groupdro": {"step_size": 0.01},
        "iga": {"penalty_weight": 1000.0},
        "coral": {"penalty_weight": 1.0},
        "mmd": {"penalty_weight": 1.0},
        "sd": {"penalty_weight": 0.1},
        "mixup": {"concentration": 0.2},
        "mldg": {"beta": 1.0, "num_meta_test": 2},
        "mtl": {"update_rate": 0.99},
        "sagnet": {"adversarial_weight": 0.1},
        "rsc": {"feature_drop": 1 / 3, "example_drop": 1 / 3},
        "dann": {"reversal_strength": 1.0, "discriminator_steps": 1, "gradient_penalty": 0.0},
        "eqrm": {"alpha": 0.75},
    }
    for name, values in expected.items():
        made = objective(name, preset="domainbed")
        assert {key: getattr(made, key) for key in values} == values
    for name, steps in (("irm", 500), ("vrex", 500), ("eqrm", 2500)):
        assert objective(name, preset="domainbed").recommended_phases()[0].steps == steps


def test_every_preset_is_tested_and_draws_what_it_accepts() -> None:
    tested = {*ONE_LOSS, "mldg", "sagnet", "dann", "cdann", "arm", "mtl"}
    known = PRESETS["domainbed"]
    assert tested == set(known) == set(OBJECTIVES) - {"superquantile"}
    generator = np.random.default_rng(0)
    for name in known:
        kind = known.load(name)
        assert kind.name == name
        for _ in range(20):
            spaces = {name: each.space for name, each in kind.hyperparameters.items() if each.space}
            kind(**{name: space.sample(generator) for name, space in spaces.items()})
