"""``protocol: domainbed``, the protocol of DomainBed (Gulrajani & Lopez-Paz 2021, and its code).

It fills in the configuration, the search spaces, the number of draws and trials, and whose version
of each objective is trained. A plan may change any of it; :func:`protocol_notes` says what it
changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqrm.checks import one_of
from eqrm.data.datasets.registry import DATASETS
from eqrm.objectives.hyperparameters import ChoiceSpace, LogUniformSpace
from eqrm.objectives.registry import OBJECTIVES, PRESETS
from eqrm.predictors.registry import PREDICTORS, predictor_settings
from eqrm.registry import folded_name
from eqrm.sweeps.plan import (
    PlannedDataset,
    PlannedObjective,
    SweepPlan,
    fields_of,
    named_entries,
)
from eqrm.sweeps.spaces import HYPERPARAMETERS, Space

SMALL_IMAGES = ("colored-mnist", "rotated-mnist")
FOLDERS_OF_IMAGES = ("domainnet", "image-folder", "officehome", "pacs", "terraincognita", "vlcs")
ADVERSARIES = ("cdann", "dann")
VALIDATION_FIELDS = ("data.validation", "data.validation_examples", "data.split_test_domains")
RATE, DECAY = "learning_rate", "training.optimizer.weight_decay"
EXAMPLES, SETTINGS = "batches.examples", "predictor.settings"


NAME = "domainbed"
NUMBERS: Mapping[str, Any] = {"draws": 20, "trials": 3, "draws_per_trial": True}


def domainbed_run(dataset: str, objective: str) -> dict[str, Any]:
    """The configuration of a run, before anything is drawn."""
    small = dataset in SMALL_IMAGES
    training: dict[str, Any] = {
        "optimizer": {"name": "adam", "weight_decay": 0.0},
        "evaluate_every": 100 if small else 1000 if dataset == "domainnet" else 300,
        "evaluate_first": True,
    }
    if dataset in FOLDERS_OF_IMAGES:
        training["augment"] = {"crop": 0.7, "flip": 0.5, "grayscale": 0.1}
        training["augment"] |= dict.fromkeys(("brightness", "contrast", "saturation", "hue"), 0.3)
    made: dict[str, Any] = {
        "steps": 5001,
        "phases": "recommended",
        RATE: 1e-3 if small else 5e-5,
        "schedule": "constant",
        "batches": {"examples": 64 if small else 8 if objective == "arm" else 32},
        "training": training,
    }
    if small or dataset in FOLDERS_OF_IMAGES:
        made["predictor"] = {"name": "cnn" if small else "resnet50"}
    return made


def domainbed_spaces(dataset: str, objective: str, predictor: str | None) -> dict[str, Space]:
    """Where fields of the configuration are drawn from."""
    small = dataset in SMALL_IMAGES
    rates = LogUniformSpace(10, -4.5, -2.5) if small else LogUniformSpace(10, -5, -3.5)
    found: dict[str, Space] = {RATE: rates}
    if small or objective != "arm":
        most = 9 if small else 5 if dataset == "domainnet" else 5.5
        found[EXAMPLES] = LogUniformSpace(2, 3, most, integer=True)
    if not small:
        found[DECAY] = LogUniformSpace(10, -6, -2)
        if predictor in PREDICTORS and "dropout" in predictor_settings(str(predictor)):
            found[f"{SETTINGS}.dropout"] = ChoiceSpace((0.0, 0.1, 0.5))
    if objective in ADVERSARIES:
        found[f"{HYPERPARAMETERS}.discriminator_learning_rate"] = rates
    return found


def with_protocol(content: Any) -> Any:
    """A plan's content with the numbers and presets of its protocol, where it has none of its own.

    With a grid nothing is drawn, so that only the number of trials is filled in; an adaptive
    search has draws of its own for each trial anyway.
    """
    if not isinstance(content, Mapping) or content.get("protocol") is None:
        return content
    one_of(str(content["protocol"]), (NAME,), "protocol")
    content = named_entries(content)
    listed = content.get("objectives")
    entries = [e for e in listed if isinstance(e, Mapping)] if isinstance(listed, list) else []
    kept = tuple(NUMBERS)
    if content.get("grid") or any(entry.get("grid") for entry in entries):
        kept = ("trials",)
    elif content.get("adaptive") is not None:
        kept = ("draws", "trials")
    theirs = set(map(folded_name, PRESETS[NAME]))
    own = [
        {"preset": NAME, **each} if folded_name(each.get("name")) in theirs else each
        for each in entries
    ]
    presets = {"objectives": own} if entries == listed else {}
    return {**{name: NUMBERS[name] for name in kept}, **content, **presets}


def protocol_spaces(
    plan: SweepPlan, dataset: PlannedDataset, objective: PlannedObjective, content: Any
) -> dict[str, Space]:
    """The spaces of a plan's protocol, for the fields that the plan does not fix."""
    if plan.protocol is None:
        return {}
    predictor = fields_of(content).get("predictor.name")
    spaces = domainbed_spaces(*names_of(dataset, objective), predictor)
    own = {*fields_of(plan.run), *fields_of(dataset.run), *plan.search}
    own |= {f"{HYPERPARAMETERS}.{each}" for each in objective.hyperparameters}
    return {path: space for path, space in spaces.items() if path not in own}


