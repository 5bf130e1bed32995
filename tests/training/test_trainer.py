"""The loop: it minimises what its phases say, with the optimizers they ask for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from eqrm import domain_risks
from eqrm.data import DomainBatches, DomainData
from eqrm.errors import DomainDataError, SettingError
from eqrm.objectives import EQRM, ERM
from eqrm.predictors import MLP
from eqrm.predictors.small_networks import LinearPredictor
from eqrm.training import EarlyStopping, OptimizerChoice, Phase, Trainer
from eqrm.training.progress import display
from eqrm.training.runs.run_folder import RunFolder
from objectives.cases import CASES
from training.small_worlds import (
    classification,
    linear,
    network,
    regression,
    settings,
    trainer,
    weights,
)

# Small worlds take small batches.
pytestmark = pytest.mark.filterwarnings(
    "ignore::eqrm.objectives.training_warnings.SmallBatchWarning"
)


def test_erm_on_whole_domains_reaches_least_squares() -> None:
    data = regression()
    trained = Trainer(
        linear(), data, [Phase("erm", 500, 0.2, schedule="cosine")], settings=settings()
    ).fit()
    design = np.column_stack([data.x.numpy(), np.ones(len(data))])
    best, *_ = np.linalg.lstsq(design, data.y.numpy(), rcond=None)
    found = weights(trained.predictor).numpy()
    np.testing.assert_allclose(found, best, atol=1e-4)


def test_the_trainer_takes_the_steps_of_a_hand_written_loop() -> None:
    data, phases = regression(), [Phase("erm", 5, 0.01), Phase(EQRM(0.9), 7, 0.02)]
    trained = Trainer(
        network(), data, phases, DomainBatches(data, 3, 4, seed=1), settings=settings()
    ).fit()

    by_hand, batches = network(), DomainBatches(data, 3, 4, seed=1)
    for minimised, steps, rate in ((ERM(), 5, 0.01), (EQRM(0.9), 7, 0.02)):
        optimizer = torch.optim.Adam(by_hand.parameters(), lr=rate)
        for _ in range(steps):
            rows = next(batches)
            losses = by_hand.losses(by_hand(data.x[rows]), data.y[rows])
            loss = minimised(losses, data.domains[rows], data.num_domains)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert torch.equal(weights(trained.predictor), weights(by_hand))


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.full if case.label else ()) for case in CASES],
    ids=str,
)
def test_every_objective_trains_and_learns(case) -> None:  # type: ignore[no-untyped-def]
    data = classification()
    torch.manual_seed(0)
    predictor = MLP(4, 3, width=16, depth=1)
    before = mean_loss(predictor, data)
    batches = DomainBatches(data, 3, 8, seed=0)
    phases = [Phase("erm", 10, 0.01), Phase(case.make(), 40, 0.01)]
    trained = Trainer(predictor, data, phases, batches, settings=settings()).fit()
    assert mean_loss(trained.predictor, data) < before - 0.05


def mean_loss(predictor: nn.Module, data: DomainData) -> float:
    predictor.eval()
    with torch.no_grad():
        losses = predictor.losses(predictor(data.x, data.domains), data.y)  # type: ignore[operator]
    return float(losses.mean())


def test_a_fresh_optimizer_forgets_and_a_kept_one_does_not() -> None:
    def end(fresh: bool) -> torch.Tensor:
        phases = [Phase("erm", 5, 0.01), Phase("erm", 5, 0.01, fresh_optimizer=fresh)]
        return weights(trainer(phases=phases).fit().predictor)

    one_phase = weights(trainer(phases=[Phase("erm", 10, 0.01)]).fit().predictor)
    assert torch.equal(end(fresh=False), one_phase)
    assert not torch.equal(end(fresh=True), one_phase)


def test_the_learning_rate_of_every_step_follows_the_schedule(tmp_path: Path) -> None:
    phases = [Phase("erm", 3, 0.1), Phase("eqrm", 4, 0.02, schedule="cosine")]
    trainer(phases=phases, folder=tmp_path, settings=settings(log_every=1)).fit()
    rates = [record["learning_rate"] for record in RunFolder(tmp_path).metrics()]
    cosine = 0.02 * 0.5 * (1 + np.cos(np.pi * np.arange(4) / 4))
    np.testing.assert_allclose(rates, [0.1] * 3 + cosine.tolist())


def test_loss_scaling_divides_by_the_gradient_at_the_switch_over_erms_at_the_first_step() -> None:
    """By hand, with SGD: an ERM step, then EQRM's, scaled as in the published ColoredMNIST code."""
    data, stream, moved = regression(), DomainBatches(regression(), 3, 4, seed=1), linear()
    first_norm = None
    for minimised in (ERM(), EQRM(0.9)):
        rows = next(stream)
        losses = moved.losses(moved(data.x[rows]), data.y[rows])
        value = minimised(losses, data.domains[rows], data.num_domains)
        gradients = torch.autograd.grad(value, list(moved.parameters()))
        gradient = torch.cat([g.reshape(-1) for g in gradients])
        first_norm = gradient.norm() if first_norm is None else first_norm
        step = 0.1 * gradient * (first_norm / gradient.norm())  # ERM's own step has the factor 1
        nn.utils.vector_to_parameters(weights(moved) - step, moved.parameters())
    phases = [Phase("erm", 1, 0.1), Phase(EQRM(0.9), 1, 0.1, loss_scaling="gradient-norm-ratio")]
    choice = settings(optimizer=OptimizerChoice("sgd", momentum=0.0))
    found = trainer(linear(), data, phases, settings=choice).fit().predictor
    torch.testing.assert_close(weights(found), weights(moved))


