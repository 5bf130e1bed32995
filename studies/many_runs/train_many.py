"""Seeds × levels × hyperparameters of one small network, trained together on one device.

A small network leaves a device idle most of the time. R of them side by side turn every layer
into one batched matrix product. A run's initialisation, batches and dropout masks depend on its
own seed only, so it comes out the same, up to the rounding of sums, whoever else is in the stack.
Runs that agree up to a point (the burn-in of one seed, before several levels) share the way there.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from eqrm import Phase
from eqrm.data import DomainData
from eqrm.errors import EqrmWarning
from eqrm.predictors import MLP
from studies.many_runs.batches import StackBatches
from studies.many_runs.mlp import StackedMLP
from studies.many_runs.stack_trainer import BurnIn, Run, StackTrainer

__all__ = ["BurnIn", "Run", "TrainedRuns", "runs_of", "train_many"]


def runs_of(seeds: Sequence[int], *phases: Phase | Sequence[Phase]) -> list[Run]:
    """Every seed with every choice of phases: seeds × levels × hyperparameters.

    Each further argument is a phase, or a list of alternatives for it.
    """
    choices = [[phase] if isinstance(phase, Phase) else list(phase) for phase in phases]
    return [Run(seed, chosen) for seed in seeds for chosen in product(*choices)]


@dataclass(frozen=True, eq=False)
class TrainedRuns:
    """What :func:`train_many` returns.

    Attributes:
        runs: the runs, in the order given.
        stack: their networks.
        risks: (R, steps, m) the training domains' risks at every step, on the CPU; NaN after a
            run's last step.
        erm_norms: (R,) the norms of ERM's gradients at the runs' first steps.
    """

    runs: tuple[Run, ...]
    stack: StackedMLP
    risks: Tensor
    erm_norms: Tensor

    def burn_ins(self) -> dict[int, BurnIn]:
        """The networks by seed, for runs that go on from here; of each seed its first run."""
        found: dict[int, BurnIn] = {}
        for position, (run, norm) in enumerate(zip(self.runs, self.erm_norms, strict=True)):
            if run.seed not in found:
                found[run.seed] = BurnIn(self.stack.network(position), float(norm))
        return found

    def predictor(self, position: int) -> MLP:
        """The network of one run, in evaluation mode on the CPU."""
        return self.stack.network(position).eval()

    @torch.no_grad()
    def outputs(self, x: Tensor, examples_at_once: int = 16_384) -> Tensor:
        """(R, n, outputs) for inputs (n, …), on the stack's device."""
        where = self.stack.device, self.stack.product_dtype
        parts = x.flatten(1).split(examples_at_once)
        return torch.cat([self.stack(part.to(*where)) for part in parts], 1)

    def accuracies(self, data: Sequence[DomainData]) -> Tensor:
        """(R, m) the share of each domain's examples that every run classifies right.

        Datasets have the same domains, and each run is measured on its own (``run.data``).
        """
        found = torch.empty(len(self.runs), data[0].num_domains, dtype=torch.float64)
        for number in {run.data for run in self.runs}:
            positions = torch.tensor([p for p, r in enumerate(self.runs) if r.data == number])
            found[positions] = self._accuracies(data[number], self.stack.take(positions))
        return found

    def _accuracies(self, data: DomainData, stack: StackedMLP) -> Tensor:
        y = data.y.to(stack.device)
        some = dataclasses.replace(self, stack=stack)
        chosen = some.outputs(data.x)[..., 0] > 0
        right = (chosen.to(torch.long) == y.reshape(-1).to(torch.long)).double()
        return _means_by_domain(right, data.domains.to(right.device), data.num_domains).cpu()


def _means_by_domain(values: Tensor, domains: Tensor, num_domains: int) -> Tensor:
    sums = values.new_zeros(len(values), num_domains).index_add(1, domains, values)
    return sums / torch.bincount(domains, minlength=num_domains)


def train_many(
    runs: Sequence[Run],
    data: DomainData | Sequence[DomainData],
    network: Callable[[], MLP],
    *,
    examples_per_domain: int | None = None,
    replacement: bool = False,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    runs_at_once: int | None = None,
    half: bool = False,
    burn_ins: Mapping[int, BurnIn] | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> TrainedRuns:
    """Train all runs together.

    Args:
        runs: what to train; :func:`runs_of` makes a grid.
        data: the training domains; several datasets (of equal domains and sizes) where runs
            differ in ``data``, as when each seed draws its own colours.
        network: makes a new :class:`eqrm.predictors.MLP`; called once per seed, with that seed.
        examples_per_domain: a batch holds this many examples of every domain, drawn as by
            :class:`eqrm.data.DomainBatches` with the run's seed; None takes all.
        replacement: draw the examples of a batch independently, so that some come twice, and as
            many as without (all, unless ``examples_per_domain`` says otherwise).
        device: where everything is kept; nothing waits for it while training.
        dtype: of data and parameters.
        runs_at_once: train in stacks of at most this many, to limit memory. By default all
            on a GPU, and on a CPU as many as its caches hold: larger stacks are slower there.
        half: round the factors of matrix products to float16, which keeps as many bits as TF32,
            and sum in float32: the fastest way on a GPU. Needs ``dtype=torch.float32``.
        burn_ins: networks by seed that have been through the first phase of all runs, as
            :meth:`TrainedRuns.burn_ins` returns them; training goes on with the second.
        on_step: called with (run-steps done, run-steps in all), for a progress bar.
    """
    datasets = [data] if isinstance(data, DomainData) else list(data)
    kind = torch.float16 if half else dtype
    source = StackBatches(datasets, examples_per_domain, torch.device(device), kind, replacement)
    trainer = StackTrainer(source, network, runs_at_once, on_step, half)
    stack, risks = trainer.train(runs, burn_ins)
    found = TrainedRuns(tuple(runs), stack, risks.cpu(), trainer.erm_norms.cpu())
    _warn_of_divergence(found, 0 if burn_ins is None else 1)
    return found


def _warn_of_divergence(trained: TrainedRuns, first_phase: int) -> None:
    for number, run in enumerate(trained.runs):
        begin = sum(phase.length for phase in run.phases[:first_phase])
        finite = trained.risks[number, begin : run.steps].isfinite().all(dim=1)
        if not bool(finite.all()):
            step = begin + int((~finite).nonzero()[0]) + 1
            warnings.warn(
                f"Run {number} (seed {run.seed}) has a risk that is not finite from step {step} "
                "on: lower its learning rate, or check the data. Other runs are not affected.",
                EqrmWarning,
                stacklevel=3,
            )
