"""What could do as well as EQRM without it: ERM with shifted logits, and a constant prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm import Empirical, Level, domain_risks
from eqrm.data import DomainData
from eqrm.files.checked_json import read_checked_json, write_checked_json
from eqrm.predictors import Predictor
from eqrm.predictors.base import LOSSES
from eqrm.risks import MeasuredRisks
from eqrm.training import load_predictor
from eqrm.training.runs.config import RunConfig
from eqrm.training.runs.run_data import RunData
from studies.molecules.settings import ERM, JUDGED

FORMAT = "eqrm baselines of molecules 2"
CONSTANT = "constant rates"
SHIFTS = torch.linspace(-6.0, 6.0, 241)
"""What is tried as the number added to all logits."""
EXAMPLES_AT_ONCE = 2048


def shifted_label(level: float, of: str = ERM) -> str:
    """The name of predictions, ERM's or constant ones, whose logits are shifted for a level."""
    return f"{of}, shifted for α={level:g}"


def baselines(run: Path, kept: Path, device: str) -> dict[str, MeasuredRisks]:
    """The risks of shifted ERM on unseen scaffolds, by name.

    ``run`` is the folder of a run of ERM; what was found is kept in a file and not computed again.
    """
    of = f"ERM of the run {run.name}"
    return _kept(kept, of, run, lambda data: baselines_of(load_predictor(run).to(device), data))


def constants(run: Path, kept: Path) -> dict[str, MeasuredRisks]:
    """The same of predictions that are equal for all molecules, which need no network."""
    data = RunConfig.from_file(run / "config.yaml").data
    return _kept(kept, f"constants of {data.dataset}, {data.settings}", run, constants_of)


def baselines_of(predictor: Predictor, data: RunData) -> dict[str, MeasuredRisks]:
    """Shifted ERM, from a predictor and its data, which has validation and test domains."""
    validation, test = data.held_out["validation"], data.held_out["test"]
    return _shifted(ERM, _logits(predictor, validation), _logits(predictor, test), data)


def constants_of(data: RunData) -> dict[str, MeasuredRisks]:
    """The rate of each task for every molecule, with and without a shift."""
    validation, test = data.held_out["validation"], data.held_out["test"]
    rates = _base_logits(data.train.y).double()
    unseen = rates.expand_as(test.y)
    found = {CONSTANT: _risks(unseen, test)}
    return {**found, **_shifted(CONSTANT, rates.expand_as(validation.y), unseen, data)}


def _shifted(of: str, logits: Tensor, unseen: Tensor, data: RunData) -> dict[str, MeasuredRisks]:
    """Logits of unseen scaffolds, shifted by what suits those of validation scaffolds best."""
    validation, test = data.held_out["validation"], data.held_out["test"]
    return {
        shifted_label(level, of): _risks(unseen + best_shift(logits, validation, level), test)
        for level in JUDGED
    }


def _kept(
    kept: Path, of: str, run: Path, compute: Callable[[RunData], dict[str, MeasuredRisks]]
) -> dict[str, MeasuredRisks]:
    """What a file has of this, or else what the data of a run gives, written to that file."""
    if kept.is_file():
        found = read_checked_json(kept, FORMAT, "a file of baselines")
        if found.get("of") == of:
            return {name: _measured(values) for name, values in found["risks"].items()}
    made = compute(RunData.read(RunConfig.from_file(run / "config.yaml").data))
    plain = {name: _plain(each) for name, each in made.items()}
    write_checked_json(kept, FORMAT, {"of": of, "risks": plain})
    return made


def best_shift(logits: Tensor, data: DomainData, level: float) -> float:
    """What to add to all logits for the smallest quantile of the risk over the domains of data."""
    tried = torch.stack(
        [
            Empirical(_risk_values(logits + shift, data)).quantile(Level(level))
            for shift in SHIFTS.tolist()
        ]
    )
    return float(SHIFTS[int(tried.argmin())])


def _base_logits(y: Tensor) -> Tensor:
    """The logit of each task's rate among the labels that are present, with half a label added."""
    positive = y.nansum(0) + 0.5
    return (positive / ((~y.isnan()).sum(0) + 1.0 - positive)).log()


@torch.no_grad()
def _logits(predictor: Predictor, data: DomainData) -> Tensor:
    predictor.eval()
    device = next(predictor.parameters()).device
    parts = []
    for rows in torch.arange(len(data)).split(EXAMPLES_AT_ONCE):
        parts.append(predictor(data.rows(rows).x.to(device)).cpu().double())
    return torch.cat(parts)


def _risk_values(logits: Tensor, data: DomainData) -> Tensor:
    values: Tensor = domain_risks(_losses(logits, data), data.domains, data.num_domains).values
    return values


def _losses(logits: Tensor, data: DomainData) -> Tensor:
    return LOSSES["binary-cross-entropy"](logits.double(), data.y.double())


def _risks(logits: Tensor, data: DomainData) -> MeasuredRisks:
    names = [data.names[number] for number in data.domains.tolist()]
    return domain_risks(_losses(logits, data), names).measured()


def _plain(risks: MeasuredRisks) -> dict[str, Any]:
    variances = [None if np.isnan(value) else value for value in risks.variances.tolist()]
    return {
        "domains": list(risks.domains),
        "counts": risks.counts.tolist(),
        "risks": risks.risks.tolist(),
        "variances": variances,
    }


def _measured(values: Mapping[str, Any]) -> MeasuredRisks:
    variances = [np.nan if value is None else value for value in values["variances"]]
    return MeasuredRisks.of(values["domains"], values["counts"], values["risks"], variances)