def test_clipping_bounds_the_step_of_sgd() -> None:
    choice = settings(optimizer=OptimizerChoice("sgd", momentum=0.0), clip_gradients=0.01)
    start = weights(linear())
    found = trainer(linear(), phases=[Phase("erm", 1, 1.0)], settings=choice).fit().predictor
    assert float((weights(found) - start).norm()) == pytest.approx(0.01, rel=1e-3)


def test_the_weight_average_is_the_average_of_the_steps() -> None:
    decay, data = 0.5, regression()
    found = trainer(settings=settings(weight_average=decay)).fit().predictor
    steps = []
    for number in range(15):
        phases = [Phase("erm", 6, 0.01), Phase("eqrm", 8, 0.005, schedule="cosine")]
        machine = trainer(data=data, phases=phases)
        for _ in range(number):
            place = machine.phases.place(machine.state.step)
            if place.phase > machine.state.phase:
                machine.state.enter_phase(place.phase)
            machine._take_step(machine._next_batch(), place)
            machine.state.step += 1
        steps.append(weights(machine.state.predictor))
    average = steps[0]
    for t, step in enumerate(steps[1:], start=1):
        keep = min(decay, (1 + t) / (10 + t))
        average = keep * average + (1 - keep) * step
    torch.testing.assert_close(weights(found), average)


def test_risks_at_the_end_are_the_risks_of_the_predictor(tmp_path: Path) -> None:
    data = regression(6)
    parts = data.splits(test=["d4", "d5"])
    trained = trainer(
        data=parts.train,
        held_out={"test": parts.test},
        folder=tmp_path,
        settings=settings(evaluate_every=5, evaluation_batch=7),
    ).fit()
    test = parts.test
    with torch.no_grad():
        losses = trained.predictor.losses(trained.predictor(test.x), test.y)
    expected = domain_risks(losses.double(), test.domains)
    np.testing.assert_allclose(trained.risks["test"].risks, expected.values.numpy(), rtol=1e-6)
    rows = RunFolder(tmp_path).read_risks()
    assert [row["domain"] for row in rows] == ["d4", "d5"]
    assert [row["examples"] for row in rows] == [12, 12]
    np.testing.assert_allclose([row["risk"] for row in rows], expected.values, rtol=1e-6)
    np.testing.assert_allclose(
        [row["standard_error"] for row in rows], expected.sampling_variances.sqrt(), rtol=1e-6
    )
    table = trained.risks["test"].evaluation("EQRM").risk_table()
    assert "EQRM" in table.to_text()


@pytest.mark.parametrize("level", [0.5, None])
def test_early_stopping_ends_with_the_weights_of_the_best_evaluation(
    tmp_path: Path, level: float | None
) -> None:
    data = regression(6)
    parts = data.splits(validation=["d4", "d5"])
    rule = EarlyStopping(alpha=level, patience=3)
    trained = trainer(
        data=parts.train,
        phases=[Phase("erm", 10, 0.02), Phase("eqrm", 400, 0.1)],
        held_out={"validation": parts.validation},
        folder=tmp_path,
        settings=settings(evaluate_every=4, early_stopping=rule),
    ).fit()
    looked = [r for r in RunFolder(tmp_path).metrics() if "split" in r and "final" not in r]
    last_phase = [r for r in looked if r["step"] > 10]

    def watched(record: dict[str, Any]) -> float:
        found: float = record["mean_risk"] if level is None else record["quantiles"]["0.5"]
        return found

    best, ended = min(last_phase, key=watched), trained.risks["validation"]
    assert trained.stopped_early
    assert trained.steps == best["step"] + 3 * 4 < 410
    assert (ended.mean if level is None else ended.quantile(level)) == pytest.approx(watched(best))


