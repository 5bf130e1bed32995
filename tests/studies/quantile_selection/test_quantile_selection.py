"""quantile-selection: hand-made records with known answers, checks, and a tiny run."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from studies.base import write_page
from studies.quantile_selection.checks import check_selection
from studies.quantile_selection.experiment import SplitRuns
from studies.quantile_selection.findings import (
    DEFAULTS,
    HINDSIGHT,
    MEAN,
    MEASURES,
    RANDOM,
    SelectionFindings,
    SplitSelection,
)
from studies.quantile_selection.presentation import (
    DRAWN,
    MAIN,
    advice,
    selection_answer,
    selection_tables,
)
from studies.quantile_selection.run import QuantileSelectionStudy
from studies.quantile_selection.settings import (
    EITHER,
    EQRM,
    ERM,
    LINEAR,
    WITH_ERM_PHASE,
    SelectionSettings,
)

from eqrm.errors import EqrmError
from eqrm.sweeps.records import RunRecord, read_record, record_path, recorded_runs
from eqrm.sweeps.sweep_folder import SweepFolder
from studies import swept as swept_module
from studies.quantile_selection import run as run_module
from sweeps.made_records import checkpoint, record
from sweeps.small_plans import HereEngine

SETTINGS = SelectionSettings(splits=2, steps=2)
EVEN, SPREAD = [1.0] * 10, [0.5] * 8 + [2.0] * 2
"""Risks of ten days: mean 1 and 0.9-quantile 1; mean 0.8 and 0.9-quantile 2."""


def days(kind: str, risks: Sequence[float]) -> dict[str, float]:
    return {f"{kind}-{number}": risk for number, risk in enumerate(risks)}


def made(
    objective: str,
    draw: int,
    validation: Sequence[float],
    unseen: Sequence[float],
    early: float = 1.0,
) -> RunRecord:
    """A run with two checkpoints; risks of the first are ``early`` times those of the second."""
    checkpoints = [
        checkpoint(
            step,
            validation_risks=days("v", [times * risk for risk in validation]),
            test_risks=days("t", [times * risk for risk in unseen]),
        )
        for step, times in ((1, early), (2, 1.0))
    ]
    run = record(*checkpoints, held_out=tuple(days("t", unseen)), draw=draw, objective=objective)
    return replace(run, settings=dict.fromkeys(DRAWN, draw + 1.0))


def split(
    erm: Sequence[RunRecord] = (), eqrm: Sequence[RunRecord] = (), linear: float = 1.0
) -> SplitRuns:
    """By the mean draw 1 is taken, by the 0.9-quantile draw 0: of ERM, and of EQRM."""
    runs = {
        name: tuple(own or (made(name, 0, EVEN, EVEN), made(name, 1, SPREAD, SPREAD)))
        for name, own in ((ERM, erm), (EQRM, eqrm))
    }
    return SplitRuns(
        runs, made(LINEAR, 0, [linear] * 10, [linear] * 10), 1 + sum(map(len, runs.values()))
    )


def findings(*splits: SplitRuns) -> SelectionFindings:
    return SelectionFindings(SETTINGS, splits or (split(), split()))


def test_the_rules_take_different_runs_and_are_measured_on_unseen_days() -> None:
    unseen = [0.4] * 8 + [3.0] * 2
    two = (made(ERM, 0, EVEN, [1.2] * 10), made(ERM, 1, SPREAD, unseen, early=2.0))
    found = SplitSelection(two)
    assert {rule: chosen.run.draw for rule, chosen in found.selected.items()} == {
        MEAN: 1,
        "0.5-quantile": 1,
        "0.9-quantile": 0,
        "0.95-quantile": 0,
    }
    assert found.selected[MEAN].checkpoint.step == 2
    assert found.selected[MAIN].checkpoint.step == 1  # equal scores go to the first
    # the mean of 0.4 (8 days) and 3 (2 days) is 0.92, the median 0.4, the 0.9-quantile 3
    np.testing.assert_allclose(found.unseen[MEAN], [0.92, 0.4, 3.0, 3.0])
    np.testing.assert_allclose(found.unseen[MAIN], [1.2] * 4)
    np.testing.assert_allclose(found.unseen[HINDSIGHT], [0.92, 0.4, 1.2, 1.2])
    np.testing.assert_allclose(found.unseen[RANDOM], [1.06, 0.8, 2.1, 2.1])
    np.testing.assert_allclose(found.unseen[DEFAULTS], [1.2] * 4)


def test_changes_are_paired_by_split_and_relative() -> None:
    first = (made(ERM, 0, EVEN, [1.5] * 10), made(ERM, 1, SPREAD, SPREAD))
    second = (made(ERM, 0, EVEN, [1.9] * 10), made(ERM, 1, SPREAD, SPREAD))
    found = findings(split(erm=first), split(erm=second))
    change = found.from_mean(ERM, MAIN, MAIN)
    assert change.mean == pytest.approx((1.5 / 2 - 1 + 1.9 / 2 - 1) / 2)
    # t(.975; 1) = 12.7062; the variance is multiplied by 1/2 + 0.4/0.6
    assert change.half == pytest.approx(12.7062 * np.sqrt(0.02 * (0.5 + 2 / 3)), rel=1e-4)
    assert change.word == "tie"
    assert found.agreement(ERM, MAIN) == (0, 0)
    assert found.agreement(ERM, "0.5-quantile") == (2, 2)


def test_where_both_objectives_compete_a_rule_chooses_the_objective() -> None:
    one = split(erm=[made(ERM, 0, SPREAD, SPREAD)], eqrm=[made(EQRM, 0, EVEN, EVEN)])
    found = findings(one, one)
    taken = {
        rule: [s.selected[rule].run.objective for s in found.selections[EITHER]]
        for rule in (MEAN, MAIN)
    }
    assert taken == {MEAN: [ERM, ERM], MAIN: [EQRM, EQRM]}
    assert found.from_mean(EITHER, MAIN, MAIN).mean == pytest.approx(-0.5)
    assert found.from_mean(EITHER, MAIN, MEAN).mean == pytest.approx(0.25)
    text = selection_answer(found)
    assert "-50.0% ± 0.0 (clearly lower) where the rule also chooses" in text
    assert "the mean takes EQRM in 0 of 2 splits, the 0.9-quantile in 2" in text
    assert "With EQRM at 0.9, selection does not help: the 0.9-quantile that it reaches, 1" in text
    assert "It costs +25.0% ± 0.0 in the mean" in text


def test_the_erm_phase_of_eqrm_is_a_group_of_its_own() -> None:
    """The mean takes the first checkpoint, which is ERM, unless that phase is left out."""
    better = [made(EQRM, draw, EVEN, EVEN, early=0.5) for draw in (0, 1)]
    one = split(eqrm=better)
    found = SelectionFindings(SelectionSettings(splits=2, steps=3), (one, one))
    steps = {
        group: found.selections[group][0].selected[MEAN].checkpoint.step
        for group in (EQRM, WITH_ERM_PHASE)
    }
    assert steps == {EQRM: 2, WITH_ERM_PHASE: 1}
    assert "the mean takes one of them in 2 of 2 splits" in selection_answer(found)


def test_advice_says_what_wins_what_loses_and_what_is_useless() -> None:
    low, wide = [0.3] * 10, [0.1] * 8 + [0.5] * 2
    lucky = (made(EQRM, 0, low, low), made(EQRM, 1, wide, wide))
    unlucky = (made(ERM, 0, low, [0.6] * 10), made(ERM, 1, wide, wide))
    useless = (made(ERM, 0, EVEN, EVEN), made(ERM, 1, SPREAD, SPREAD))
    one = split(erm=unlucky, eqrm=lucky)
    assert "With ERM, select by the mean." in advice(findings(one, one))
    assert "With EQRM at 0.9, select by the quantile" in advice(findings(one, one))
    two = split(erm=useless, eqrm=lucky)
    assert "1.000, is no lower than that of equal odds, 0.693" in advice(findings(two, two))
    assert "Selection does not replace the objective" in advice(findings(two, two))


def test_all_checks_hold_where_nothing_is_wrong() -> None:
    assert [check.holds for check in check_selection(findings())] == [True] * 6


def test_each_check_fails_where_its_claim_is_wrong() -> None:
    def failed(found: SelectionFindings) -> list[int]:
        return [place for place, each in enumerate(check_selection(found)) if not each.holds]

    lost = replace(split(), planned=6)
    assert failed(findings(split(), lost)) == [0]
    moving = (made(ERM, 0, EVEN, EVEN, early=1.5), made(ERM, 1, SPREAD, SPREAD, early=1.5))
    assert failed(findings(split(erm=moving), split())) == [1]
    wrong = findings()
    for each in wrong.selections[ERM]:
        each.unseen[HINDSIGHT] = np.full(len(MEASURES), 5.0)
    assert failed(wrong) == [2]
    assert failed(findings(split(linear=0.5), split(linear=0.5))) == [3]
    # the run that validation prefers by every measure is the worse one on unseen days
    misled = (made(ERM, 0, [0.1] * 10, [1.0] * 10), made(ERM, 1, EVEN, [0.5] * 10))
    assert failed(findings(split(erm=misled), split(erm=misled))) == [4]
    # the quantile takes a run that is worse than the mean's, but better than a random draw
    unlucky = (
        made(ERM, 0, EVEN, [2.2] * 10),
        made(ERM, 1, SPREAD, SPREAD),
        made(ERM, 2, [5.0] * 10, [5.0] * 10),
    )
    assert failed(findings(split(erm=unlucky), split(erm=unlucky))) == [5]


def test_a_run_that_cannot_be_judged_is_an_error() -> None:
    broken = replace(made(ERM, 1, EVEN, EVEN), checkpoints=())
    with pytest.raises(EqrmError, match="no checkpoint was recorded"):
        _ = SplitSelection((made(ERM, 0, EVEN, EVEN), broken)).selected


def test_tables_say_what_is_selected() -> None:
    shown = {table.name: table for table in selection_tables(findings())}
    rows = {(row[0], row[1]): list(row[2:]) for row in shown["taken"].rows}
    assert rows["ERM", MAIN][:5] == ["0 of 2", "0 of 2", "0 of 2", "1", "1"]
    assert rows["ERM", MEAN][3:5] == ["1", "2"]
    risks = {(row[0], row[1]): row[2:] for row in shown["risks"].rows}
    assert risks["ERM", MEAN] == [0.8, 0.5, 2.0, 2.0]
    assert (EITHER, DEFAULTS) not in risks
    assert len(shown["candidates"].rows) == 2 * 5 * 2
    assert len(shown["choices"].rows) == 4 * 4 * 2


PAGE = Path(__file__).parents[3] / "docs" / "reproductions" / "quantile-selection"


def test_the_page_says_what_its_stored_candidates_give() -> None:
    """Selection by hand: the lowest number in a column of validation, its number on unseen days."""
    with (PAGE / "candidates.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["objective"] == ERM]
    splits = {row["split"] for row in rows}
    assert (len(splits), len(rows)) == (10, 10 * 20 * 6)
    page = (PAGE / "README.md").read_text(encoding="utf-8")
    risks = page[page.index("## Risk") :]
    for rule in MEASURES:
        taken = [
            min((row for row in rows if row["split"] == split), key=lambda r: by(r, rule))
            for split in splits
        ]
        means = [
            np.mean([float(row[f"unseen {measure}"]) for row in taken]) for measure in MEASURES
        ]
        cells = " | ".join(f"{mean:.4g}" for mean in means)
        assert f"| ERM | {rule} | {cells} |" in risks


def by(row: dict[str, str], rule: str) -> float:
    return float(row[f"validation {rule}"])


TINY = SelectionSettings(
    dataset="coloured-digits",
    splits=1,
    draws=2,
    steps=9,
    checkpoints=3,
    batch_domains=8,
    batch_examples=(4, 8),
    largest_drift=10.0,
    tolerance=10.0,
)


def test_a_tiny_study_runs_and_continues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(run_module.SIZES, "quick", TINY)
    monkeypatch.setattr(  # worker processes take seconds to start
        swept_module, "LocalEngine", lambda path, workers: HereEngine(SweepFolder(path))
    )
    study = QuantileSelectionStudy()
    first = study.run(tmp_path, "quick")
    assert first.passed
    page = write_page(first, tmp_path / "page").read_text(encoding="utf-8")
    assert page.index("**Selected by the 0.9-quantile") < page.index("## Change on unseen days")
    assert "![" in page
    sweep, linear = tmp_path / "sweeps" / "split-0", tmp_path / "sweeps" / "split-0-linear"
    runs = list(recorded_runs(sweep))
    assert len(runs) == 4
    assert first.outcome.checks[0].measured == "5 of 5"
    before = {run: record_path(sweep, run).stat().st_mtime_ns for run in runs}
    (lone,) = recorded_runs(linear)
    for part in ("validation", "test"):  # linear ERM has the same domains
        assert domains_of(linear, lone, part) == domains_of(sweep, runs[0], part)
    assert len(domains_of(linear, lone, "test")) == 24

    second = study.run(tmp_path, "quick")
    assert second.outcome.tables == first.outcome.tables
    assert {run: record_path(sweep, run).stat().st_mtime_ns for run in runs} == before


def domains_of(folder: Path, run: str, part: str) -> set[str]:
    return set(read_record(folder, run).checkpoints[-1].risks[part])
