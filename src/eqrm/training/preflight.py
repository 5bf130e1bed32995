"""Checks before the first step, so that mistakes are found in seconds rather than hours."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from eqrm.checks import naming_field
from eqrm.data.augmentation import check_images
from eqrm.data.domain_data import DomainData
from eqrm.errors import SettingError
from eqrm.objectives.base import Objective
from eqrm.objectives.loss_scaling import LossScaling
from eqrm.objectives.risk_objective import RiskObjective
from eqrm.predictors.base import Loss, Predictor
from eqrm.predictors.images import freeze_batch_norm
from eqrm.text import did_you_mean
from eqrm.training.device_data import Batches, rows_on
from eqrm.training.held_out_risks import check_metrics
from eqrm.training.phases import Phases
from eqrm.training.processes import (
    refuse_local_batch_norm,
    refuse_several_processes,
    world_size,
)
from eqrm.training.training_settings import TrainingSettings


def as_predictor(network: nn.Module, loss: str | Loss | None, batch_norm: str) -> Predictor:
    """Any network as a predictor; a plain one needs a loss, and its outputs are its features."""
    if isinstance(network, Predictor):
        if loss is not None:
            raise SettingError(
                f"The predictor has its own loss, {network.loss!r}. Leave out loss={loss!r}."
            )
        predictor = network
    elif not isinstance(network, nn.Module):
        raise SettingError(f"A predictor must be an nn.Module, got {type(network).__name__}.")
    elif loss is None:
        raise SettingError(
            f"{type(network).__name__} is a plain network without a loss: give "
            "loss='cross-entropy', 'binary-cross-entropy', 'squared' or a function."
        )
    else:
        predictor = Predictor(network, nn.Identity(), loss)
    return freeze_batch_norm(predictor) if batch_norm == "frozen" else predictor


def check_run(
    predictor: Predictor,
    data: DomainData,
    phases: Phases,
    batches: Batches,
    held_out: Mapping[str, DomainData],
    settings: TrainingSettings,
) -> None:
    """Raise if the training could not run to its end."""
    refuse_several_processes(phase.minimised for phase in phases.phases)
    refuse_local_batch_norm(predictor)
    if settings.augment is not None:
        check_images(data.rows(torch.arange(min(2, len(data)))).x)
    if settings.domain_risk == "labels":
        _check_pooled_labels(phases)
    _check_batches(batches, phases, data)
    _check_held_out(data, held_out, settings)
    _check_outputs(predictor, data, "training")
    for what, part in held_out.items():
        _check_outputs(predictor, part, what, settings.metrics or ())
    _check_phases(predictor, phases, data.num_domains)


def _check_pooled_labels(phases: Phases) -> None:
    minimised = [phase.minimised for phase in phases.phases]
    others = {each.name for each in minimised if not isinstance(each, RiskObjective)}
    if others or world_size() > 1:
        raise SettingError(
            "domain_risk: labels needs one process and objectives that are functions of the "
            "domains' risks (ERM, EQRM, VREx, GroupDRO, superquantile, …), got "
            f"{', '.join(sorted(others)) or f'{world_size()} processes'}. Use those, or "
            "domain_risk: examples."
        )


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
            f"The domain {min(both)!r} is in the test data and in the training data. Test domains "
            "must not be used for training: remove it from one of the two."
        )
    if settings.metrics and not held_out:
        raise SettingError(
            f"The metrics {', '.join(settings.metrics)} are measured on held-out data, and there "
            "is none. Hold out validation or test domains, or leave out training.metrics."
        )
    rule = settings.early_stopping
    if rule is not None and rule.split not in held_out:
        raise SettingError(
            f"early_stopping watches the split {rule.split!r}, which is not held out. "
            + (did_you_mean(rule.split, held_out) if held_out else "Hold out validation domains.")
        )


@torch.no_grad()
def _check_outputs(
    predictor: Predictor, data: DomainData, what: str, metrics: Sequence[str] = ()
) -> None:
    """Two examples through the network, in evaluation mode; the targets of all of them."""
    device = next((p.device for p in predictor.parameters()), torch.device("cpu"))
    part = rows_on(device, data, torch.arange(min(2, len(data))))
    was_training = predictor.training
    predictor.eval()
    try:
        outputs = predictor(part.x, part.domains)
        with naming_field(f"The {what} data"):
            check_targets(predictor.loss, outputs.shape, data)
            check_metrics(metrics, predictor.loss, outputs.shape, data)
        predictor.losses(outputs, part.y)
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
                LossScaling(phase.loss_scaling).check(phase.minimised)
            changed += prepared is not network
            network = prepared
    if changed > 1:
        raise SettingError(
            "Two phases change the network (ARM, MTL), one on top of the "
            "other. Use such an objective in one phase only."
        )


def _check_risks(objective: Objective, num_domains: int) -> None:
    """Check that a function of the risks can be computed: valid options, a weight per domain."""
    if not isinstance(objective, RiskObjective):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # made-up risks are no reason to warn
            objective.of_risks(torch.linspace(0.5, 1.5, num_domains))
    except (TypeError, RuntimeError) as error:
        raise SettingError(f"{type(objective).__name__} cannot be computed: {error}") from None


def check_targets(loss: str | Loss, outputs: torch.Size, data: DomainData) -> None:
    """Refuse targets that a loss by name cannot take; ``outputs`` is the shape of a batch's."""
    if loss == "cross-entropy" and len(outputs) == 2:
        _check_classes(data.y, outputs[1])
    elif loss == "binary-cross-entropy":
        _check_labels(data)
    elif loss == "squared":
        _refuse_missing(data, data.y.isnan())


def _check_classes(y: Tensor, outputs: int) -> None:
    if y.is_floating_point():
        raise SettingError(
            "Cross-entropy needs classes 0, 1, 2, … as targets, but y holds real numbers. Turn "
            "them into integers, or use the loss 'squared'."
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= outputs:
        raise SettingError(
            f"The targets are classes {low} to {high}, but the predictor has {outputs} outputs. "
            f"It needs {high + 1} outputs, and classes that begin at 0."
        )


def _check_labels(data: DomainData) -> None:
    """Labels are 0, 1 or between, and every example has at least one that is not missing."""
    _refuse_missing(data, data.y.reshape(len(data), -1).isnan().all(dim=1))
    present = data.y[~data.y.isnan()]
    low, high = float(present.min()), float(present.max())
    if low < 0.0 or high > 1.0:
        raise SettingError(
            f"binary-cross-entropy needs targets between 0 and 1, but they lie between {low:g} "
            f"and {high:g}. Number two classes 0 and 1, or use the loss 'cross-entropy'."
        )


def _refuse_missing(data: DomainData, missing: Tensor) -> None:
    rows = torch.nonzero(missing.reshape(len(data), -1).any(dim=1)).reshape(-1)
    if len(rows):
        domain = data.names[int(data.domains[rows[0]])]
        raise SettingError(
            f"{len(rows)} of {len(data)} examples have no target (NaN), the first in row "
            f"{int(rows[0])} (domain {domain!r}). Leave them out: DomainData.at takes rows to keep."
        )
