"""Backtests of measured risks: shares against plain numpy, and what is refused and said."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqrm
from eqrm.domains import NumberedDomains
from eqrm.errors import SettingError
from eqrm.evaluation import Backtest, backtest, quantile_bound, spell_bound
from eqrm.evaluation.backtesting.backtest import judged_backtest
from eqrm.evaluation.backtesting.plan import BacktestPlan, JudgedDomains
from eqrm.evaluation.backtesting.results import OrderedDomains, windows_of
from eqrm.evaluation.backtesting.words import backtest_content


def evaluation(risks: Any, names: Any = None, other: Any = None) -> eqrm.Evaluation:
    names = [f"day {i}" for i in range(len(risks))] if names is None else names
    losses = {"model": risks} if other is None else {"model": risks, "other": other}
    return eqrm.evaluate(domains=names, losses=losses)


def found_on(risks: Any, **settings: Any) -> Backtest:
    return backtest(evaluation(risks, list(range(len(risks)))), **settings)


def test_shares_are_those_of_plain_numpy() -> None:
    risks = np.random.default_rng(0).exponential(size=200)
    found = found_on(risks, certify=[40, 60], judge=20, gap=3, step=10, quantiles=[0.6, 0.9])
    assert len({row.window for row in found.shares if row.certify == 40}) == 14
    for row in found.shares:
        start = 10 * (row.window - 1)
        past = np.sort(risks[start : start + row.certify])
        later = risks[start + row.certify + 3 : start + row.certify + 23]
        bound = quantile_bound(past, row.level).bound
        assert row.bound == pytest.approx(bound)
        assert row.within == int((later <= bound).sum())
        assert row.share == row.within / 20
        assert (row.first, row.last) == (
            str(start + row.certify + 3),
            str(start + row.certify + 22),
        )
    for pooled in found.pooled:
        rows = [r for r in found.shares if (r.certify, r.level) == (pooled.certify, pooled.level)]
        assert pooled.within == sum(row.within for row in rows)
        assert pooled.lowest == min(row.share for row in rows)
        assert pooled.windows_below == sum(row.share < row.level for row in rows)


def test_every_kind_of_bound_is_the_one_that_its_function_gives() -> None:
    noise = np.random.default_rng(1).normal(size=321)
    risks = noise[1:] + noise[:-1]
    found = found_on(
        risks,
        certify=150,
        judge=40,
        quantiles=[0.9],
        bounds=["plain", "spells", "recent", "online"],
        dependence=1,
        half_life=40,
    )
    assert found.plan.kinds == ("plain", "spells", "recent", "online", "dependence=1")
    first = {row.kind: row for row in found.shares if row.window == 1}
    past, later = risks[:150], risks[150:190]
    assert first["spells"].bound == pytest.approx(spell_bound(past).bound)
    assert first["dependence=1"].bound == pytest.approx(quantile_bound(past, dependence=1).bound)
    recent = eqrm.evaluation.recent_bound(past, half_life=40)
    assert first["recent"].bound == pytest.approx(recent.bound)
    online = eqrm.OnlineBound()
    online.update_many(past)
    assert first["online"].within == 40 - int(online.update_many(later)[1].sum())
    assert first["plain"].expected == pytest.approx(quantile_bound(past).rank / 151)
    assert first["spells"].expected is None


def test_the_chance_of_a_share_below_the_level_is_that_of_simulated_domains() -> None:
    rng = np.random.default_rng(2)
    judged = JudgedDomains(np.zeros(20), np.zeros(20), rank=38, domains=40)
    draws = rng.random((4000, 60))
    bounds = np.sort(draws[:, :40], axis=1)[:, 37]
    shares = (draws[:, 40:] <= bounds[:, None]).mean(axis=1)
    assert judged.expected == pytest.approx(shares.mean(), abs=0.004)
    assert judged.chance_below(0.9) == pytest.approx((shares < 0.9 - 1e-9).mean(), abs=0.03)


def test_domains_are_sorted_by_their_times() -> None:
    rng = np.random.default_rng(5)
    risks, days = rng.normal(size=100), rng.permutation(100)
    names = [f"d{i:03d}" for i in range(100)]
    dates = np.datetime64("2013-01-01") + days
    measured = eqrm.evaluate(domains=names, losses={"model": risks}, order=dates)
    found = backtest(measured, certify=40, judge=20)
    assert found.domains.order == measured.order.name  # type: ignore[union-attr]
    given = backtest(evaluation(risks, names), times=dates, certify=40, judge=20)
    assert [row.within for row in given.shares] == [row.within for row in found.shares]
    again = found_on(risks[np.argsort(days)], certify=40, judge=20)
    assert [row.within for row in found.shares] == [row.within for row in again.shares]
    assert "The rows were not in the order of time: sorted by 'domains'." in found.notes
    assert "2013-01-01 to 2013-04-10" in str(found)
    assert again.notes == ()


def test_a_window_that_is_too_short_for_a_bound_is_named_with_the_number_needed() -> None:
    first = np.arange(100)
    last = first.copy()
    last[18:30] += 12  # twelve of the first thirty last into the next part
    times = np.concatenate([first, last])
    numbered = eqrm.evaluate(
        domains=np.tile([f"d{i:03d}" for i in first], 2), losses=np.zeros(200) + 0.5
    )
    plan = BacktestPlan.of(certify=30, judge=20, quantiles=[0.9])
    rows = NumberedDomains(np.tile(np.arange(100), 2), numbered.domains)
    ordered = OrderedDomains.of(rows, times, "date")
    windows = windows_of(plan, ordered)
    risks = {"model": numbered["model"].risks}
    found = judged_backtest(plan, ordered, windows, lambda w: risks, "loss")
    said = " ".join(found.notes)
    assert "Window 1: 18 domains to certify on are too few for the bound 'plain'" in said
    assert "at least 29 are needed" in said
    assert "domains last into the next part of a window" in said
    assert found.shares[0].refusal
    assert not found.shares[1].refusal


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"certify": 20}, ["20 domains to certify on", "at least 29 are needed"]),
        ({"certify": 60, "dependence": 1}, ["'dependence=1' at level 0.9", "71 are needed"]),
        ({"certify": 40, "bounds": ["spells"]}, ["'spells'", "at least 60 are needed"]),
        (
            {"certify": 60, "bounds": ["recent"], "half_life": 3.0},
            ["no number is enough: use a longer half_life"],
        ),
        (
            {
                "certify": 0,
                "judge": -1,
                "gap": -1,
                "step": 0,
                "bounds": ["spell"],
                "quantiles": [2],
            },
            [
                "certify must be",
                "judge must be",
                "gap must be",
                "step must be",
                "Did you mean 'spells'?",
                "level",
            ],
        ),
        ({"half_life": 5}, ["half_life is that of the bound 'recent'"]),
        ({"half_life": -5, "bounds": ["recent"]}, ["half_life must be"]),
        ({"refit": "evry-window"}, ["Did you mean 'every-window'?"]),
        ({"refit": "never", "expanding": True}, ["expanding has no effect"]),
        (
            {"confidence": 1.0, "quantiles": [], "certify": []},
            ["confidence must", "one level", "one"],
        ),
    ],
)
def test_settings_are_refused_all_at_once(settings: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SettingError) as caught:
        BacktestPlan.of(**settings)
    for word in words:
        assert word in str(caught.value)


def test_csv_json_picture_and_page_hold_the_same_shares(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    found = backtest(
        evaluation(rng.normal(size=150), list(range(150)), rng.normal(size=150)),
        certify=60,
        bounds=["plain", "online"],
    )
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [float(row["share"]) for row in rows] == [row.share for row in found.shares]
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [row["within"] for row in content["pooled"]] == [row.within for row in found.pooled]
    assert len(found.draw().axes) == 2
    path = tmp_path / "page.html"
    found.write_report(path, command="eqrm backtest <script>")
    page = path.read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "eqrm backtest <script>" not in page
    assert "{{" not in page
    data = backtest_content(found)
    held = [row.share for row in found.shares if (row.kind, row.level) == ("plain", 0.9)]
    assert [share for part in data["sizes"][0]["shares"] for share in part] == held
    assert repr(found) == "<Backtest: 2 models, 3 windows>"
    assert "online: adapted after every judged domain" in str(found)
    low = [row for row in found.pooled if (row.kind, row.level) == ("online", 0.9)]
    told = [f"{row.model} {100 * row.share:.1f}%" for row in low if row.share < 0.9]
    assert f"over all windows, bound 'online': {told[0]}" in str(found)
