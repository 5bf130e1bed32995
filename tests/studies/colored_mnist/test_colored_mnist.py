"""colored-mnist at a tiny size, on made-up digits: blocks, files, selection, tables, checks."""

from __future__ import annotations

import csv
import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from studies.base import Report, no_progress
from studies.colored_mnist.checks import check_mnist
from studies.colored_mnist.digits_by_seed import (
    MEASURED,
    REDRAWN,
    TEST,
    VALIDATION,
    DigitsBySeed,
)
from studies.colored_mnist.experiment import BlockCost, SettingResult, step_operations
from studies.colored_mnist.findings import (
    BY_TEST_DOMAIN,
    BY_TEST_SET,
    BY_TRAINING_DOMAINS,
    MnistFindings,
)
from studies.colored_mnist.presentation import table_lines
from studies.colored_mnist.run import ColoredMnist
from studies.colored_mnist.settings import (
    GRIDS,
    PAPER,
    PRETRAINED,
    RANDOM,
    MnistSettings,
    Recipe,
    RecipeChange,
    TableSetting,
)
from studies.registry import new_study

from eqrm.data.datasets import mnist as mnist_module
from eqrm.data.datasets.mnist import Digits
from eqrm.errors import SettingError
from eqrm.level import Level
from eqrm.objectives import IGA
from studies.colored_mnist import run as run_module

pytestmark = pytest.mark.xdist_group("colored-mnist")  # what is trained once serves all tests

SMALL = Recipe(
    burn_in=6,
    steps=10,
    long_steps=12,
    rate=1e-2,
    rate_after=1e-3,
    width=12,
    depth=2,
    examples=150,
    products="float32",
)
EQRM_SETTING = TableSetting("eqrm", PRETRAINED, -1000.0)
TINY = MnistSettings(
    seeds=2,
    recipe=SMALL,
    grids={
        "paper": {
            "erm": (6.0, 10.0),
            "oracle": (6.0,),
            "irm": (50.0, 5000.0),
            "groupdro": (0.1,),
            "sd": (1.0,),
            "iga": (50.0,),
            "vrex": (50.0,),
            "eqrm": (-100.0, -1000.0),
        },
        "published": {"eqrm": (-1000.0, -5000.0)},
    },
    candidates={
        "published gradient": RecipeChange(replace(SMALL, gradient="bisection"), (EQRM_SETTING,)),
        "one draw": RecipeChange(replace(SMALL, shared_data=True), (EQRM_SETTING,)),
    },
    figure_levels=(Level(0.5), Level(log_tail=-1000.0)),
    test_digits=40,
)


