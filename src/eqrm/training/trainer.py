"""The trainer: phases of objectives over batches of domains, measured, saved and resumed.

Read :meth:`Trainer.fit` first: it is the whole loop.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eqrm.data.batches import DomainBatches
from eqrm.data.domain_data import DomainData
from eqrm.errors import CheckpointError, DomainDataError, SettingError
from eqrm.objectives.batch import Batch, label_weights, sizes_of
from eqrm.objectives.loss_scaling import GRADIENT_RATIO, LossScaling, erm_gradient_norm
from eqrm.objectives.risk_objective import messages_of_all
from eqrm.predictors.base import Loss, Predictor
from eqrm.training.device_data import Batches, StepTaker, network_on, resident, rows_on
from eqrm.training.held_out_risks import HeldOutRisks, measure
from eqrm.training.phases import Phase, Phases, Place
from eqrm.training.preflight import as_predictor, check_run
from eqrm.training.processes import (
    TrainingInterrupted,
    any_process,
    rank,
    same_on_all,
    watched_signals,
    world_size,
)
from eqrm.training.progress import Board, Display, display
from eqrm.training.runs.checkpoint import description_of_run, refuse_another_run
from eqrm.training.runs.run_folder import DONE, RunFolder
from eqrm.training.state import TrainingState, seed_everything
from eqrm.training.training_settings import TrainingSettings


@dataclass(frozen=True, eq=False)
class Trained:
    """What a run ended with: the predictor, and its risks on held-out data by split.

    ``began_at`` is the step at which this call began: ``steps`` if the run was already finished.
    """

    predictor: Predictor
    risks: Mapping[str, HeldOutRisks]
    steps: int
    stopped_early: bool
    folder: Path | None
    began_at: int = 0


class Trainer:
    """Trains a predictor through phases, and can be interrupted and resumed at any time.

    Args:
        predictor: a :class:`~eqrm.predictors.Predictor`, or any ``nn.Module`` with ``loss``.
        data: the training data.
        phases: what is minimised, one after the other.
        batches: which rows make a batch; whole domains, all of them, unless given.
        held_out: data to measure risks on, by name (``"validation"``, ``"test"``).
        settings: device, precision, how often to evaluate and save.
        folder: where the run is written; None writes nothing, and cannot be resumed.
        loss: for a plain module: a name or a function, as for :class:`eqrm.predictors.Predictor`.
        progress: show a bar on the terminal; or a function that is told a line per evaluation.

    Everything is checked before anything is trained. The predictor is trained in place, except
    where an objective replaces it (ARM, MTL): use the one in :class:`Trained`.

    >>> from eqrm.predictors.small_networks import LinearPredictor
    >>> x = torch.linspace(-1, 1, 80)[:, None]
    >>> data = DomainData(x, 2 * x[:, 0], torch.arange(80) % 4, ("a", "b", "c", "d"))
    >>> parts = data.splits(test=["d"])
    >>> trainer = Trainer(
    ...     LinearPredictor(1, 1, loss="squared"),
    ...     parts.train,
    ...     [Phase("erm", steps=60, learning_rate=0.1), Phase("eqrm", steps=40, learning_rate=0.1)],
    ...     held_out={"test": parts.test},
    ... )
    >>> trained = trainer.fit()
    >>> trained.risks["test"].mean < 0.01
    True
    """

    def __init__(
        self,
        predictor: nn.Module,
        data: DomainData,
        phases: Sequence[Phase],
        batches: Batches | None = None,
        *,
        held_out: Mapping[str, DomainData] | None = None,
        settings: TrainingSettings | None = None,
        folder: str | Path | None = None,
        loss: str | Loss | None = None,
        progress: bool | Callable[[str], None] = False,
    ) -> None:
        self.settings = settings or TrainingSettings()
        # Objectives learn too (a memory, GroupDRO's weights): each trainer has its own.
        self.phases = copy.deepcopy(Phases(phases))
        self.device = self.settings.torch_device()
        if batches is None:
            batches = DomainBatches(
                data, seed=self.settings.seed, rank=rank(), world_size=world_size()
            )
        network = as_predictor(predictor, loss, self.settings.batch_norm)
        held_out = held_out or {}
        check_run(network, data, self.phases, batches, held_out, self.settings)
        self.description = description_of_run(network, data, self.phases, batches, self.settings)
        self._domains = data.domains.cpu().numpy()
        self.data = resident(data, self.device)
        self.held_out = {name: resident(part, self.device) for name, part in held_out.items()}
        kept = self.settings.checkpoints_kept
        self.files = None if folder is None else RunFolder(Path(folder), kept)
        self.progress = progress
        self.takes_step = StepTaker(self.settings.cuda_graph and world_size() == 1)
        self.state = TrainingState(
            network_on(self.device, network),
            self.phases,
            batches,
            data.num_domains,
            self.settings,
        )

    def fit(self, resume: bool = True) -> Trained:
        """Train to the end, from the newest checkpoint in the folder if there is one.

        Ctrl-C finishes the step, saves, and raises ``TrainingInterrupted`` (a
        ``KeyboardInterrupt``). Without ``resume`` an earlier run in the folder is overwritten.
        """
        with self._folder_to_itself():
            self._begin(resume)
            state, settings = self.state, self.settings
            written = None if self.files is None or rank() > 0 else self.files.path
            self.board = Board(written, settings.tensorboard, state.step)
            steps, began_at = self.phases.steps, state.step
            shown = display(self.progress if rank() == 0 else False, steps, began_at)
            with watched_signals() as asked_to_stop, shown as bar:
                while state.step < steps and not self._stopped_early():
                    place = self.phases.place(state.step)
                    if place.phase > state.phase:
                        state.enter_phase(place.phase)
                        self.takes_step.begin_phase()
                    losses = self._take_step(self._next_batch(), place)
                    state.step += 1
                    self._log(losses, place, bar)
                    if self._due(settings.evaluate_every, settings.evaluate_first):
                        self._evaluate(bar)
                    asked = asked_to_stop()
                    if asked or self._due(settings.checkpoint_every) or state.step == steps:
                        self._save()
                    if asked and state.step < steps:
                        raise TrainingInterrupted(self._how_to_continue())
            return self._finish(began_at)

    @contextmanager
    def _folder_to_itself(self) -> Iterator[None]:
        """Reserve the folder: two runs must not write to the same files."""
        reservation: AbstractContextManager[bool] = nullcontext(True)
        if self.files is not None and rank() == 0:
            reservation = self.files.reserved()
        with reservation as own:
            if any_process(not own):
                where = None if self.files is None else self.files.path
                raise SettingError(
                    f"Another process is training in {where}. Wait for it to finish, stop it, or "
                    "choose another folder."
                )
            yield

    def _begin(self, resume: bool) -> None:
        """Start from the seed, or from the newest checkpoint."""
        seed_everything(self.settings.seed, rank())
        same_on_all(self.state.predictor)
        if self.files is None:
            return
        found = self.files.checkpoints.newest() if resume else None
        seen = set(messages_of_all("none" if found is None else found.path.name))
        if len(seen) > 1:  # as without a common file system
            raise SettingError(
                f"The processes see different checkpoints: {', '.join(sorted(seen))}. The run's "
                "folder must lie on a file system that all nodes share."
            )
        if rank() == 0:
            self.files.checkpoints.remove_drafts()  # what a killed process left half written
            if found is None:
                self.files.clear()
        if found is None:
            return
        try:
            refuse_another_run(found.state.get("run"), self.description)
            self.state.load_state_dict(found.state.get("training"))
            if rank() == 0:
                self.files.cut_metrics(found.state.get("metrics_size"))
        except CheckpointError as error:
            raise CheckpointError(f"The checkpoint {found.path} cannot be used. {error}") from None

    def _next_batch(self) -> Batch:
        numbers, augment = next(self.state.batches), self.settings.augment
        x, y, domains = rows_on(self.device, self.data, numbers)
        if self.device.type == "cuda" and isinstance(x, Tensor) and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)  # as the network is
        if augment is not None:
            x = augment(x, numbers, self.settings.seed, self.state.step)
        sizes = sizes_of(self._domains[numbers.cpu().numpy()])
        m, weights = self.data.num_domains, None
        if self.settings.domain_risk == "labels":
            weights = label_weights(y, domains, m)
        return Batch(x, y, domains, m, self.data.names, sizes, weights)

    def _take_step(self, batch: Batch, place: Place) -> Mapping[str, Tensor]:
        """Apply every update of one step; returns the last loss by optimizer."""
        state, phase = self.state, self.phases[place.phase]
        predictor, optimizers = state.predictor, state.optimizers
        if optimizers is None:
            raise RuntimeError("a phase must be entered before a step is taken")
        predictor.train()
        state.objective.train()
        if state.divisor is None:
            with self._precision():
                state.divisor = self._divisor(phase, batch)
        optimizers.set_rates(phase.rate_factor(place.step))
        divisor = state.divisor

        def take(own: Batch) -> dict[str, Tensor]:
            losses: dict[str, Tensor] = {}
            updates = state.objective.updates(own, predictor, place.step)
            while True:
                with self._precision():  # around the forward pass only
                    update = next(updates, None)
                if update is None:
                    return losses
                optimizers.apply(update, divisor, self.settings.clip_gradients)
                losses[update.optimizer] = update.loss.detach()

        losses = self.takes_step(take, batch, state.objective.capturable)
        if state.average is not None:
            state.average.update(predictor)
        return losses

    def _divisor(self, phase: Phase, batch: Batch) -> float:
        """What the losses of a phase are divided by, measured on its first batch."""
        state = self.state
        measured = any(each.loss_scaling == GRADIENT_RATIO for each in self.phases.phases)
        if measured and state.step == 0:
            state.erm_norm = erm_gradient_norm(batch, state.predictor)
        scaling = LossScaling(phase.loss_scaling)
        return scaling.divisor(state.objective, batch, state.predictor, state.erm_norm)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.settings.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _due(self, every: int | None, first: bool = False) -> bool:
        return every is not None and (self.state.step - first) % every == 0

    def _log(self, losses: Mapping[str, Tensor], place: Place, bar: Display) -> None:
        """Look at the loss now and then; on a GPU looking waits for the step to end."""
        step, phase = self.state.step, self.phases[place.phase]
        name = phase.minimised.name
        if not self._due(self.settings.log_every) and step != self.phases.steps:
            bar.step(step, name, None)
            return
        values = {key: float(loss) for key, loss in losses.items()}
        for key, value in values.items():
            if not math.isfinite(value):
                raise DomainDataError(
                    f"The loss ({key}) of step {step} is {value}. Lower the learning rate, set "
                    "clip_gradients, or check the data for values that are not finite."
                )
        loss = values.pop("predictor", None)  # some steps train the objective's own networks only
        found = {} if loss is None else {"loss": loss}
        found |= {f"loss_{key}": value for key, value in values.items()}
        found["learning_rate"] = phase.rate(place.step)
        self._record({"step": step, "phase": place.phase, "objective": name, **found})
        self.board.add(step, found)
        bar.step(step, name, loss)

    def _evaluate(self, bar: Display) -> None:
        """Measure every held-out domain; early stopping watches one of the splits."""
        state, watch = self.state, self.state.stopping
        in_last_phase = state.phase == len(self.phases) - 1
        with self._averaged():
            for risks in self._measured().values():
                self._record({"step": state.step, **risks.record(self.settings.domains_listed)})
                self.board.add(state.step, risks.curves())
                bar.evaluated(risks)
                if watch is not None and risks.split == watch.rule.split and in_last_phase:
                    level = watch.rule.alpha
                    watched = risks.mean if level is None else risks.quantile(level)
                    watch.look(state.step, watched, state.predictor)

    def _measured(self, keep_rows: bool = False) -> dict[str, HeldOutRisks]:
        size, metrics = self.settings.evaluation_batch, self.settings.metrics or ()
        predictor, precision = self.state.predictor, self._precision
        return {
            name: measure(name, predictor, part, size, precision, keep_rows, metrics)
            for name, part in self.held_out.items()
        }

    def _averaged(self) -> AbstractContextManager[None]:
        average = self.state.average
        return nullcontext() if average is None else average.in_place_of(self.state.predictor)

    def _stopped_early(self) -> bool:
        return self.state.stopping is not None and self.state.stopping.over

    def _record(self, record: dict[str, Any]) -> None:
        if self.files is not None and rank() == 0:
            self.files.add_metrics(record)

    def _save(self) -> None:
        """Write a checkpoint; the first process writes, all take part."""
        if self.files is None:
            return
        self.state.refuse_bad_weights()
        state = self.state.state_dict()
        if rank() == 0:
            content = {
                "run": self.description,
                "training": state,
                "metrics_size": self.files.metrics_size(),
            }
            self.files.checkpoints.save(self.state.step, content)

    def _finish(self, began_at: int) -> Trained:
        """Keep the best or the average weights, measure them, and say that the run is done."""
        state, early = self.state, self._stopped_early()
        if early:
            self._save()
        if state.stopping is not None and state.stopping.weights:
            state.predictor.load_state_dict(state.stopping.weights)
        elif state.average is not None:
            state.average.put_into(state.predictor)
        risks = self._measured(keep_rows=True)
        folder = None if self.files is None else self.files.path
        trained = Trained(state.predictor, risks, state.step, early, folder, began_at)
        for each in risks.values():
            found = each.record(self.settings.domains_listed)
            self._record({"step": state.step, "final": True, **found})
        if self.files is not None and rank() == 0:
            self.files.write_weights(state.predictor.state_dict())
            self.files.write_risks(risks.values())
            self.files.write_json(DONE, {"steps": state.step, "stopped_early": early})
        self.board.close()
        return trained

    def _how_to_continue(self) -> str:
        done = f"Stopped after step {self.state.step} of {self.phases.steps}."
        if self.files is None:
            return f"{done} The run has no folder, so nothing was saved."
        return f"{done} Saved in {self.files.path}: start the same run again to continue."
