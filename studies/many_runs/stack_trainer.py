"""The loop that trains a stack of runs, phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eqrm import Phase
from eqrm.errors import SettingError
from eqrm.objectives import IGA
from eqrm.predictors import MLP
from studies.many_runs.activations import Dropout
from studies.many_runs.adam import StackedAdam
from studies.many_runs.batches import BatchesOfRuns, StackBatches
from studies.many_runs.gradient_variance import mean_and_variance_gradients
from studies.many_runs.mlp import Passed, StackedMLP
from studies.many_runs.objectives import (
    MeasuredStep,
    StackedObjectives,
    loss_divisors,
    means_by_rows,
    phase_key,
)


@dataclass(frozen=True)
class Run:
    """One run: a seed, the phases it goes through, and which of the datasets it trains on."""

    seed: int
    phases: tuple[Phase, ...]
    data: int = 0

    @property
    def steps(self) -> int:
        """The steps of all its phases."""
        return sum(phase.length for phase in self.phases)


@dataclass(frozen=True)
class BurnIn:
    """What the first phase of a seed's runs left: its network, and what loss scalings need.

    ``erm_norm`` is the norm of ERM's gradient at the first step.
    """

    network: MLP
    erm_norm: float = 1.0


@dataclass(frozen=True)
class SharedPhase:
    """A phase to be trained, and the runs (positions) that all go through just this."""

    run: Run
    number: int
    positions: tuple[int, ...]

    @property
    def phase(self) -> Phase:
        """The phase itself."""
        return self.run.phases[self.number]

    @property
    def start(self) -> int:
        """The steps that come before it."""
        return sum(phase.length for phase in self.run.phases[: self.number])


def shared_phases(runs: Sequence[Run], number: int) -> list[SharedPhase]:
    """The different things to train in the phases of this number, the longest first.

    Runs of one seed that agree in all phases so far are one entry: they are the same.
    """
    found: dict[Hashable, list[int]] = {}
    for position, run in enumerate(runs):
        if number < len(run.phases):
            so_far = tuple(phase_key(phase) for phase in run.phases[: number + 1])
            found.setdefault((run.seed, run.data, so_far), []).append(position)
    entries = [SharedPhase(runs[p[0]], number, tuple(p)) for p in found.values()]
    return sorted(entries, key=lambda entry: -entry.phase.length)


CACHED_ACTIVATIONS = 2**19
"""Units of a layer, over all examples and runs of a stack, that a processor works on quickly."""


class StackTrainer:
    """Trains runs of one network shape together."""

    def __init__(
        self,
        batches: StackBatches,
        network: Callable[[], MLP],
        runs_at_once: int | None = None,
        on_step: Callable[[int, int], None] | None = None,
        half: bool = False,
    ) -> None:
        self.batches, self.network, self.half = batches, network, half
        self.device, self.dtype = batches.device, torch.float32 if half else batches.dtype
        self.runs_at_once = runs_at_once
        self.on_step = on_step

    def train(
        self, runs: Sequence[Run], burn_ins: Mapping[int, BurnIn] | None = None
    ) -> tuple[StackedMLP, Tensor]:
        """The trained networks and the risks (R, steps, m) on the way, NaN where there are none.

        With ``burn_ins`` by seed, training goes on after the first phase.
        """
        seeds = {run.seed for run in runs}
        if burn_ins is None:
            made = {seed: self.initial(seed) for seed in seeds}
        else:
            made = {seed: burn_ins[seed].network for seed in seeds}
        networks = [made[run.seed] for run in runs]
        stack = StackedMLP(networks, self.device, self.dtype, self.half)
        adam = StackedAdam(stack.parameters)
        longest, m = max(run.steps for run in runs), len(self.batches.sizes)
        history = torch.full((len(runs), longest, m), torch.nan, device=self.device)
        self._done, self._total = 0, sum(run.steps for run in runs)
        norms = [1.0 if burn_ins is None else burn_ins[run.seed].erm_norm for run in runs]
        self.erm_norms = torch.tensor(norms, dtype=torch.float64, device=self.device)
        begin = 0 if burn_ins is None else 1
        for number in range(begin, max(len(run.phases) for run in runs)):
            for entries in self._stacks(shared_phases(runs, number), stack):
                self._train_phase(entries, stack, adam, history)
        return stack, history

    def _stacks(self, entries: list[SharedPhase], networks: StackedMLP) -> list[list[SharedPhase]]:
        """The entries in stacks of bearable size; IGA, whose steps are longer, on its own."""
        size = self.runs_at_once
        if size is None and self.device.type == "cpu":
            width = max(bias.shape[1] for bias in networks.parameters[1::2])
            size = CACHED_ACTIVATIONS // (self.batches.rows * width)
        size = len(entries) if size is None else max(1, size)
        kinds: dict[bool, list[SharedPhase]] = {}
        for entry in entries:
            kinds.setdefault(_is_iga(entry), []).append(entry)
        return [
            kind[start : start + size]
            for kind in kinds.values()
            for start in range(0, len(kind), size)
        ]

    def initial(self, seed: int) -> MLP:
        """A new network as a run of its own with this seed would make it."""
        words = np.random.SeedSequence([seed, 0]).generate_state(1)
        with torch.random.fork_rng(devices=[]):  # networks are made on the CPU
            torch.default_generator.manual_seed(int(words[0]))
            return self.network()

    def _train_phase(
        self,
        entries: list[SharedPhase],
        all_networks: StackedMLP,
        all_adam: StackedAdam,
        history: Tensor,
    ) -> None:
        """Train every entry, and put what comes out in the place of all its runs."""
        first = torch.tensor([entry.positions[0] for entry in entries], device=self.device)
        stack = all_networks.take(first)
        adam = all_adam.take(first, stack.parameters)
        adam.renew(torch.tensor([entry.phase.fresh_optimizer for entry in entries]))
        keys = [(entry.run.data, entry.run.seed, entry.start) for entry in entries]
        batches = self.batches.from_step(keys)
        dropout = None
        if any(stack.rates):
            seeds = [entry.run.seed for entry in entries]
            dropout = Dropout(seeds, entries[0].number, self.device)
        objectives = StackedObjectives([e.phase.minimised for e in entries], self.device)
        begin, divisors = 0, None
        for end in sorted({entry.phase.length for entry in entries}):
            alive = [entry for entry in entries if entry.phase.length >= end]
            if len(alive) < len(stack):
                kept = torch.arange(len(alive), device=self.device)
                stack = stack.take(kept)
                adam = adam.take(kept, stack.parameters)
                batches.keep(len(alive))
                objectives.keep(len(alive))
                divisors = None if divisors is None else divisors[: len(alive)]
                if dropout is not None:
                    dropout.keep([entry.run.seed for entry in alive])
            stretch = Stretch(alive, stack, adam, objectives, batches, dropout, divisors)
            divisors = self._train_steps(stretch, History(history, alive), range(begin, end))
            self._put_back(alive, end, (stack, adam), (all_networks, all_adam))
            begin = end

    def _put_back(
        self,
        alive: list[SharedPhase],
        end: int,
        trained: tuple[StackedMLP, StackedAdam],
        everything: tuple[StackedMLP, StackedAdam],
    ) -> None:
        """Give the entries that end here to the runs they stand for."""
        pairs = [
            (position, place)
            for place, entry in enumerate(alive)
            if entry.phase.length == end
            for position in entry.positions
        ]
        positions, taken = torch.tensor(pairs, device=self.device).T
        everything[0].put(positions, trained[0], taken)
        everything[1].put(positions, trained[1], taken)

    def _train_steps(self, on: Stretch, history: History, steps: range) -> Tensor:
        phases = [entry.phase for entry in on.entries]
        table = [[phase.rate(step) for phase in phases] for step in steps]
        rates = torch.tensor(table, dtype=torch.float64).to(self.device)
        runs = sum(len(entry.positions) for entry in on.entries)
        divisors = on.divisors
        for at, step in enumerate(steps):
            x, y = on.batches.next()
            passed = on.stack.forward(x, on.dropout)
            measured = self._measured(on.stack, passed, y)
            if divisors is None:
                divisors = self._divisors(on, passed, measured)
            on.adam.step(self._gradients(on, passed, measured, divisors), rates[at])
            history.write(step, measured.risks.detach())
            self._done += runs
            if self.on_step is not None:
                self.on_step(self._done, self._total)
        if divisors is None:
            raise SettingError("A phase without steps cannot be trained.")
        return divisors

    def _measured(self, stack: StackedMLP, passed: Passed, y: Tensor) -> MeasuredStep:
        outputs = passed.outputs.requires_grad_()
        losses = stack.losses(outputs, y)
        sizes = self.batches.sizes
        return MeasuredStep(outputs, y, losses, means_by_rows(losses, sizes), sizes)

    def _gradients(
        self, on: Stretch, passed: Passed, measured: MeasuredStep, divisors: Tensor
    ) -> list[Tensor]:
        """Of every run's objective, divided by its divisor."""
        if _is_iga(on.entries[0]):
            weights = on.objectives.groups[0][0].weights
            return mean_and_variance_gradients(on.stack, passed, measured, weights, divisors)
        loss = (on.objectives(measured) / divisors).sum()  # one term per run: they stay apart
        (by_outputs,) = torch.autograd.grad(loss, measured.outputs)
        return on.stack.gradients(passed, by_outputs)

    def _divisors(self, on: Stretch, passed: Passed, measured: MeasuredStep) -> Tensor:
        """What the losses are divided by, when a phase begins."""

        def norms(values: Tensor) -> Tensor:
            """(R,) ‖∇value of run r‖ over all its parameters."""
            inputs = measured.outputs
            (by_outputs,) = torch.autograd.grad(values.sum(), inputs, retain_graph=True)
            gradients = on.stack.gradients(passed, by_outputs)
            squares = [g.double().square().flatten(1).sum(1) for g in gradients]
            return torch.stack(squares).sum(0).sqrt()

        if on.entries[0].number == 0:
            found = norms(measured.risks.mean(-1))
            for place, entry in enumerate(on.entries):
                self.erm_norms[list(entry.positions)] = found[place]
        first = [entry.positions[0] for entry in on.entries]
        phases = [entry.phase for entry in on.entries]
        return loss_divisors(phases, on.objectives, measured, norms, self.erm_norms[first])


def _is_iga(entry: SharedPhase) -> bool:
    return type(entry.phase.minimised) is IGA


@dataclass(frozen=True)
class Stretch:
    """Steps of a phase in which the same entries are trained, and everything they need."""

    entries: list[SharedPhase]
    stack: StackedMLP
    adam: StackedAdam
    objectives: StackedObjectives
    batches: BatchesOfRuns
    dropout: Dropout | None
    divisors: Tensor | None


class History:
    """Where in (runs, steps, m) the risks of entries go."""

    def __init__(self, history: Tensor, entries: Sequence[SharedPhase]) -> None:
        places = [
            (position, place, entry.start)
            for place, entry in enumerate(entries)
            for position in entry.positions
        ]
        self.history = history
        self.positions, self.places, self.starts = torch.tensor(places, device=history.device).T

    def write(self, step: int, risks: Tensor) -> None:
        """The risks (entries, m) of one step of the phase."""
        self.history[self.positions, self.starts + step] = risks[self.places].to(self.history)
