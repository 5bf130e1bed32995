"""The loop that trains a stack of runs, phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import NON_NEGATIVE_INTEGER
from eqrm.errors import SettingError
from eqrm.objectives.base import Phase
from eqrm.objectives.loss_scaling import GRADIENT_RATIO
from eqrm.predictors.mlp import MLP
from eqrm.training.random_states import random_states, seed_everything, set_random_states
from eqrm.training.stack.adam import StackedAdam
from eqrm.training.stack.batches import BatchesOfRuns, StackBatches
from eqrm.training.stack.mlp import StackedMLP
from eqrm.training.stack.objectives import (
    StackedObjectives,
    checked_phase,
    gradient_norms,
    loss_divisors,
    phase_key,
)


@dataclass(frozen=True)
class Run:
    """One run: a seed, the phases it goes through, and which of the datasets it trains on.

    >>> Run(seed=0, phases=(Phase("erm", 400), Phase("eqrm", 200))).steps
    600
    """

    seed: int
    phases: tuple[Phase, ...]
    data: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "phases", tuple(self.phases))
        if not self.phases:
            raise SettingError("A run needs at least one phase.")
        NON_NEGATIVE_INTEGER.check(self.seed, "The seed of a run")

    @property
    def steps(self) -> int:
        """The steps of all its phases."""
        return sum(phase.length for phase in self.phases)


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
    ) -> None:
        self.batches, self.network = batches, network
        self.device, self.dtype = batches.device, batches.dtype
        self.runs_at_once = runs_at_once
        self.on_step = on_step

    def train(self, runs: Sequence[Run]) -> tuple[StackedMLP, Tensor]:
        """The trained networks and the risks (R, steps, m) on the way, NaN where there are none."""
        made = {seed: self.initial(seed) for seed in {run.seed for run in runs}}
        stack = StackedMLP([made[run.seed] for run in runs], self.device, self.dtype)
        adam = StackedAdam(stack.parameters)
        longest, m = max(run.steps for run in runs), len(self.batches.sizes)
        history = torch.full((len(runs), longest, m), torch.nan, device=self.device)
        self._done, self._total = 0, sum(run.steps for run in runs)
        self._erm_norms = torch.ones(len(runs), dtype=torch.float64, device=self.device)
        self._measures_erm = any(
            phase.loss_scaling == GRADIENT_RATIO for run in runs for phase in run.phases
        )
        for number in range(max(len(run.phases) for run in runs)):
            for entries in self._stacks(shared_phases(runs, number), stack):
                self._train_phase(entries, stack, adam, history)
        return stack, history

    def _stacks(self, entries: list[SharedPhase], networks: StackedMLP) -> list[list[SharedPhase]]:
        """The entries in stacks of bearable size."""
        size = self.runs_at_once
        if size is None and self.device.type == "cpu":
            width = max(bias.shape[1] for bias in networks.parameters[1::2])
            size = CACHED_ACTIVATIONS // (self.batches.rows * width)
        size = len(entries) if size is None else max(1, size)
        return [entries[start : start + size] for start in range(0, len(entries), size)]

    def initial(self, seed: int) -> MLP:
        """A new network as a run of its own with this seed would make it."""
        states = random_states()
        seed_everything(seed)
        network = self.network()
        set_random_states(states)
        return network

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
        masks = DropoutMasks([entry.run.seed for entry in entries], entries[0].number, self.device)
        objectives = StackedObjectives([checked_phase(e.phase) for e in entries], self.device)
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
            stretch = Stretch(alive, stack, adam, objectives, batches, masks, divisors)
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
            outputs = on.stack(x, on.masks.draw(on.stack, self.batches.rows))
            risks = self._risks(on.stack.losses(outputs, y))
            if divisors is None:
                divisors = self._divisors(on, risks)
            loss = (on.objectives(risks) / divisors).sum()  # one term per run: gradients stay apart
            on.adam.step(torch.autograd.grad(loss, on.stack.parameters), rates[at])
            history.write(step, risks.detach())
            self._done += runs
            if self.on_step is not None:
                self.on_step(self._done, self._total)
        if divisors is None:
            raise SettingError("A phase without steps cannot be trained.")
        return divisors

    def _divisors(self, on: Stretch, risks: Tensor) -> Tensor:
        """What the losses are divided by, when a phase begins."""
        if self._measures_erm and on.entries[0].number == 0:
            norms = gradient_norms(risks.mean(-1), on.stack.parameters)
            for place, entry in enumerate(on.entries):
                self._erm_norms[list(entry.positions)] = norms[place]
        first = [entry.positions[0] for entry in on.entries]
        phases = [entry.phase for entry in on.entries]
        return loss_divisors(
            phases, on.objectives, risks, on.stack.parameters, self._erm_norms[first]
        )

    def _risks(self, losses: Tensor) -> Tensor:
        """(R, m) means over each domain's examples, summed in float64."""
        parts = [part.double().mean(1) for part in losses.split(self.batches.sizes, dim=1)]
        return torch.stack(parts, dim=1).to(torch.promote_types(losses.dtype, torch.float32))


@dataclass(frozen=True)
class Stretch:
    """Steps of a phase in which the same entries are trained, and everything they need."""

    entries: list[SharedPhase]
    stack: StackedMLP
    adam: StackedAdam
    objectives: StackedObjectives
    batches: BatchesOfRuns
    masks: DropoutMasks
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


class DropoutMasks:
    """Dropout masks by seed and phase; runs of one seed see the same masks."""

    def __init__(self, seeds: Sequence[int], phase: int, device: torch.device) -> None:
        self.seeds, self.device = list(seeds), device
        self.generators: dict[int, torch.Generator] = {}
        self._chosen: tuple[list[int], Tensor] | None = None
        for seed in dict.fromkeys(seeds):
            words = np.random.SeedSequence([seed, phase + 1]).generate_state(1, np.uint64)
            generator = torch.Generator(device)
            self.generators[seed] = generator.manual_seed(int(words[0]) >> 1)

    def draw(self, stack: StackedMLP, rows: int) -> list[Tensor] | None:
        """One (R, rows, width) mask per hidden layer; None without dropout."""
        if not any(stack.rates):
            return None
        seeds, which = self._of_first(len(stack))
        masks = []
        for layer, rate in enumerate(stack.rates):
            width = stack.parameters[2 * layer].shape[1]
            drawn = torch.empty((len(seeds), rows, width), dtype=torch.bool, device=self.device)
            for mask, seed in zip(drawn, seeds, strict=True):
                mask.bernoulli_(1.0 - rate, generator=self.generators[seed])
            masks.append(drawn if len(seeds) == len(stack) else drawn[which])
        return masks

    def _of_first(self, runs: int) -> tuple[list[int], Tensor]:
        """The different seeds of the first runs, and which of them each run has."""
        if self._chosen is None or len(self._chosen[1]) != runs:
            seeds = list(dict.fromkeys(self.seeds[:runs]))
            which = [seeds.index(seed) for seed in self.seeds[:runs]]
            self._chosen = seeds, torch.tensor(which, device=self.device)
        return self._chosen
