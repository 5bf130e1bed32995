"""Every method of a stack against the trainer's own run of it, in float64."""

from __future__ import annotations

import pytest
import torch
from studies.many_runs.activations import Dropout, rectified_gradient_, rectify_
from studies.many_runs.batches import StackBatches
from studies.many_runs.mlp import StackedMLP
from studies.many_runs.train_many import Run, TrainedRuns, runs_of, train_many

from eqrm.errors import SettingError
from eqrm.level import Level
from eqrm.objectives import EQRM, ERM, IGA, IRM, SD, GroupDRO, Objective, Superquantile, VREx
from eqrm.predictors.small_networks import MLP
from eqrm.training.phases import Phase
from small_runs import alone, difference, in_double, small, world

TAIL = Level(log_tail=-1000)
METHODS: dict[str, list[Objective]] = {
    "erm": [ERM()],
    "irm": [IRM(50.0), IRM(5000.0)],
    "groupdro": [GroupDRO(0.001), GroupDRO(1.0)],
    "sd": [SD(0.001), SD(1.0)],
    "iga": [IGA(10.0), IGA(2000.0)],
    "vrex": [VREx(50.0), VREx(5000.0)],
    "eqrm": [EQRM(Level(log_tail=-100)), EQRM(TAIL), EQRM(0.5)],
    "eqrm, published gradient": [EQRM(TAIL, options={"gradient": "bisection"}), EQRM(TAIL)],
}


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("k", "burn_in", "steps"),
    [(21, 3, 6), *(pytest.param(k, 20, 30, marks=pytest.mark.full) for k in (21, None))],
)
def test_all_steps_of_each_method_are_those_of_the_trainer(
    name: str, k: int | None, burn_in: int, steps: int
) -> None:
    data = in_double(world())
    scaling = "gradient-norm-ratio" if name.startswith("eqrm") else "none"
    if hasattr(METHODS[name][0], "penalty_weight"):
        scaling = "penalty-weight"
    phases = [
        Phase(each, steps, 1e-3, "cosine", loss_scaling=scaled)
        for each in METHODS[name]
        for scaled in dict.fromkeys((scaling, "none"))
    ]
    runs = runs_of([0, 1], Phase("erm", burn_in, 1e-2), phases)
    trained = train_many(runs, data, small(), examples_per_domain=k, dtype=torch.float64)
    for position, run in enumerate(runs):
        truth = alone(run, data, k, small())
        assert difference(trained.predictor(position), truth) < 1e-10, run


def test_what_a_stack_cannot_do_is_refused() -> None:
    for objective in (IRM(10.0, unbiased=True), Superquantile(0.5)):
        with pytest.raises(SettingError, match="cannot be minimised in a stack"):
            train_many([Run(0, (Phase(objective, 2),))], world(), small())
    with pytest.raises(SettingError, match="binary cross-entropy"):
        train_many([Run(0, (Phase("erm", 2),))], world(), lambda: MLP(6, 3, width=10, depth=2))


