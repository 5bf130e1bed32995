"""The DomainBed protocol by name: its numbers, its spaces, what a plan changes, a small sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from eqrm.objectives.penalties import DomainBedIRM
from eqrm.objectives.registry import PRESETS
from eqrm.sweeps import read_records
from eqrm.sweeps.execution import execute_run
from eqrm.sweeps.planned_runs import PlannedSweep, planned_sweep
from eqrm.sweeps.protocols import NAME, domainbed_run, domainbed_spaces, space_in_words
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from sweeps.small_plans import HereEngine

HYPER = "objective.hyperparameters"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DomainNet in small: 3 domains × 2 classes × 20 images of 8 × 8."""
    folder, generator = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for domain in ("clipart", "real", "sketch"):
        for place, name in enumerate(("cat", "dog")):
            inside = folder / "domain_net" / domain / name
            inside.mkdir(parents=True)
            for number in range(20):
                pixels = generator.integers(0, 128, (8, 8, 3)) + 127 * place
                Image.fromarray(pixels.astype(np.uint8)).save(inside / f"{number}.png")
    return folder


def plan(**fields: Any) -> dict[str, Any]:
    run = {
        "predictor": {"name": "cnn", "settings": {"width": 8}},
        "training": {"device": "cpu"},
        **fields.pop("run", {}),
    }
    dataset = {"name": "domainnet", "settings": {"size": 8}, "held_out": ["real"]}
    made = {"protocol": "domainbed", "datasets": [dataset], "objectives": ["erm"], "run": run}
    return {**made, **fields}


def planned(root: Path, **fields: Any) -> PlannedSweep:
    return planned_sweep(plan(**fields), "plan.yaml", root)


def test_base_spaces_are_those_of_domainbed() -> None:
    large = {
        "learning_rate": "10^U(-5, -3.5)",
        "batches.examples": "2^U(3, 5.5)",
        "training.optimizer.weight_decay": "10^U(-6, -2)",
        "predictor.settings.dropout": "{0.0, 0.1, 0.5}",
    }
    small = {"learning_rate": "10^U(-4.5, -2.5)", "batches.examples": "2^U(3, 9)"}
    without_batch = {k: v for k, v in large.items() if k != "batches.examples"}
    rate = f"{HYPER}.discriminator_learning_rate"
    expected = {
        ("pacs", "erm", "resnet50"): large,
        ("domainnet", "irm", "resnet50"): {**large, "batches.examples": "2^U(3, 5)"},
        ("vlcs", "arm", "resnet50"): without_batch,
        ("terraincognita", "dann", "resnet50"): {**large, rate: "10^U(-5, -3.5)"},
        ("rotated-mnist", "arm", "cnn"): small,
        ("colored-mnist", "cdann", "cnn"): {**small, rate: "10^U(-4.5, -2.5)"},
    }
    for case, spaces in expected.items():
        assert {path: space_in_words(s) for path, s in domainbed_spaces(*case).items()} == spaces
    batch = domainbed_spaces("pacs", "erm", "resnet50")["batches.examples"]
    drawn = [batch.sample(np.random.default_rng(seed)) for seed in range(300)]
    assert (min(drawn), max(drawn)) == (8, 45)


def test_steps_checkpoints_and_defaults_are_those_of_domainbed() -> None:
    for dataset, every, rate, examples in (
        ("officehome", 300, 5e-5, 32),
        ("domainnet", 1000, 5e-5, 32),
        ("rotated-mnist", 100, 1e-3, 64),
    ):
        run = domainbed_run(dataset, "erm")
        assert run["steps"] == 5001
        assert run["training"]["evaluate_every"] == every
        assert (run["learning_rate"], run["batches"]["examples"]) == (rate, examples)
        assert ("augment" in run["training"]) == (dataset != "rotated-mnist")
    assert domainbed_run("pacs", "arm")["batches"]["examples"] == 8


def test_the_protocol_fills_in_what_the_plan_leaves_out(root: Path) -> None:
    sweep = planned(root)
    assert len(sweep.runs) == 20 * 3
    default = sweep.runs[0].config
    assert (default.steps, default.learning_rate) == (5001, 5e-5)
    assert default.data.validation_examples == 0.2
    assert default.data.split_test_domains
    assert default.training.augment is not None
    assert default.training.evaluate_every == 1000
    assert default.training.evaluate_first
    trials = [[run.settings for run in sweep.runs if run.trial == trial] for trial in range(3)]
    assert trials[0][0] == trials[1][0] == trials[2][0]  # draw 0: the defaults
    assert trials[0][1] != trials[1][1]
    for run in sweep.runs:
        assert 8 <= run.config.batches.examples_per_domain <= 32  # type: ignore[operator]
        assert run.config.training.optimizer.weight_decay <= 1e-2
        assert run.settings.keys() == sweep.runs[0].settings.keys()


