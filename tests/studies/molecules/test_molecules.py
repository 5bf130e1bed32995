"""The reproduction of molecules: its baselines, and all of it on a small table of molecules."""

from __future__ import annotations

import csv
import gzip
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from studies.molecules.baselines import (
    CONSTANT,
    SHIFTS,
    _base_logits,
    baselines_of,
    best_shift,
    constants_of,
    shifted_label,
)
from studies.molecules.findings import Chosen, DatasetFindings
from studies.molecules.run import _outcome
from studies.molecules.settings import (
    CONTINUED,
    ERM,
    JUDGED,
    SIZES,
)
from studies.molecules.tables import (
    mean_and_error,
    molecules_answer,
    molecules_checks,
)
from studies.registry import new_study
from studies.swept import FinishedSweep
from torch import nn

from eqrm.data.domain_data import DomainData
from eqrm.errors import DataFileError, EqrmError
from eqrm.predictors.base import Predictor
from eqrm.risks import MeasuredRisks
from eqrm.sweeps.records import Checkpoint, RunRecord, SplitMetric
from eqrm.training.runs.run_data import RunData

RINGS = ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNCC1", "c1ccoc1", "c1ccsc1", "C1CCOC1")
LINKS = ("", "C", "CC", "O", "N", "CCC", "CO", "S")
ENDS = ("", "C", "Cl", "O")
TASKS = ("one", "two", "three")
TABLES = tuple(
    f"tox21-{name}" for name in ("noise", "own-levels", "quantiles", "true-quantiles", "learned")
)