def test_training_goes_on_from_a_burn_in_as_if_it_had_not_stopped() -> None:
    data = world()
    burn_in = Phase("erm", 6, 1e-2)
    scaled = Phase(EQRM(TAIL), 6, 1e-3, "cosine", loss_scaling="gradient-norm-ratio")
    runs = runs_of([3, 4], burn_in, [scaled, Phase(VREx(10.0), 4, 1e-3), Phase(IGA(9.0), 5, 1e-3)])
    whole = train_many(runs, data, small(0.2), examples_per_domain=20)
    begun = train_many(runs_of([3, 4], burn_in), data, small(0.2), examples_per_domain=20)
    rest = train_many(runs, data, small(0.2), examples_per_domain=20, burn_ins=begun.burn_ins())
    for one, other in zip(whole.stack.parameters, rest.stack.parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert rest.risks[:, :6].isnan().all()
    torch.testing.assert_close(whole.risks[:, 6:], rest.risks[:, 6:], equal_nan=True)


def test_padded_layers_change_nothing_and_padding_stays_zero() -> None:
    network = small()()
    x, y = torch.randn(2, 30, 6, dtype=torch.float64), torch.ones(2, 30)
    plain = StackedMLP([network, network], dtype=torch.float64)
    padded = StackedMLP([network, network], dtype=torch.float64, multiple=8)
    assert padded.parameters[2].shape == (2, 16, 16)
    for stack in (plain, padded):
        passed = stack.forward(x)
        stack.found = stack.gradients(passed, passed.outputs - y.unsqueeze(-1))  # type: ignore[attr-defined]
    for own, other in zip(padded.found, plain.found, strict=True):  # type: ignore[attr-defined]
        part = own[tuple(slice(0, size) for size in other.shape)]
        torch.testing.assert_close(part, other)
        assert own.abs().sum() == pytest.approx(other.abs().sum().item())
    assert difference(padded.network(1), network) == 0.0


@pytest.mark.parametrize("objective", [EQRM(TAIL), IGA(100.0), VREx(1e5)], ids=lambda o: o.name)
def test_half_precision_follows_single_precision(objective: Objective) -> None:
    """Rounded to 11 bits, gradients of any size differ by a few thousandths."""
    data = world()
    run = Run(0, (Phase("erm", 20, 1e-2), Phase(objective, 10, 1e-3)))

    def moved(half: bool) -> TrainedRuns:
        return train_many([run], data, small(), half=half)

    exact, rounded = moved(False), moved(True)
    torch.testing.assert_close(rounded.risks, exact.risks, rtol=0.0, atol=3e-3)
    assert not torch.equal(rounded.risks, exact.risks)


def test_batches_with_replacement_are_drawn_by_seed_from_the_domain_itself() -> None:
    data = [world(0), world(1)]
    keys = [(1, 5, 0), (1, 5, 0), (0, 6, 0)]
    source = StackBatches(data, None, torch.device("cpu"), torch.float32, replacement=True)
    batches = source.from_step(keys)
    x, _ = batches.next()
    assert torch.equal(x[0], x[1])
    assert not torch.equal(x[0], batches.next()[0][0])
    for position, which in ((0, 1), (2, 0)):
        begin = 0
        for domain, size in enumerate(source.sizes):
            own = {tuple(row) for row in data[which].x[data[which].domains == domain].tolist()}
            drawn = [tuple(row) for row in x[position, begin : begin + size].tolist()]
            assert set(drawn) < own
            assert 0.5 < len(set(drawn)) / size < 0.8  # 1 − 1/e of them
            begin += size


def test_runs_with_replacement_do_not_depend_on_their_neighbours() -> None:
    data = world()
    runs = runs_of([0, 1], Phase("erm", 5, 1e-2), [Phase(EQRM(TAIL), n, 1e-3) for n in (3, 5)])
    options = {"replacement": True, "dtype": torch.float64}
    together = train_many(runs, data, small(0.2), **options)  # type: ignore[arg-type]
    for position, run in enumerate(runs):
        apart = train_many([run], data, small(0.2), **options)  # type: ignore[arg-type]
        assert difference(together.predictor(position), apart.predictor(0)) < 1e-12


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_fused_kernels_do_what_torch_does(kind: torch.dtype) -> None:
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(0)
    z = torch.randn(3, 1003, 392, device=device, generator=generator).to(kind)
    bias = torch.randn(3, 392, device=device, generator=generator)
    whole = (z.float() + bias[:, None]).relu() / 0.8
    h = rectify_(z, bias, 0.2, Dropout([1, 2, 1], 0, device))
    kept, positive = h > 0, whole > 0
    tolerance = {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(h.float()[kept], whole[kept], **tolerance)
    assert abs(kept.sum() / positive.sum() - 0.8) < 0.005
    both = positive[0] & positive[2]
    assert torch.equal(kept[0][both], kept[2][both])  # runs of one seed drop the same units
    gradient = torch.randn(3, 1003, 392, device=device, generator=generator).to(kind)
    want = torch.where(h > 0, gradient.float() * 1.25, 0.0)
    found, sums = rectified_gradient_(gradient, h, 1.25)
    torch.testing.assert_close(found.float(), want, **tolerance)
    torch.testing.assert_close(sums, want.sum(1), rtol=1e-3, atol=0.05)