def made_up_digits(*_: object) -> Digits:
    """Digits that are told apart by where they are bright."""
    generator = np.random.default_rng(0)

    def draw(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = generator.integers(0, 10, n)
        images = generator.integers(0, 60, (n, 28, 28), dtype=np.uint8)
        images[labels < 5, :14] += 150
        return torch.from_numpy(images), torch.from_numpy(labels)

    return Digits(*draw(50_200), *draw(60))


@pytest.fixture(scope="module", autouse=True)
def _tiny() -> object:
    with pytest.MonkeyPatch.context() as patch:
        found = made_up_digits()
        patch.setattr(mnist_module, "digits", lambda *_: found)
        patch.setattr(run_module, "SIZES", {"quick": TINY, "full": TINY})
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("colored-mnist")


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    return ColoredMnist(device="cpu").run(folder, "quick")


def test_it_is_registered_with_its_settings() -> None:
    made = new_study("colored-mnist", methods="eqrm,vrex", candidates=False)
    assert made.given == {"methods": "eqrm,vrex", "candidates": "false"}
    with pytest.raises(SettingError, match="eqrn"):
        ColoredMnist(methods="eqrn")._blocks(TINY)
    with pytest.raises(SettingError, match=r"Unknown device 'tpu'\. Choose auto, cpu"):
        ColoredMnist(device="tpu").compute("quick", 0, no_progress)


def test_every_cell_of_the_table_is_written(report: Report, folder: Path) -> None:
    with (folder / "table_1.csv").open() as file:
        rows = list(csv.DictReader(file))
    chosen = [r for r in rows if r["grid"] == "paper" and r["selection"] == BY_TEST_DOMAIN]
    assert len(chosen) == len(PAPER)
    assert {r["selection"] for r in rows} == {BY_TEST_DOMAIN, BY_TRAINING_DOMAINS, BY_TEST_SET}
    assert "72.1 ± 0.7" in (folder / "table_1.md").read_text()
    assert r"\bottomrule" in (folder / "table_1.tex").read_text()
    assert (folder / "figure-3-e-f.svg").is_file()


def test_what_is_finished_is_not_trained_again(
    report: Report, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    train = run_module.MnistStudy.train
    monkeypatch.setattr(
        run_module.MnistStudy,
        "train",
        lambda self, block: (trained.append(block.title), train(self, block)),
    )
    again = ColoredMnist(device="cpu").run(folder, "quick")
    assert trained == []
    assert [str(c) for c in again.outcome.checks] == [str(c) for c in report.outcome.checks]
    (folder / "parts" / "standard.vrex-erm-50.safetensors").unlink()
    once_more = ColoredMnist(device="cpu").run(folder, "quick")
    assert trained == ["VREx, erm initialisation (1 setting)"]
    tables = [{t.name: t.rows for t in r.outcome.tables} for r in (report, once_more)]
    assert tables[0]["table_1"] == tables[1]["table_1"]  # from the burn-in that was kept


@pytest.mark.full
def test_the_same_seed_gives_the_same_table_and_another_seed_another(
    report: Report, tmp_path: Path
) -> None:
    first = report.outcome.tables[1].rows
    options = {"methods": "eqrm", "grids": "paper", "candidates": False, "device": "cpu"}
    same = ColoredMnist(**options).run(tmp_path / "same", "quick")  # type: ignore[arg-type]
    for row in same.outcome.tables[1].rows:
        assert row in first
    other = ColoredMnist(**options).run(tmp_path / "other", "quick", seed=1)  # type: ignore[arg-type]
    assert other.outcome.tables[1].rows != same.outcome.tables[1].rows
    with pytest.raises(SettingError, match=r"other seeds.*would be overwritten.*another --output"):
        ColoredMnist(**options).run(tmp_path / "same", "quick", seed=1)  # type: ignore[arg-type]
    name = "standard.eqrm-erm--1000.safetensors"
    parts = tmp_path / "same" / "parts"
    (parts / name).replace(parts / name.replace("--1000", "-0.99"))
    settings = {"minutes": 0, **options}
    left = ColoredMnist(**settings).run(tmp_path / "same", "quick")  # type: ignore[arg-type]
    assert left.outcome.answer.startswith("Not computed yet")  # a result under another name


def test_without_time_it_says_what_is_missing(tmp_path: Path) -> None:
    report = ColoredMnist(device="cpu", minutes=0).run(tmp_path, "quick")
    assert report.outcome.tables == []
    assert report.outcome.answer.startswith(
        "Not computed yet, and missing in the tables: EQRM, erm initialisation (2 settings);"
    )


def test_every_seed_has_its_own_digits_and_all_test_digits_at_every_flip() -> None:
    data = DigitsBySeed([0, 1], SMALL, None, torch.device("cpu"))
    first, second = data.training()
    assert first.counts.tolist() == [150, 150]
    assert not torch.equal(first.x, second.x)
    found = data.evaluation()[0]
    assert found.names == MEASURED
    counts = dict(zip(found.names, found.counts.tolist(), strict=True))
    assert {counts[name] for name in MEASURED if name.startswith("test")} == {60}
    assert counts[VALIDATION[-1]] == 200
    by_name = {name: found.x[found.domains == k] for k, name in enumerate(found.names)}
    greys = {name: by_name[name].unflatten(1, (2, -1)).sum(1) for name in ("test 0", "test 1")}
    torch.testing.assert_close(greys["test 0"], greys["test 1"])  # other colours only
    assert not torch.equal(by_name[TEST], by_name[REDRAWN])
    oracle = data.training(oracle=True)[0]
    colour = oracle.x[:, :196].sum(1) > 0
    assert 0.35 < (colour == (oracle.y == 0)).double().mean() < 0.65


def test_phases_are_those_of_the_paper() -> None:
    burn_in, after = TableSetting("vrex", PRETRAINED, 5000.0).phases(Recipe())
    assert (burn_in.steps, burn_in.schedule, burn_in.rate()) == (400, None, 1e-4)
    assert (after.steps, after.schedule, after.loss_scaling) == (200, "cosine", "penalty-weight")
    assert TableSetting("sd", PRETRAINED, 1.0).phases(Recipe())[1].steps == 600
    (random,) = TableSetting("eqrm", RANDOM, -100.0).phases(Recipe())
    assert (random.steps, random.schedule, random.loss_scaling) == (600, "cosine", "none")
    scaled = TableSetting("eqrm", PRETRAINED, -100.0).phases(Recipe())[1]
    assert scaled.loss_scaling == "gradient-norm-ratio"
    plain = TableSetting("eqrm", PRETRAINED, -100.0).phases(Recipe(scaling=False))[1]
    assert plain.loss_scaling == "none"
    iga = TableSetting("iga", PRETRAINED, 50.0).objective()
    assert isinstance(iga, IGA)
    assert iga.penalty_weight == 100.0  # a sum over two domains in the published code
    assert set(GRIDS["paper"]) == set(GRIDS["published"]) == {method for method, _ in PAPER}


def result(setting: TableSetting, **accuracies: float) -> SettingResult:
    """A result with the same accuracies for two seeds, a point apart."""
    cost = BlockCost("block", 2, 10, 1e9, 1.0, "CPU", "none", 1e10)
    values = np.full((2, len(MEASURED)), 0.5)
    for name, value in accuracies.items():
        place = MEASURED.index(name.replace("_", " ").replace("point", "0."))
        values[:, place] = np.array([value - 0.5, value + 0.5]) / 100.0
    return SettingResult(setting, values, np.full((2, 2), 0.4), cost)


def test_each_rule_chooses_by_its_own_accuracies() -> None:
    honest = TableSetting("irm", PRETRAINED, 50.0)
    peeking = TableSetting("irm", PRETRAINED, 5000.0)
    results = {
        honest: result(honest, validation_point1=90, validation_point9=60, test_point9=65),
        peeking: result(peeking, validation_point1=70, validation_point9=69, test_point9=64),
    }
    findings = MnistFindings(TINY, results, {}, ())

    def chosen(rule: str) -> float:
        row = findings.row("paper", rule, "irm", PRETRAINED)
        assert row is not None
        return row.chosen.setting.value

    assert chosen(BY_TEST_DOMAIN) == 5000.0
    assert chosen(BY_TRAINING_DOMAINS) == 50.0
    assert chosen(BY_TEST_SET) == 50.0
    assert findings.flattery() == pytest.approx([1.0])
    assert findings.row("paper", BY_TEST_DOMAIN, "eqrm", PRETRAINED) is None
    row = findings.row("paper", BY_TEST_DOMAIN, "irm", PRETRAINED)
    assert row is not None
    assert row.std == pytest.approx(2**-0.5)
    assert row.distance == pytest.approx((64 - 69.7) / np.hypot(2**-0.5, 0.9))
    assert any("64.0 ± 0.7" in line for line in table_lines(findings))
    claims = {c.claim: c for c in check_mnist(findings, "full")}
    assert not claims["IRM, erm initialisation"].holds


@pytest.mark.parametrize(("changed", "holds"), [(69.0, True), (60.0, False)])
def test_a_change_of_the_recipe_may_explain_a_cell(changed: float, holds: bool) -> None:
    values = [TableSetting("irm", PRETRAINED, value) for value in TINY.grids["paper"]["irm"]]
    standard = {s: result(s, validation_point9=60, test_point9=60) for s in values}
    more_dropout = {values[0]: result(values[0], validation_point9=60, test_point9=changed)}
    findings = MnistFindings(TINY, standard, {"more dropout": more_dropout}, ())
    claims = {c.claim: c for c in check_mnist(findings, "full")}
    check = claims["IRM, erm initialisation"]
    assert check.holds is holds
    explained = "69.0 ± 0.7 (more dropout" if holds else "none of those tried"
    assert f"Explained by a change of the recipe: {explained}" in check.measured


def test_operations_are_those_of_the_products() -> None:
    small = dataclasses.replace(SMALL, depth=1, width=4)
    assert step_operations(small, 10, iga=False) == 2 * 10 * (2 * 392 * 4 + 3 * 4)
    assert step_operations(small, 10, iga=True) == 2 * 10 * (4 * 392 * 4 + 9 * 4)
