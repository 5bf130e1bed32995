"""Configurations: read, changed, written back, and refused with the name of the field."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from eqrm.errors import DataFileError, DomainDataError, EqrmError, SettingError
from eqrm.training.runs import run, run_data
from eqrm.training.runs.config import RunConfig
from training.small_worlds import classification

GOOD: dict[str, Any] = {
    "data": {"dataset": "toy", "test": ["d3"]},
    "predictor": {"name": "mlp", "settings": {"width": 8}},
    "objective": {"name": "eqrm", "hyperparameters": {"alpha": 0.9}},
    "phases": [{"objective": "erm", "steps": 4}, {"learning_rate": 0.01, "schedule": "cosine"}],
    "batches": {"domains": 3, "examples": 4},
    "steps": 10,
    "training": {"device": "cpu", "tensorboard": False, "log_every": 1},
}


def changed(**fields: Any) -> dict[str, Any]:
    """The good configuration with fields replaced; ``a__b`` is a field inside of another."""
    content = copy.deepcopy(GOOD)
    for path, value in fields.items():
        *outer, last = path.split("__")
        inside = content
        for name in outer:
            inside = inside.setdefault(name, {})
        inside[last] = value
    return content


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_data, "raw_dataset", lambda name, root, **settings: classification())


def test_phases_take_from_the_run_what_they_leave_out() -> None:
    burn_in, main = RunConfig.read(GOOD).made_phases(3)
    assert (burn_in.minimised.name, burn_in.steps, burn_in.learning_rate) == ("erm", 4, 1e-3)
    assert (main.minimised.name, main.steps, main.learning_rate) == ("eqrm", 6, 0.01)
    assert main.schedule == "cosine"


def test_written_back_it_is_the_same_run() -> None:
    content = changed(
        training__early_stopping={"alpha": "1-e^-20", "patience": 2},
        training__evaluate_every=2,
        data__validation=["d2"],
        objective__memory={"averaging": 0.3, "denoise": True},
    )
    config = RunConfig.read(content)
    again = RunConfig.read(yaml.safe_load(config.to_yaml()))
    assert again.plain() == config.plain()
    assert again.run_name == config.run_name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trainig": {}}, "has no field 'trainig'. Did you mean 'training'"),
        ({"training__sed": 1}, "training has no field 'sed'. Did you mean 'seed'"),
        ({"training__seed": "one"}, "training.seed must be an integer, got 'one'"),
        ({"training__precision": "fp8"}, "training: Unknown precision 'fp8'"),
        ({"training__evaluate_every": 0}, "training: evaluate_every must be"),
        ({"training__optimizer": {"name": "adm"}}, "training.optimizer: Unknown optimizer"),
        ({"training__optimizer": {"betas": [1, 2]}}, "training.optimizer: betas must be"),
        ({"training__device": "meta"}, "training: Unknown device 'meta'"),
        (
            {"training__early_stopping": {"smallest_gain": float("nan")}},
            "training.early_stopping.smallest_gain must be a number",
        ),
        ({"data__seed": -1}, "data: seed must be an integer from 0"),
        ({"objective__hyperparameters": {5: 1}}, "hyperparameters must have strings as names"),
        ({"objective__hyperparameters__memory": 1}, "memory is not a hyperparameter"),
        ({"steps": 10.5}, "steps must be an integer, got 10.5"),
        ({"steps": 3}, "steps add up to 4, which does not fit steps: 3"),
        ({"phases": "recomended"}, "phases must be 'recommended' or 'single' or a list"),
        ({"phases": "recommended"}, "need more than 2500 steps, got 10.*phases: single"),
        ({"phases": [{"steps": 10, "schedule": "cos"}]}, r"phases\[0\]: Unknown schedule"),
        ({"phases": [{"step": 10}]}, r"phases\[0\] has no field 'step'. Did you mean 'steps'"),
        ({"phases": [{}, {}]}, "only one phase may leave out"),
        ({"objective__hyperparameters__alpha": 1.5}, "objective: .*1.5"),
        ({"objective__hyperparameters__alhpa": 0.5}, "objective: .*'alhpa'. Did you mean 'alpha'"),
        ({"objective__name": "eqr"}, "objective: Unknown objective 'eqr'. Did you mean"),
        ({"objective": {"name": "irm", "memory": {}}}, "objective: IRM has no memory"),
        ({"data__test": ["d3", "d3"]}, "data: test lists the domain 'd3' twice"),
        ({"data__train": ["d1", "d3"]}, "data: the domain 'd3' is in train and in test"),
        ({"data": {"test": ["d3"]}}, "data.dataset is missing"),
        (
            {"data__validation_examples": 2},
            "validation_examples must be None or a number strictly between",
        ),
        (
            {"training__early_stopping": {"alpha": 0.9}, "training__evaluate_every": 1},
            "early_stopping watches validation",
        ),
        ({"training__early_stopping": {"alpha": 1.5}}, "training.early_stopping: .*1.5"),
    ],
)
def test_wrong_configurations_are_refused_by_reading_them(change, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(EqrmError, match=message):
        RunConfig.read(changed(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batches__domains": 9}, "batches: domains_per_batch is 9, but the data has 3"),
        ({"batches__examples": 17}, "batches: examples_per_domain is 17, but the largest"),
        ({"data__test": ["dd3"]}, "data: Unknown domain 'dd3'. Did you mean 'd3'"),
        ({"data__test": [3]}, "data: Unknown domain '3'"),
        ({"predictor__name": "mpl"}, "predictor: Unknown predictor 'mpl'. Did you mean 'mlp'"),
        ({"predictor__settings": {"wdth": 3}}, "predictor: .*'wdth'. Did you mean 'width'"),
        (
            {"predictor__settings": {"width": -1}},
            "predictor: width must be an integer from 1 .* got -1",
        ),
        (
            {"predictor__settings": {"width": "wide"}},
            "predictor: width must be an integer from 1 .* got 'wide'",
        ),
        ({"predictor__settings": {"loss": "squared"}}, "predictor: .* Give predictor.loss"),
        ({"predictor__outputs": 2}, "classes 0 to 2, but the predictor has 2 outputs"),
        ({"predictor__loss": "crossentropy"}, "predictor: Unknown loss 'crossentropy'"),
        ({"objective": {"name": "coral"}, "batches__domains": 1}, "CORAL compares domains"),
    ],
)
def test_what_only_the_data_can_tell_is_refused_before_anything_is_written(  # type: ignore[no-untyped-def]
    tmp_path: Path, change, message
) -> None:
    with pytest.raises((SettingError, DomainDataError), match=message):
        run.train_run(RunConfig.read(changed(**change)), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["007", "010", "0x1F", "2013-01-01", "12:30", "d3"])
def test_names_of_domains_stay_as_they_are_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(changed(data__test=["NAME"])).replace("NAME", name))
    assert RunConfig.from_file(path).data.test == [name]


def test_numbers_that_name_domains_are_names_and_not_places() -> None:
    data = classification()
    named = dataclasses.replace(data, names=("10", "3", "2", "1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_data, "raw_dataset", lambda name, root: named)
        trainer = run.trainer_of(RunConfig.read(changed(data__test=[3, 1], batches={})))
    assert set(trainer.held_out["test"].names) == {"3", "1"}


def test_a_run_writes_its_folder_named_by_its_hash(tmp_path: Path) -> None:
    config = RunConfig.read(changed(data__validation_examples=0.25))
    trained = run.train_run(config, tmp_path)
    folder = tmp_path / config.run_name
    assert trained.folder == folder
    assert RunConfig.from_file(folder / "config.yaml").run_name == config.run_name
    assert set(trained.risks) == {"validation", "test"}
    assert trained.risks["validation"].counts.tolist() == [4, 4, 4]
    assert (folder / "DONE").is_file()


def test_a_memory_knows_the_domains_of_the_training_data() -> None:
    config = RunConfig.read(changed(objective__memory={"averaging": 0.3, "denoise": True}))
    memory = run.trainer_of(config).phases[1].minimised.memory  # type: ignore[attr-defined]
    assert memory.num_domains == 3
    assert memory.domain_sizes.tolist() == [16.0, 16.0, 16.0]


def test_fields_added_later_change_no_hash_while_they_are_at_their_defaults() -> None:
    config = RunConfig.read(GOOD)
    assert config.run_name == "98ad30240192ecda"  # as before the fields were added
    assert "domains_listed" not in config.to_yaml()
    listed = RunConfig.read(changed(training__domains_listed=None))
    assert listed.run_name != config.run_name
    assert RunConfig.read(listed.plain()).run_name == listed.run_name


def test_every_domain_can_be_split_and_the_training_examples_measured() -> None:
    fields = {"validation_examples": 0.25, "split_test_domains": True, "measure_training": True}
    content = changed(**{f"data__{name}": value for name, value in fields.items()})
    data = run_data.RunData.read(RunConfig.read(content).data)
    names = {name: part.names for name, part in data.held_out.items()}
    all_names = classification().names
    assert names["validation"] == all_names
    assert (names["test"], names["train"]) == (("d3",), data.train.names)
    assert data.held_out["train"] is data.train
    counts = {name: part.counts.tolist() for name, part in data.held_out.items()}
    assert counts == {"train": [12] * 3, "validation": [4] * 4, "test": [12]}
    other = run_data.RunData.read(
        dataclasses.replace(RunConfig.read(content).data, test=["d0"])
    ).held_out["validation"]
    assert (other.x == data.held_out["validation"].x).all()


def test_epochs_are_passes_through_the_training_data() -> None:
    phases = [{"objective": "erm", "steps": 2}, {}]
    content = changed(unit="epochs", steps=3, phases=phases)
    content["training"] |= {"evaluate_every": 1, "checkpoint_every": None}
    config = RunConfig.read(content)
    trainer = run.trainer_of(config)
    examples, per_step = len(trainer.data), 3 * 4
    each = math.ceil(examples / per_step)
    assert [phase.steps for phase in trainer.phases.phases] == [2 * each, each]
    assert trainer.settings.evaluate_every == each
    assert trainer.settings.checkpoint_every is None
    assert RunConfig.read(config.plain()) == config
    in_steps = RunConfig.read({**content, "unit": "steps"})
    assert "unit" not in in_steps.plain()
    assert [phase.steps for phase in run.trainer_of(in_steps).phases.phases] == [2, 1]
    recommended = {**content, "phases": "recommended", "objective": {"name": "vrex"}}
    found = run.trainer_of(RunConfig.read({**recommended, "steps": 200}))
    assert found.phases.steps == 200 * each
    with pytest.raises(SettingError, match="Unknown unit 'epoch'"):
        RunConfig.read({**content, "unit": "epoch"})


def test_a_run_starts_from_the_weights_of_another(tmp_path: Path) -> None:
    erm = RunConfig.read(changed(objective={"name": "erm"}, phases="single"))
    first = run.train_run(erm, tmp_path)
    assert first.folder is not None
    content = changed(phases="single", predictor__start_from=str(first.folder))
    started = run.trainer_of(RunConfig.read(content))
    for name, weight in started.state.predictor.state_dict().items():
        assert torch.equal(weight, first.predictor.state_dict()[name])
    other = changed(phases="single", predictor__start_from=str(first.folder))
    other["predictor"]["settings"] = {"width": 9}
    with pytest.raises(SettingError, match=r"start_from: the weights .* in this network"):
        run.trainer_of(RunConfig.read(other))
    nowhere = changed(phases="single", predictor__start_from=str(tmp_path / "none"))
    with pytest.raises(DataFileError, match="does not hold a finished run"):
        run.trainer_of(RunConfig.read(nowhere))


@pytest.mark.parametrize("content", ["a: [1", "!!python/object/apply:os.system [touch pwned]"])
def test_a_file_that_is_no_plain_yaml_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content)
    with pytest.raises(DataFileError, match="is not valid YAML"):
        RunConfig.from_file(path)
