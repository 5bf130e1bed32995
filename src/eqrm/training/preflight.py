"""What is checked before the first step, so that a mistake costs seconds and not a night."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping

import torch
from torch import nn

from eqrm.data.domain_data import DomainData
from eqrm.errors import SettingError, did_you_mean
from eqrm.objectives.base import Objective, RiskObjective
from eqrm.objectives.loss_scaling import LossScaling
from eqrm.predictors.base import Loss, Predictor
from eqrm.training.phases import Phases
from eqrm.training.processes import (
    refuse_local_batch_norm,
    refuse_several_processes,
    world_size,
)
from eqrm.training.runs.config_reading import naming_field
from eqrm.training.state import Batches
from eqrm.training.target_checks import check_targets
from eqrm.training.training_settings import TrainingSettings


def as_predictor(network: nn.Module, loss: str | Loss | None, batch_norm: str) -> Predictor:
    """Any network as a predictor; a plain one needs a loss, and its outputs are its features.

    >>> as_predictor(nn.Linear(2, 1), "squared", "trained").loss
    'squared'
    """
    if isinstance(network, Predictor):
        if loss is not None:
            raise SettingError(
                f"The predictor has its own loss, {network.loss!r}. Leave out loss={loss!r}."
            )
        predictor = network
    elif not isinstance(network, nn.Module):
        raise SettingError(f"A predictor must be an nn.Module, not {type(network).__name__}.")
    elif loss is None:
        raise SettingError(
            f"{type(network).__name__} is a plain network: say how it is judged, "
            "loss='cross-entropy', 'binary-cross-entropy', 'squared' or a function."
        )
    else:
        predictor = Predictor(network, nn.Identity(), loss)
    if batch_norm == "frozen":
        from eqrm.predictors.batch_norm import freeze_batch_norm

        predictor = freeze_batch_norm(predictor)
    return predictor


def check_run(
    predictor: Predictor,
    data: DomainData,
    phases: Phases,
    batches: Batches,
    held_out: Mapping[str, DomainData],
    settings: TrainingSettings,
) -> None:
    """Refuse whatever could not be trained to its end."""
    refuse_several_processes(phase.minimised for phase in phases.phases)
    refuse_local_batch_norm(predictor)
    _check_batches(batches, phases, data)
    _check_held_out(data, held_out, settings)
    for what, part in {"training": data, **held_out}.items():
        _check_outputs(predictor, part, what)
    _check_phases(predictor, phases, data.num_domains)


def _check_batches(batches: Batches, phases: Phases, data: DomainData) -> None:
    sampled = getattr(batches, "settings", None)
    if sampled is None:  # somebody else's sampler
        return
    if sampled.world_size != world_size():
        raise SettingError(
            f"The batches were made for {sampled.world_size} processes, but {world_size()} train. "
            "Make them with DomainBatches(…, rank=rank, world_size=world_size)."
        )
    per_batch = sampled.domains_per_batch or data.num_domains
    for phase in phases.phases:
        phase.minimised.require_domains(per_batch, "a batch")


def _check_held_out(
    data: DomainData, held_out: Mapping[str, DomainData], settings: TrainingSettings
) -> None:
    test = held_out.get("test")
    both = set() if test is None else set(data.names) & set(test.names)
    if both:
        raise SettingError(
            f"The domain {min(both)!r} is in the test data and in the training data. A test "
            "domain must not be trained on: leave it out of one of them."
        )
    rule = settings.early_stopping
    if rule is not None and rule.split not in held_out:
        raise SettingError(
            f"early_stopping watches the split {rule.split!r}, which there is not. "
            + (did_you_mean(rule.split, held_out) if held_out else "Hold out validation domains.")
        )


@torch.no_grad()
def _check_outputs(predictor: Predictor, data: DomainData, what: str) -> None:
    """Two examples through the network, in evaluation mode; the targets of all of them."""
    device = next((p.device for p in predictor.parameters()), torch.device("cpu"))
    part = data.rows(torch.arange(min(2, len(data))))
    x = part.x.to(device) if hasattr(part.x, "to") else part.x
    was_training = predictor.training
    predictor.eval()
    try:
        outputs = predictor(x, part.domains.to(device))
        with naming_field(f"The {what} data"):
            check_targets(predictor.loss, outputs.shape, data)
        predictor.losses(outputs, part.y.to(device))
    except (RuntimeError, IndexError, TypeError, AttributeError) as error:
        raise SettingError(
            f"The predictor {type(predictor).__name__} cannot take the {what} data: {error}"
        ) from None
    finally:
        predictor.train(was_training)


def _check_phases(predictor: Predictor, phases: Phases, num_domains: int) -> None:
    """Prepare copies of everything in turn, as training will."""
    with torch.random.fork_rng(devices=[]):
        network, changed = copy.deepcopy(predictor), 0
        for number, phase in enumerate(phases.phases):
            with naming_field(f"Phase {number + 1} ({phase.minimised.name})"):
                objective = copy.deepcopy(phase.minimised)
                prepared = objective.prepare(network, num_domains)
                objective.optimizer_settings(prepared)
                _check_risks(objective, num_domains)
                _check_scaling(phase.loss_scaling, phase.minimised)
            changed += prepared is not network
            network = prepared
    if changed > 1:
        raise SettingError(
            "Two phases change the network (ARM, MTL, SagNet with split_at), one on top of the "
            "other. Use such an objective in one phase only."
        )


def _check_risks(objective: Objective, num_domains: int) -> None:
    """A function of the risks can be computed: its options exist, its weights are as many."""
    if not isinstance(objective, RiskObjective):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # made-up risks are no reason to warn
            objective.of_risks(torch.linspace(0.5, 1.5, num_domains))
    except (TypeError, RuntimeError) as error:
        raise SettingError(f"{type(objective).__name__} cannot be computed: {error}") from None


def _check_scaling(name: str, objective: Objective) -> None:
    if name == "gradient-norm-ratio" and not isinstance(objective, RiskObjective):
        raise SettingError(
            "The loss scaling 'gradient-norm-ratio' compares a function of the risks with ERM; "
            f"{type(objective).__name__} is none."
        )
    if name == "penalty-weight":
        LossScaling(name).divisor(objective)
