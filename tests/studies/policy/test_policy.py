"""The study of decisions: what it counts, its checks, and tables that are not played again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from studies.policy.experiment import Case, play, read_tables, write_tables
from studies.policy.run import Policy, checks_of
from studies.policy.summary import Played
from studies.policy.worlds import KINDS

CHOSEN, PLAIN = "logistic, trained for 9 in 10", "logistic, plain"


def record(kind: str = KINDS[2].name, table: int = 100, **changes: Any) -> dict[str, Any]:
    """A table on which everything is as promised, but for some changes."""
    given = {"quantile": 0.8, "mean": 0.62, "auc": 0.7, "low": -0.3, "bound": 0.85, **changes}
    return {
        "kind": kind,
        "domains": given.get("domains", 60),
        "table": table,
        "rows": given.get("rows", 60),
        "fresh": 2_000,
        "bound": given["bound"],
        "decision": {
            "chosen": CHOSEN,
            "plain": PLAIN,
            "rival": None,
            "sureness": given.get("sureness", "clear"),
            "low": given["low"],
            "high": -0.1,
        },
        "models": {
            CHOSEN: {"quantile": given["quantile"], "mean": given["mean"], "auc": given["auc"]},
            PLAIN: {"quantile": 1.0, "mean": 0.6, "auc": 0.71},
        },
    }


def failed(*records: dict[str, Any]) -> set[str]:
    """The claims that do not hold for these tables."""
    played = [Played(each) for each in records]
    main = [each for each in played if each.record["rows"] != 40]
    found = checks_of(main, [each for each in played if each.record["rows"] == 40])
    return {check.claim for check in found if not check.holds}


def test_all_checks_hold_for_what_is_promised() -> None:
    assert failed(record(), record(rows=40)) == set()


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"quantile": 0.95}, f"{KINDS[2].name}, 60 domains"),
        ({"quantile": 1.02}, "worse than plain training"),
        ({"quantile": 1.02}, "mean regret"),
        ({"quantile": 1.05}, "regret of the worst kind"),
        ({"quantile": 1.02}, "'clear' is right"),
        ({"quantile": 1.02, "sureness": "likely"}, "'likely' is right"),
        ({"mean": 0.67}, "price of the dearest kind"),
        ({"low": -0.15}, "the interval of the change holds in every kind"),
        ({"bound": 0.79}, "the cross-fitted bound holds in every kind"),
        ({"rows": 40, "auc": 0.67}, "random intercept, 50 x 40: AUC below plain"),
    ],
)
def test_each_check_fails_where_its_promise_is_broken(changes: dict[str, Any], claim: str) -> None:
    usual = [record()] if "rows" in changes else []
    assert claim in failed(*usual, record(**changes))


def test_tables_survive_their_file_with_six_digits(tmp_path: Path) -> None:
    records = [record(table=101), record(quantile=0.123456789)]
    write_tables(tmp_path / "tables.jsonl.xz", records)
    found = read_tables(tmp_path / "tables.jsonl.xz")
    case = Case(KINDS[2].name, 60, 101)
    assert found[case.stem] == records[0]
    assert Played(found[Case(KINDS[2].name, 60, 100).stem]).chosen == 0.123457
    assert read_tables(tmp_path / "absent.jsonl.xz") == {}
    assert list(play([case], tmp_path / "tables", 1, print, found)) == [records[0]]


def test_only_so_many_tables_are_played_and_the_others_are_counted(tmp_path: Path) -> None:
    study = Policy(most=1)
    remarks = study.run(tmp_path, "quick").outcome.remarks
    assert len(list((tmp_path / "tables").glob("*.json"))) == 1
    assert remarks[0].startswith("Not played yet: 2 of 3 tables; of each kind and size at least 0")
    study.most = 0
    assert study.run(tmp_path, "quick").outcome.remarks == remarks