def small_data(domains: int, examples: int, seed: int = 0) -> DomainData:
    """Labels with a rate of their own in each domain; one input, which says nothing."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.arange(domains).repeat_interleave(examples)
    rates = torch.rand(domains, generator=draw)[ids]
    y = (torch.rand(len(ids), generator=draw) < rates).float()[:, None]
    return DomainData(
        torch.zeros(len(ids), 1), y, ids, tuple(f"{seed}-{i}" for i in range(domains))
    )


def network() -> Predictor:
    made = Predictor(nn.Identity(), nn.Linear(1, 1), loss="binary-cross-entropy")
    nn.init.constant_(made.head.bias, 2.0)  # type: ignore[arg-type]
    return made


def test_a_shift_minimises_the_quantile_over_the_domains_it_is_fitted_on() -> None:
    data = small_data(40, 25)
    logits = torch.full((len(data), 1), 2.0, dtype=torch.float64)
    rates = data.y.reshape(40, 25).double().mean(1).numpy()

    def quantile(shift: float) -> float:
        p = 1.0 / (1.0 + np.exp(-2.0 - shift))
        risks = -rates * np.log(p) - (1.0 - rates) * np.log1p(-p)
        return float(np.quantile(risks, 0.9, method="inverted_cdf"))

    expected = min(SHIFTS.tolist(), key=quantile)
    assert best_shift(logits, data, 0.9) == pytest.approx(expected, abs=1e-6)


def test_the_baselines_are_a_shifted_network_and_the_rates_of_the_training_data() -> None:
    train, validation, test = (small_data(30, 20, seed) for seed in range(3))
    data = RunData(train, {"validation": validation, "test": test})
    assert list(baselines_of(network(), data)) == [*map(shifted_label, JUDGED)]
    found = constants_of(data)
    assert list(found) == [CONSTANT, *(shifted_label(level, CONSTANT) for level in JUDGED)]
    rate = (float(train.y.sum()) + 0.5) / (len(train) + 1.0)
    rates = test.y.reshape(30, 20).double().mean(1).numpy()
    expected = dict(
        zip(test.names, -rates * np.log(rate) - (1 - rates) * np.log1p(-rate), strict=True)
    )
    risks = dict(zip(found[CONSTANT].domains, found[CONSTANT].risks, strict=True))
    assert risks == pytest.approx(expected, rel=1e-6)
    # A network whose logits are all equal is, once it is shifted, the shifted constant.
    for level in JUDGED:
        base = float(_base_logits(train.y))
        at = base + best_shift(torch.full_like(validation.y, base).double(), validation, level)
        p = 1.0 / (1.0 + np.exp(-at))
        own = -rates * np.log(p) - (1 - rates) * np.log1p(-p)
        assert sorted(found[shifted_label(level, CONSTANT)].risks) == pytest.approx(sorted(own))


def found(lower: float, noise: float) -> DatasetFindings:
    """Two trials in which EQRM's risks are lower than ERM's by a factor."""
    settings = SIZES["quick"]
    made = DatasetFindings("tox21", settings, [], Path("nowhere"), {})
    draw = np.random.default_rng(0)
    names, counts = [f"s{i}" for i in range(200)], np.full(200, 25)
    true = draw.gamma(4.0, 0.1, 200)
    for trial, method in product(range(settings.trials), made.methods):
        factor = 1.0 if method in (ERM, CONTINUED) else lower
        risks = factor * (true + noise * draw.normal(0.0, 0.2, 200))
        variances = np.full(200, 25.0 * (0.2 * noise) ** 2 + 1e-9)
        metrics = {"test": {"roc-auc": SplitMetric(0.75, {})}}
        checkpoint = Checkpoint(1, {}, {}, metrics)
        record = RunRecord("run", "tox21", method, ("s0",), 0, trial, {}, (checkpoint,))
        measured = MeasuredRisks.of(names, counts, risks, variances)
        made.chosen[method, trial] = Chosen(record, measured)
        made.beside = {
            **made.beside,
            trial: {shifted_label(level): measured for level in JUDGED},
        }
    return made


@pytest.mark.parametrize(
    ("lower", "noise", "holds"), [(0.5, 0.1, True), (1.5, 0.1, False), (1.5, 5.0, True)]
)
def test_eqrm_must_be_lower_unless_noise_is_most_of_the_spread(
    lower: float, noise: float, holds: bool
) -> None:
    findings = found(lower, noise)
    checks = molecules_checks(findings)
    assert [check.holds for check in checks] == [holds] * len(JUDGED)
    assert all(each < 0.0 for each in findings.differences(0.9)) == (lower < 1.0)
    words = "lower than ERM's in every trial" if lower < 1.0 else "lower than ERM's in 0 of 2"
    answer = molecules_answer(findings)
    assert words in answer
    means = {n: np.mean(findings.true_quantiles(n, 0.99)) for n in findings.all_names()}
    best = min(means, key=lambda name: means[name])
    lowest = f"the lowest is {means[best]:.3g}, of {best}"
    if best == "EQRM α=0.99":
        lowest = f"it is the lowest of all ({means[best]:.3g})"
    assert f"{lowest}." in answer


def test_the_outcome_has_tables_and_a_picture_once_every_run_is_finished() -> None:
    findings = found(0.5, 0.1)
    records = [each.record for each in findings.chosen.values()]
    done = FinishedSweep(records, len(records), [], [(0.0, 1.0)])
    outcome = _outcome(SIZES["quick"], "cpu", [done], [findings])
    assert [table.name for table in outcome.tables] == list(TABLES)
    quantiles = outcome.tables[2]
    assert [row[0] for row in quantiles.rows] == findings.all_names()
    erm = findings.trials(ERM)
    expected = [float(np.quantile(each.risks, 0.9, method="inverted_cdf")) for each in erm]
    assert quantiles.rows[0][6] == mean_and_error(expected)
    assert outcome.tables[4].rows[0][1:3] == ["", "0.75 ± 0"]
    assert len(outcome.pictures) == 1
    assert len(outcome.pictures[0].draw().axes[0].lines) == 4 * 3
    waiting = FinishedSweep(records, len(records) + 1, ["eqrm-0, run x: no memory"], [])
    unfinished = _outcome(SIZES["quick"], "cpu", [waiting], [findings])
    assert (list(unfinished.tables), unfinished.answer) == ([], "")
    assert unfinished.remarks[-1] == "eqrm-0, run x: no memory"


@pytest.fixture
def few_molecules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in the place of Tox21's, of molecules with some hundred scaffolds."""
    pytest.importorskip("rdkit")
    draw = np.random.default_rng(0)
    folder = tmp_path / "data" / "molecules"
    folder.mkdir(parents=True)
    with gzip.open(folder / "tox21.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*TASKS, "smiles"])
        for a, link, b, end in product(RINGS, LINKS, RINGS, ENDS):
            labels = [str(int(draw.random() < 0.3)) if draw.random() < 0.7 else "" for _ in TASKS]
            labels[0] = labels[0] or "0"
            writer.writerow([*labels, f"{a}{link}{b}{end}"])
    monkeypatch.setenv("EQRM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EQRM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_all_of_it_on_a_small_table_also_continued_elsewhere(few_molecules: Path) -> None:
    study = new_study("molecules", device="cpu")
    report = study.run(Path("out"), "quick")
    assert report.outcome.checks[0].holds
    tables = {table.name: table for table in report.outcome.tables}
    assert tuple(tables) == TABLES
    methods = [row[0] for row in tables["tox21-quantiles"].rows]
    assert methods[0] == ERM
    constant = [CONSTANT, *(shifted_label(level, CONSTANT) for level in JUDGED)]
    assert methods[-5:] == [*constant, *map(shifted_label, JUDGED)]
    assert len(methods) == 1 + len(SIZES["quick"].later_methods()) + 5
    assert "sampling noise is" in report.outcome.answer
    # Somewhere else, with an unfinished run and without the baselines: the same table.
    shutil.copytree("out", "elsewhere/out")
    shutil.rmtree("out")
    elsewhere = Path("elsewhere/out/sweep/tox21")
    unfinished = sorted((elsewhere / "eqrm-1/runs").iterdir())[0]
    shutil.rmtree(unfinished)
    (elsewhere / "baselines-0.json").unlink()
    shutil.move("elsewhere/out", "out")
    again = new_study("molecules", device="auto").run(Path("out"), "quick")
    assert [t.rows for t in again.outcome.tables] == [t.rows for t in report.outcome.tables]
    # Baselines of another run are not taken for those of this one.
    swapped = Path("out/sweep/tox21")
    shutil.copy(swapped / "baselines-0.json", swapped / "baselines-1.json")
    again = new_study("molecules", device="auto").run(Path("out"), "quick")
    assert [t.rows for t in again.outcome.tables] == [t.rows for t in report.outcome.tables]
    # A record of another sweep is not counted.
    stray = next((swapped / "eqrm-1").glob("runs/*"))
    shutil.copytree(stray, swapped / "eqrm-0/runs" / stray.name)
    again = new_study("molecules", device="auto").run(Path("out"), "quick")
    assert again.outcome.checks[0].measured == "16 of 16"
    shutil.rmtree(swapped / "eqrm-0/runs" / stray.name)
    # Damaged risks are said to be.
    risks = next((swapped / "eqrm-0").glob("runs/*/risks.parquet"))
    content = risks.read_bytes()
    risks.write_bytes(content[:100])
    with pytest.raises(DataFileError, match=r"risks.parquet is damaged .* train it again"):
        new_study("molecules", device="auto").run(Path("out"), "quick")
    risks.write_bytes(content)
    # Runs name those that they begin from by their paths.
    shutil.copytree("out", "other")
    with pytest.raises(EqrmError, match=r"begin with the weights in out/.*, now other/"):
        new_study("molecules", device="auto").run(Path("other"), "quick")
    # Once all is finished, no data is needed; if a run is missing, it is.
    shutil.rmtree(few_molecules / "data" / "molecules")
    again = new_study("molecules", device="auto").run(Path("out"), "quick")
    assert [t.rows for t in again.outcome.tables] == [t.rows for t in report.outcome.tables]
    shutil.rmtree(sorted(Path("out/sweep/tox21/eqrm-1/runs").iterdir())[0])
    with pytest.raises(DataFileError, match="lacks molecules/tox21"):
        new_study("molecules", device="auto").run(Path("out"), "quick")
