"""The one line ``EQRM(0.9)(losses, domains)``, unchanged, wherever people train."""

from __future__ import annotations

import copy
import math
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from eqrm.errors import DomainDataError
from eqrm.objectives import EQRM, ERM, GroupDRO, RiskMemory, RiskObjective, Superquantile, VREx

NUM_DOMAINS = 4

OBJECTIVES: dict[str, Callable[[], RiskObjective]] = {
    "erm": ERM,
    "eqrm": lambda: EQRM(0.9),
    "eqrm-low": lambda: EQRM(0.3),
    "eqrm-deep": lambda: EQRM("1-e^-1000"),
    "eqrm-gaussian": lambda: EQRM(0.9, "gaussian"),
    "eqrm-empirical": lambda: EQRM(0.9, "empirical"),
    "eqrm-weights": lambda: EQRM(0.9, weights=torch.arange(1.0, NUM_DOMAINS + 1)),
    "eqrm-memory": lambda: EQRM(0.9, memory=RiskMemory(NUM_DOMAINS, half_life=3.0)),
    "eqrm-denoise": lambda: EQRM(0.9, memory=RiskMemory(NUM_DOMAINS, averaging=0.5, denoise=True)),
    "superquantile": lambda: Superquantile(0.6),
    "groupdro": lambda: GroupDRO(0.1),
    "vrex": lambda: VREx(1.0),
}

KEEPING_STATE = ("groupdro", "eqrm-memory", "eqrm-denoise")
COMPILED_QUICKLY = ("eqrm", "groupdro")
FULL = pytest.mark.full

every_objective = pytest.mark.parametrize("name", OBJECTIVES)
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def ready(name: str, device: str = "cpu") -> RiskObjective:
    made = OBJECTIVES[name]().to(device)
    made.prepare(network().to(device), NUM_DOMAINS)  # type: ignore[arg-type]
    return made


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0)).to(dtype)


def data(seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """24 examples of four domains, in random order."""
    generator = torch.Generator().manual_seed(seed)
    domains = torch.repeat_interleave(torch.arange(NUM_DOMAINS), torch.tensor([3, 9, 5, 7]))
    domains = domains[torch.randperm(24, generator=generator)]
    x = torch.randn(24, 3, generator=generator)
    return x.to(dtype), (x[:, 0] + 0.4 * domains * x[:, 1]).to(dtype), domains


def losses_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(x), y, reduction="none")


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.detach().flatten().double().cpu() for p in model.parameters()])


def whole_batch_gradient(objective: RiskObjective, dtype: torch.dtype = torch.float64) -> Tensor:
    model = network(dtype)
    x, y, domains = data(dtype=dtype)
    objective(losses_of(model, x, y), domains).backward()
    return gradient(model)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Inside, whatever waits for the CUDA device is an error."""
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


class TestAutocast:
    @every_objective
    def test_bfloat16_autocast_gives_nearly_the_float32_step(self, name: str) -> None:
        model, (x, y, domains) = network(), data()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = ready(name)(losses_of(model, x, y), domains)
        loss.backward()
        expected = whole_batch_gradient(ready(name), torch.float32)
        assert loss.dtype == torch.float32
        cosine = torch.cosine_similarity(gradient(model), expected, dim=0)
        assert cosine > 0.995

    def test_the_quantile_itself_is_not_rounded(self) -> None:
        """Only the network runs in bfloat16: risks and quantile keep float32's digits."""
        losses, domains = torch.rand(24), data()[2]
        expected = EQRM(0.9)(losses, domains)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert EQRM(0.9)(losses, domains) == expected


with_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")),
    reason="torch.compile needs a C++ compiler on the CPU; neither g++ nor clang++ is here",
)
from_torch_itself = pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning",  # tracing an autograd.Function
    "ignore:.*torch.jit.*deprecated:DeprecationWarning",  # loading inductor
    r"ignore:\s*(TensorFloat32 tensor cores|Online softmax is disabled)",  # inductor on CUDA
)


@from_torch_itself
@pytest.mark.unmeasured
class TestCompile:
    @pytest.fixture(autouse=True)
    def from_scratch(self) -> None:
        torch.compiler.reset()

    @pytest.mark.parametrize(
        "name",
        [pytest.param(n, marks=() if n in COMPILED_QUICKLY else FULL) for n in OBJECTIVES],
    )
    def test_a_compiled_objective_is_the_eager_one(self, name: str) -> None:
        """aot_eager traces forward and backward as inductor does, and needs no compiler."""
        check_compiled_objective(name, "aot_eager", "cpu")

    @pytest.mark.slow
    @with_compiler
    @pytest.mark.parametrize("name", KEEPING_STATE)
    def test_state_survives_the_default_compiler(self, name: str) -> None:
        """Inductor computes things again in the backward pass, where state has moved on."""
        check_compiled_objective(name, "inductor", "cpu")

    def test_a_whole_step_is_one_graph_and_never_compiled_again(self) -> None:
        check_compiled_step("aot_eager", "cpu")

    @pytest.mark.slow
    @with_compiler
    def test_a_whole_step_works_with_the_default_compiler(self) -> None:
        check_compiled_step("inductor", "cpu")