def test_the_bar_shows_the_loss_and_quantiles_of_the_risk() -> None:
    parts = regression(6).splits(validation=["d4", "d5"])
    held_out = {"validation": parts.validation}
    machine = trainer(
        data=parts.train,
        held_out=held_out,
        settings=settings(evaluate_every=2, log_every=1),
        progress=True,
    )
    machine.fit()
    with display(True, 10, 0) as shown:
        shown.evaluated(machine._measured()["validation"])
        shown.step(3, "eqrm", 0.25)
        (task,) = shown._bar.tasks
        assert (task.completed, task.description) == (3, "eqrm")
        words = r"loss 0\.25  validation risk 0\.5: \S+ 0\.9: \S+ 1: \S+"
        assert re.fullmatch(words, task.fields["numbers"])


def test_a_loss_that_is_not_finite_names_the_domain() -> None:
    data = regression()
    data.x[data.domains == 2] = torch.nan
    with pytest.raises(DomainDataError, match="risk of domain 'd2' is nan"):
        trainer(data=data, batches=DomainBatches(data)).fit()


def examples(**changes: torch.Tensor) -> DomainData:
    """Four examples of domains of their own, with some of x, y replaced."""
    given = {"x": torch.zeros(4, 4), "y": torch.tensor([0, 1, 2, 0]), **changes}
    return DomainData(given["x"], given["y"], torch.arange(4), tuple("abcd"))


def with_test_data(**changes: torch.Tensor) -> dict[str, Any]:
    """Three classes to train on, and test data that may not fit."""
    test = {"test": examples(**changes)}
    return {"predictor": MLP(4, 3), "data": classification(), "held_out": test}


def of_targets(loss: str, y: list[Any]) -> dict[str, Any]:
    return {"predictor": MLP(4, 1, loss=loss), "data": examples(y=torch.tensor(y))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phases": []}, "at least one"),
        (
            {"phases": [Phase("coral", 3)], "batches": DomainBatches(regression(), 1, 4)},
            "needs at least 2",
        ),
        ({"phases": [Phase("arm", 2), Phase("mtl", 2)]}, "Two phases change the network"),
        (
            {"phases": [Phase("dann", 2)], "predictor": nn.Linear(3, 1), "loss": "squared"},
            r"Phase 1 \(dann\)",
        ),
        (
            {"phases": [Phase("erm", 6), Phase(EQRM(0.9, options={"bandwith": 1.0}), 6)]},
            r"Phase 2 \(eqrm\).*bandwith",
        ),
        (
            {"phases": [Phase("erm", 6), Phase(EQRM(0.9, weights=torch.ones(3)), 6)]},
            r"Phase 2 \(eqrm\)",  # there are five domains
        ),
        ({"phases": [Phase("erm", 2, loss_scaling="penalty-weight")]}, "penalty_weight"),
        ({"held_out": {"test": regression()}}, "must not be used for training"),
        ({"predictor": LinearPredictor(4, 1, loss="squared")}, "cannot take the training data"),
        ({"predictor": LinearPredictor(3, 2)}, "y holds real numbers"),
        (
            {"settings": settings(evaluate_every=1, early_stopping=EarlyStopping())},
            "'validation', which is not held out",
        ),
        ({"settings": settings(metrics=["macro-f1"])}, "measured on held-out data, and there is"),
        (with_test_data(x=torch.zeros(4, 5)), "cannot take the test data"),
        (
            with_test_data(y=torch.tensor([0, 1, 3, 0])),
            "The test data: The targets are classes 0 to 3",
        ),
        (with_test_data(y=torch.zeros(4)), "The test data: .* y holds real numbers"),
        (
            of_targets("squared", [0.0, torch.nan, 1.0, 2.0]),
            r"The training data: .*1 of 4 examples .* row 1 \(domain 'b'\)",
        ),
        (
            of_targets("binary-cross-entropy", [[0.0], [1.0], [torch.nan], [1.0]]),
            "The training data: .*row 2",
        ),
        (
            of_targets("binary-cross-entropy", [1.0, 2.0, 1.0, 1.0]),
            "The training data: .*between 1 and 2",
        ),
    ],
)
def test_a_run_that_cannot_work_is_refused_before_it_starts(
    change: dict[str, Any], message: str
) -> None:
    given = {"predictor": linear(), "data": regression(), "phases": [Phase("erm", 3)]}
    with pytest.raises((SettingError, DomainDataError), match=message):
        Trainer(**{**given, "settings": settings(), **change})