def test_objectives_have_domainbeds_preset_spaces_and_phases(root: Path) -> None:
    names = ["irm", {"name": "vrex", "preset": None}, "superquantile", "eqrm"]
    sweep = planned(root, objectives=names, draws=4, trials=1)
    by_name = {run.objective: run for run in sweep.runs if run.draw == 1}
    irm = by_name["irm"].config
    assert isinstance(irm.objective.make(2), DomainBedIRM)
    assert irm.objective.preset == "domainbed"
    assert by_name["vrex"].config.objective.preset is None
    assert by_name["superquantile"].config.objective.preset is None
    assert by_name["irm"].config.made_phases(2)[0].length < 5001
    burn_in, quantile = by_name["eqrm"].config.made_phases(2)
    assert 316 <= burn_in.length <= 3162
    assert 1e-7 <= quantile.rate() <= 1e-5
    assert f"{HYPER}.penalty_weight" in by_name["irm"].settings


def test_what_a_plan_changes_is_said(root: Path) -> None:
    run = {"steps": 300, "phases": "single", "learning_rate": 0.001}
    run |= {"training": {"device": "cpu", "augment": None}, "data": {"validation": ["sketch"]}}
    sweep = planned(
        root,
        objectives=["erm", {"name": "irm", "hyperparameters": {"penalty_weight": 10.0}}],
        draws=2,
        trials=1,
        search={"batches.examples": [8, 16]},
        run=run,
    )
    assert list(sweep.notes) == [
        "draws is 2, not 20",
        "trials is 1, not 3",
        "irm: penalty_weight is 10.0, not drawn",
        "domainnet: predictor.name is cnn, not resnet50",
        "domainnet: training.augment is None, not what the protocol has",
        "domainnet: steps is 300, not 5001",
        "domainnet: phases is single, not recommended",
        "domainnet: learning_rate is 0.001, not drawn from 10^U(-5, -3.5)",
        "domainnet: data.validation is ['sketch']: a fifth of every domain is held out otherwise",
        "domainnet: batches.examples is drawn from a space of the plan, not from 2^U(3, 5)",
        "domainnet: the network starts from random weights, in DomainBed from those of ImageNet. "
        "Set run.predictor.settings.pretrained to the path of such weights",
    ]
    assert {r.config.learning_rate for r in sweep.runs} == {0.001}
    assert {r.config.batches.examples_per_domain for r in sweep.runs} <= {8, 16, 32}
    assert not any("learning_rate" in r.settings for r in sweep.runs)


FEW = ["arm", "cdann", "mixup"]
REST = sorted(set(PRESETS["domainbed"]) - set(FEW))


@pytest.mark.parametrize("names", [FEW, pytest.param(REST, marks=pytest.mark.full)], ids=len)
def test_objectives_of_domainbed_run_to_records_with_its_checkpoints(
    root: Path, tmp_path: Path, names: list[str]
) -> None:
    training = {"device": "cpu", "evaluate_every": 2, "checkpoint_every": None}
    run = {"steps": 4, "phases": "single", "training": training}
    sweep = planned(root, objectives=names, draws=1, trials=1, run=run)
    folder = SweepFolder(tmp_path / "sweep")
    engine = HereEngine(folder)
    engine._outcome = lambda run: execute_run(folder, run, root)  # type: ignore[method-assign]
    result = run_sweep(sweep, folder, engine)
    assert (result.finished, result.failures) == (len(names), ())
    for record in read_records(folder.path):
        assert [each.step for each in record.checkpoints] == [1, 3, 4]
        last = record.checkpoints[-1]
        assert set(last.accuracies["validation"]) == {"clipart", "real", "sketch"}
        assert set(last.accuracies["test"]) == {"real"}


def test_the_page_shows_the_example_and_what_its_presets_are() -> None:
    repository = Path(__file__).resolve().parents[2]
    page = (repository / "docs" / "domainbed.md").read_text(encoding="utf-8")
    example = (repository / "examples" / "sweeps" / "domainbed.yaml").read_text(encoding="utf-8")
    shown = page.split("```yaml\n")[1].split("```")[0]
    assert example.endswith(shown)
    plan = yaml.safe_load(example)
    assert plan["protocol"] == NAME
    listed = page.split("## Presets")[1].split("## Augmentation")[0]
    assert {name for name in PRESETS["domainbed"] if f"`{name}`" not in listed} == set()