def check_compiled_objective(name: str, backend: str, device: str) -> None:
    """Values, gradients and state of three calls, compiled and not."""
    eager, traced = ready(name, device), ready(name, device)
    compiled = torch.compile(traced, fullgraph=True, backend=backend)
    for seed in range(3):
        losses = torch.rand(24, generator=torch.Generator().manual_seed(seed)) + 0.1
        domains = data(seed)[2] % (NUM_DOMAINS - seed % 2)  # in turn, one is absent
        values, gradients = [], []
        for objective in (eager, compiled):
            own = losses.to(device).requires_grad_()
            value = objective(own, domains.to(device), num_domains=NUM_DOMAINS)
            values.append(value.item())
            gradients.append(torch.autograd.grad(value, own)[0])
        assert values[1] == pytest.approx(values[0], rel=1e-6)
        assert torch.allclose(*gradients, rtol=1e-5, atol=1e-7)
    for key, value in eager.state_dict().items():
        assert torch.allclose(value, traced.state_dict()[key], rtol=1e-6)


def check_compiled_step(backend: str, device: str) -> None:
    """Model, losses and EQRM in one compiled function, over batches that differ."""
    model, twin = network().to(device), network().to(device)
    graphs = []

    def counting(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        graphs.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    def loss_of(net: nn.Module, x: Tensor, y: Tensor, domains: Tensor) -> Tensor:
        return EQRM(0.9)(losses_of(net, x, y), domains, num_domains=NUM_DOMAINS)

    compiled = torch.compile(loss_of, fullgraph=True, backend=counting)
    for seed in range(3):
        x, y, domains = (each.to(device) for each in data(seed))
        for net, function in ((model, compiled), (twin, loss_of)):
            net.zero_grad()
            function(net, x, y, domains).backward()
        assert torch.allclose(gradient(model), gradient(twin), rtol=1e-4, atol=1e-6)
    assert len(graphs) == 1


class TestTransforms:
    """Tensors that only stand for others, as those of torch.func, have no memory to read."""

    @pytest.mark.parametrize("name", ["erm", "eqrm", "vrex"])
    def test_the_gradient_of_torch_func_is_that_of_autograd(self, name: str) -> None:
        objective, ids = ready(name), torch.tensor([0, 1, 2, 2])
        losses = torch.tensor([1.0, 2.0, 4.0, 3.5], requires_grad=True)
        found = torch.func.grad(lambda each: objective(each, ids, 3))(losses.detach())
        (expected,) = torch.autograd.grad(ready(name)(losses, ids, 3), losses)
        torch.testing.assert_close(found, expected)
        with pytest.raises(DomainDataError, match="risk of domain 1 is nan"):
            torch.func.grad(lambda each: objective(each, ids, 3))(
                torch.tensor([1.0, math.nan, 4.0, 3.5])
            )


class TestGradientAccumulation:
    """Three micro-batches give the gradient of the whole batch (docs/objectives.md)."""

    def micro_batches(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        return list(zip(*(each.split(8) for each in data(dtype=torch.float64)), strict=True))

    @every_objective
    def test_with_checkpoints(self, name: str) -> None:
        model, parts = network(torch.float64), self.micro_batches()
        losses = torch.cat(
            [checkpoint(losses_of, model, x, y, use_reentrant=False) for x, y, _ in parts]
        )
        ready(name)(losses, torch.cat([domains for *_, domains in parts])).backward()
        expected = whole_batch_gradient(ready(name))
        assert torch.allclose(gradient(model), expected, rtol=1e-9, atol=1e-12)

    @every_objective
    def test_in_two_passes(self, name: str) -> None:
        model, parts = network(torch.float64), self.micro_batches()
        with torch.no_grad():
            losses = torch.cat([losses_of(model, x, y) for x, y, _ in parts])
        losses.requires_grad_()
        loss = ready(name)(losses, torch.cat([domains for *_, domains in parts]))
        (slopes,) = torch.autograd.grad(loss, losses)
        for (x, y, _), slope in zip(parts, slopes.split(8), strict=True):
            (slope * losses_of(model, x, y)).sum().backward()
        expected = whole_batch_gradient(ready(name))
        assert torch.allclose(gradient(model), expected, rtol=1e-9, atol=1e-12)


@on_cuda
@from_torch_itself
class TestCUDA:
    @every_objective
    def test_nothing_waits_for_the_device(self, name: str) -> None:
        objective, (x, y, domains) = ready(name, "cuda"), (each.cuda() for each in data())
        model = network().cuda()
        objective(losses_of(model, x, y), domains, num_domains=NUM_DOMAINS).backward()
        with no_waiting():
            for _ in range(3):
                objective(losses_of(model, x, y), domains, num_domains=NUM_DOMAINS).backward()

    @every_objective
    def test_a_step_can_be_captured_in_a_graph(self, name: str) -> None:
        objective, (x, y, domains) = ready(name, "cuda"), (each.cuda() for each in data())
        model = network().cuda()

        def step(used: RiskObjective) -> Tensor:
            model.zero_grad(set_to_none=False)
            loss = used(losses_of(model, x, y), domains, num_domains=NUM_DOMAINS)
            loss.backward()
            return loss.detach()

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                step(objective)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step(objective)
        twin = copy.deepcopy(objective)
        for seed in (1, 2):
            x.copy_(data(seed)[0])
            y.copy_(data(seed)[1])
            graph.replay()
            replayed, of_graph = captured.item(), gradient(model)
            assert replayed == pytest.approx(step(twin).item(), rel=1e-6)
            assert torch.allclose(of_graph, gradient(model), rtol=1e-5, atol=1e-7)
        for key, value in twin.state_dict().items():
            assert torch.allclose(value, objective.state_dict()[key], rtol=1e-6)
