"""Tables of records made by hand, with numbers worked out by hand; missing runs are named."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from eqrm.errors import DomainDataError
from eqrm.sweeps import sweep_tables
from eqrm.sweeps.records import RunRecord
from eqrm.sweeps.selection import OracleSelection, QuantileSelection, TrainingDomainValidation
from eqrm.sweeps.tables.cells import SweepTable, SweepTables
from eqrm.sweeps.tables.grid import dataset_grids
from eqrm.sweeps.tables.tabulating import TableSettings
from sweeps.made_records import checkpoint, record

DOMAINS = ("a", "b")
IID = {"training-domain": TrainingDomainValidation()}


def run(
    held_out: str, trial: int, value: float, draw: int = 0, score: float = 0.5, **place: str
) -> RunRecord:
    """A run on two domains whose test accuracy is ``value``, and its risk 1 − value."""
    (other,) = set(DOMAINS) - {held_out}
    found = checkpoint(
        10,
        validation={other: score, held_out: value},
        test={held_out: value},
        validation_risks={other: 1 - score, held_out: 1 - value},
        test_risks={held_out: 1 - value},
    )
    return record(found, held_out=(held_out,), draw=draw, trial=trial, **place)


def texts(table: SweepTable) -> dict[str, list[str]]:
    return {row.label: [cell.text for cell in row.cells] for row in table.rows}


def only(found: SweepTables, kind: str = "accuracy") -> SweepTable:
    (table,) = [table for table in found.tables if table.kind == kind]
    return table


def test_cells_are_means_over_trials_with_standard_errors() -> None:
    records = [run("a", 0, 0.5), run("a", 1, 0.7), run("b", 0, 0.6), run("b", 1, 0.8)]
    table = only(sweep_tables(records, IID))
    # a: mean .6, deviations ±.1, s/√2 = .0707; averages of the trials: .55 and .75
    assert table.columns == ("a", "b", "average")
    assert texts(table) == {"erm": ["60.0 ± 7.1", "70.0 ± 7.1", "65.0 ± 7.1"]}
    assert table.rows[0].cells[0].error == pytest.approx(0.1 / math.sqrt(2), rel=1e-14)


def test_each_rule_reports_what_it_selects_and_the_list_says_which_run() -> None:
    records = [
        *(run("a", 0, 0.5, draw=0, score=0.9), run("a", 0, 1.0, draw=1, score=0.1)),
        *(run("b", 0, 0.5, draw=0, score=0.9), run("b", 0, 1.0, draw=1, score=0.1)),
    ]
    found = sweep_tables(records, {**IID, "oracle": OracleSelection()})
    accuracies = {t.rule: texts(t)["erm"] for t in found.tables if t.kind == "accuracy"}
    assert accuracies == {"training-domain": ["50.0"] * 3, "oracle": ["100.0"] * 3}
    first = found.selected[0]
    assert (first.held_out, first.draw, first.step, first.score) == ("a", 0, 10, 0.9)
    assert (first.value, first.run) == (0.5, "toy-erm-a-0-0")
    assert {each.draw for each in found.selected if each.rule == "oracle"} == {1}


def test_a_missing_draw_is_named_and_its_cell_marked() -> None:
    records = [run(d, 0, 0.5, draw=i) for d in DOMAINS for i in range(3)]
    del records[1]
    found = sweep_tables(records, IID)
    assert found.missing == ("toy, erm, held out a, trial 0: draw 1",)
    assert texts(only(found)) == {"erm": ["50.0†", "50.0", "50.0†"]}


def test_a_trial_without_all_held_out_domains_does_not_count_in_the_average() -> None:
    records = [run("a", 0, 0.5), run("a", 1, 0.7), run("b", 0, 0.6)]
    found = sweep_tables(records, IID)
    assert found.missing == ("toy, erm, held out b, trial 1: draw 0",)
    assert texts(only(found)) == {"erm": ["60.0 ± 7.1", "60.0†", "55.0†"]}
    assert [cell.trials for cell in only(found).rows[0].cells] == [2, 1, 1]


def test_two_records_of_one_place_are_refused() -> None:
    with pytest.raises(DomainDataError, match="are both draw 0, trial 0 of erm on toy"):
        sweep_tables([run("a", 0, 0.5), run("a", 0, 0.6)])


def test_runs_that_hold_out_one_domain_more_are_no_column_and_their_absence_is_named() -> None:
    pairs = [record(held_out=held, trial=t) for held in (("a", "b"), ("b", "c")) for t in (0, 1)]
    singles = [record(held_out=(d,), trial=t) for d in "abc" for t in (0, 1)]
    (grid,) = dataset_grids([*singles, *pairs[:-1]])
    assert list(grid.columns.values()) == ["a", "b", "c"]
    assert grid.missing_lines() == ["toy, erm, held out b + c, trial 1: draw 0"]
    candidates = grid.candidates("erm", frozenset("b"), 0)
    assert set(candidates.validating[0]) == {"a", "c"}
    assert set(grid.candidates("erm", frozenset("b"), 1).validating[0]) == {"a"}


def test_a_dataset_without_accuracies_is_judged_and_reported_by_risk() -> None:
    def of_risks(held_out: str, draw: int, validation: float, test: float) -> RunRecord:
        other = "b" if held_out == "a" else "a"
        measured = checkpoint(0, validation_risks={other: validation}, test_risks={held_out: test})
        return record(measured, held_out=(held_out,), draw=draw)

    records = [of_risks(d, i, 1.0 - i / 2, 2.0 + i) for d in DOMAINS for i in (0, 1)]
    table = only(sweep_tables(records, IID), "risk")
    assert texts(table) == {"erm": ["3.00", "3.00", "3.00"]}  # draw 1 has the lower validation risk


def test_quantile_tables_are_of_all_held_out_domains_of_a_trial() -> None:
    names = [f"day {i}" for i in range(10)]
    runs = []
    for trial, scale in ((0, 1.0), (1, 3.0)):
        for half in (names[:5], names[5:]):
            test = {name: scale * (1 + names.index(name)) for name in half}
            kept = {name: 0.5 for name in names if name not in half}
            measured = checkpoint(0, validation_risks=kept, test_risks=test)
            runs.append(record(measured, held_out=tuple(half), trial=trial))
    rules = {"quantile": QuantileSelection()}
    table = only(sweep_tables(runs, rules, TableSettings(quantiles=(0, 0.9, 1))), "quantiles")
    # risks 1…10 and 3…30: means 5.5 and 16.5, smallest 1 and 3, .9-quantiles 9 and 27
    assert table.columns == ("mean", "0", "0.9", "1")
    cells = table.rows[0].cells
    assert [cell.value for cell in cells] == [11.0, 2.0, 18.0, 20.0]
    assert [cell.error for cell in cells] == pytest.approx(
        [5.5 / 2**0.5, 1 / 2**0.5, 9 / 2**0.5, 10 / 2**0.5], rel=1e-12
    )
    held = only(sweep_tables(runs, rules), "risk").columns
    assert held == ("day 0 + 4 more", "day 5 + 4 more", "average")


def test_averages_over_datasets_are_means_of_the_datasets_averages() -> None:
    records = [run(d, 0, 0.5) for d in DOMAINS]
    records += [run(d, 0, 0.7, dataset="other") for d in DOMAINS]
    records += [run(d, 0, 0.9, objective="irm") for d in DOMAINS]
    table = only(sweep_tables(records, IID), "averages")
    assert table.columns == ("other", "toy", "average")
    assert texts(table) == {"erm": ["70.0", "50.0", "60.0"], "irm": ["–†", "90.0", "–†"]}


def test_a_rule_that_can_judge_nothing_has_no_table_and_says_why() -> None:
    found = sweep_tables([run("a", 0, 0.5), run("b", 0, 0.5)])
    assert {table.rule for table in found.tables} == {"training-domain", "oracle", "quantile"}
    (line,) = found.unjudged
    assert line.startswith("toy, leave-one-domain-out: 2 runs not judged or reported: no run with")


def test_a_selected_run_without_all_test_values_is_named() -> None:
    partly = checkpoint(0, {"x": 1.0}, {"a": 0.5})
    found = sweep_tables([record(partly, held_out=("a", "b"))], IID)
    assert texts(only(found)) == {"erm": ["–†", "–†"]}
    assert found.unjudged == (
        "toy, training-domain validation: 1 run not judged or reported: selected, but without "
        "test accuracy of every held-out domain (runs 'toy-erm-a+b-0-0')",
    )


def test_published_numbers_stand_below_those_of_the_sweep() -> None:
    names = ("art_painting", "cartoon", "photo", "sketch")
    records = []
    for name in names:
        kept = {other: 0.5 for other in names if other != name}
        measured = checkpoint(0, validation=kept, test={name: 0.5})
        records.append(record(measured, held_out=(name,), dataset="pacs", objective="eqrm"))
    table = only(sweep_tables(records, IID))
    assert texts(table) == {
        "eqrm": ["50.0"] * 5,
        "EQRM (paper)": ["86.5 ± 0.4", "82.1 ± 0.7", "96.6 ± 0.2", "80.8 ± 0.2", "86.5"],
    }
    labelled = [replace(each, objective="eqrm .9") for each in records]
    assert list(texts(only(sweep_tables(labelled, IID)))) == ["eqrm .9", "EQRM (paper)"]
    three = only(sweep_tables(records[1:], IID))
    assert texts(three)["EQRM (paper)"] == ["82.1 ± 0.7", "96.6 ± 0.2", "80.8 ± 0.2", ""]
    assert list(texts(only(sweep_tables(records, IID, TableSettings(published=False))))) == ["eqrm"]
