"""Every number of a configuration has a range, which is checked and which the page prints."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest

from eqrm.data.datasets.registry import DATASETS
from eqrm.errors import SettingError
from eqrm.predictors.registry import PREDICTORS, predictor_settings
from eqrm.training.runs.config import RunConfig
from training.test_config import changed

HUGE = 10**20


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((path, HUGE) for path in ("steps", "data.seed", "training.seed", "batches.seed")),
        *((f"training.{name}", HUGE) for name in ("log_every", "evaluate_every")),
        *((f"training.{name}", HUGE) for name in ("evaluation_batch", "checkpoints_kept")),
        *((f"batches.{name}", HUGE) for name in ("domains", "examples")),
        ("phases", [{"steps": HUGE}]),
        ("predictor.outputs", HUGE),
        *(("predictor.settings.dropout", value) for value in (True, [], {}, 1.0, -0.1, "0.5")),
        *(("predictor.settings.width", value) for value in (0, -1, HUGE, 2.5, True)),
        *(("predictor.settings.depth", value) for value in (0, HUGE)),
        *(("training.optimizer.momentum", value) for value in (5, 1, -0.1)),
        *(("data.test", value) for value in (0, 0.0, 1, 1.5, -0.2)),
        *(("data.validation", value) for value in (0, 1)),
        *(("data.settings.examples_per_domain", value) for value in (0, HUGE, True)),
        ("data.settings.seed", HUGE),
        ("learning_rate", 0),
        ("objective", {"name": "dann", "hyperparameters": {"width": HUGE}}),
        ("objective", {"name": "mldg", "hyperparameters": {"num_meta_test": HUGE}}),
    ],
)
def test_what_is_out_of_range_is_refused_with_its_range(path: str, value: object) -> None:
    with pytest.raises(SettingError) as error:
        RunConfig.read(changed(**{path.replace(".", "__"): value}))
    refused = str(error.value)
    assert refused.count(" must be ") == 1
    assert path.split(".")[-1] in refused or path in ("phases", "objective")


def test_every_number_of_a_configuration_has_a_range() -> None:
    seen: set[str] = set()

    def numbers(kind: Any, path: str = "") -> None:
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            key = field.metadata.get("in_files", field.name)
            where = f"{path}.{key}" if path else str(key)
            parts = typing.get_args(hints[field.name]) or (hints[field.name],)
            if key is not None and {int, float} & set(parts) and key != "alpha":
                assert "rule" in field.metadata, where
                seen.add(where)
            for each in [part for whole in parts for part in (whole, *typing.get_args(whole))]:
                if dataclasses.is_dataclass(each) and each.__dataclass_params__.frozen:  # type: ignore[union-attr]
                    numbers(each, where)

    numbers(RunConfig)
    assert {"steps", "phases.steps", "training.optimizer.momentum"} <= seen


@pytest.mark.parametrize("name", sorted(PREDICTORS))
def test_every_number_of_a_predictor_has_a_range(name: str) -> None:
    for setting, default in predictor_settings(name).items():
        if isinstance(default, (bool, int, float)):
            assert setting in PREDICTORS.rules or setting == "pretrained"


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_every_number_of_a_dataset_has_a_range(name: str) -> None:
    for setting, default in DATASETS.settings(name, leave_out=("root",)).items():
        if isinstance(default, (int, float)) and not isinstance(default, bool):
            assert setting in DATASETS.rules