def names_of(dataset: PlannedDataset, objective: PlannedObjective) -> tuple[str, str]:
    """What the protocol goes by: the registered names."""
    return DATASETS.name_of(dataset.name), OBJECTIVES.name_of(objective.name)


def protocol_notes(plan: SweepPlan) -> list[str]:
    """What a plan changes of its protocol, and what it lacks; empty without a protocol."""
    if plan.protocol is None:
        return []
    numbers, found = dict(NUMBERS), []
    if plan.has_grid:
        numbers, found = {"trials": numbers["trials"]}, ["a grid takes the place of random draws"]
    elif plan.adaptive is not None:
        del numbers["draws_per_trial"]
        found = ["draws are proposed by an adaptive search, not at random"]
    for name, value in numbers.items():
        if getattr(plan, name) != value:
            found.append(f"{name} is {getattr(plan, name)}, not {value}")
    found += [f"{model.called}: a table model, which the protocol lacks" for model in plan.models]
    for objective in plan.objectives:
        found += [f"{objective.called}: {each}" for each in _changes_of_objective(objective)]
    for dataset in plan.datasets:
        several = [_changes(plan, dataset, each) for each in plan.objectives]
        for change in dict.fromkeys(change for changes in several for change in changes):
            of = [e.called for e, c in zip(plan.objectives, several, strict=True) if change in c]
            who = "" if len(of) == len(several) else f" ({', '.join(of)})"
            found.append(f"{dataset.called}{who}: {change}")
    return found


def _changes_of_objective(objective: PlannedObjective) -> list[str]:
    if objective.preset != NAME:
        return [f"it is the package's own, not that of {NAME}"]
    found = [f"{name} is {value}, not drawn" for name, value in objective.hyperparameters.items()]
    found += [f"{name} has a search space of its own" for name in objective.search]
    return found + (["its phases are the plan's"] if objective.phases is not None else [])


def _changes(plan: SweepPlan, dataset: PlannedDataset, objective: PlannedObjective) -> list[str]:
    """Fields of the configuration, and spaces, that the plan sets in another way."""
    own = {**fields_of(plan.run), **fields_of(dataset.run)}
    names = names_of(dataset, objective)
    expected = fields_of(domainbed_run(*names))
    spaces = domainbed_spaces(*names, own.get("predictor.name", expected.get("predictor.name")))
    found = []
    for path, value in own.items():
        if path in spaces:
            found.append(f"{path} is {value}, not drawn from {space_in_words(spaces[path])}")
        elif path in expected and value != expected[path]:
            found.append(f"{path} is {value}, not {expected[path]}")
        elif any(each.startswith(f"{path}.") for each in expected):
            found.append(f"{path} is {value}, not what the protocol has")
        elif path in VALIDATION_FIELDS:
            found.append(f"{path} is {value}: a fifth of every domain is held out otherwise")
    found += [
        f"{path} is drawn from a space of the plan, not from {space_in_words(space)}"
        for path, space in spaces.items()
        if path in plan.search
    ]
    if names[0] in FOLDERS_OF_IMAGES and not own.get(f"{SETTINGS}.pretrained"):
        found.append(
            "the network starts from random weights, in DomainBed from those of ImageNet. Set "
            f"run.{SETTINGS}.pretrained to the path of such weights"
        )
    return found


def space_in_words(space: Space) -> str:
    """A space as people write it, such as 10^U(-5, -3.5) or {0.0, 0.5}."""
    if isinstance(space, LogUniformSpace):
        return f"{space.base:g}^U({space.low:g}, {space.high:g})"
    if isinstance(space, ChoiceSpace):
        return "{" + ", ".join(map(str, space.values)) + "}"
    return str(space)
