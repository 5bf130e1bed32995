"""The risk table: its numbers, intervals, rounding and formats."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from scipy import stats

import eqrm
from eqrm.errors import SettingError
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.rounding import decimals, rounded
from eqrm.risks import MeasuredRisks


def evaluation(*columns: np.ndarray, names: tuple[str, ...] = ("A", "B", "C")) -> eqrm.Evaluation:
    """Models with these risks on domains 0, 1, …, of 100 examples and variance 0.04."""
    return eqrm.Evaluation(
        {
            name: MeasuredRisks.of(
                range(len(risks)), np.full(len(risks), 100), risks, np.full(len(risks), 0.04)
            )
            for name, risks in zip(names, columns, strict=False)
        },
        "loss",
        None,
    )


def lognormal(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(-1, 0.5, size)


def values(table: RiskTable, kind: str, model: str = "A") -> list[float]:
    pairs = zip(table.statistics, table.cells[model], strict=True)
    return [cell.value for statistic, cell in pairs if statistic.kind == kind]


def test_values_are_those_of_numpy() -> None:
    risks = lognormal(183)
    table = evaluation(risks).risk_table()
    levels = [0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1]
    assert values(table, "mean") == pytest.approx([risks.mean()])
    worst = np.sort(lognormal(200))[::-1]
    beyond = evaluation(lognormal(200)).risk_table(superquantiles=[0.9, 0.95, 1])
    wanted = [worst[:20].mean(), worst[:10].mean(), worst[0]]
    assert values(beyond, "superquantile") == pytest.approx(wanted)
    wanted = np.quantile(risks, levels, method="inverted_cdf")
    assert values(table, "quantile") == pytest.approx(wanted)
    smooth = evaluation(risks).risk_table([0, 0.5, 0.9, 1], [], interpolation="smooth")
    expected = [risks.min(), *stats.mstats.hdquantiles(risks, [0.5, 0.9]), risks.max()]
    np.testing.assert_allclose(values(smooth, "quantile"), expected, rtol=1e-9)
    linear = evaluation(risks).risk_table(interpolation="linear")
    assert values(linear, "quantile") == pytest.approx(np.quantile(risks, levels))


@pytest.mark.unmeasured
@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_intervals_of_quantiles_hold_as_often_as_they_say(alpha: float) -> None:
    law = stats.lognorm(0.5, scale=np.exp(-1))
    inside = []
    for seed in range(200):
        risks = law.rvs(100, random_state=seed)
        table = evaluation(risks).risk_table([alpha], [])
        cell = table.cells["A"][1]
        assert cell.low is not None
        assert cell.high is not None
        inside.append(cell.low <= law.ppf(alpha) <= cell.high)
    assert np.mean(inside) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 200)


def test_intervals_of_means_have_the_width_of_the_central_limit() -> None:
    risks = lognormal(1000)
    mean, _, beyond = evaluation(risks).risk_table([0.5], [0.9]).cells["A"]
    excess = np.maximum(risks - np.quantile(risks, 0.9), 0) / 0.1
    for cell, spread in ((mean, risks.std()), (beyond, excess.std())):
        assert cell.low is not None
        assert cell.high is not None
        assert cell.low < cell.value < cell.high
        assert 1.0 < (cell.high - cell.low) / (2 * 1.96 * spread / 1000**0.5) < 1.3


def test_few_domains_leave_ends_open() -> None:
    table = evaluation(lognormal(8)).risk_table([0.5, 0.99, 1], [0.9])
    mean, median, high, largest, beyond = table.cells["A"]
    assert mean.high is None
    assert (median.low, median.high) == (lognormal(8).min(), lognormal(8).max())
    assert high.high is None
    assert (largest.low, largest.high) == (None, None)
    assert beyond.high is None
    assert high.interval.endswith(", ?]")
    assert largest.interval == ""


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (0.827, 0.119, "0.83"),
        (0.827, 0.367, "0.8"),
        (0.8273, 0.0009, "0.8273"),
        (0.82734, 0.000967, "0.8273"),
        (14832.0, 120.0, "14830"),
        (14832.0, 500.0, "14800"),
        (0.0, 0.01, "0.000"),
        (-0.0004, 0.04, "0.00"),
        (1.2345678, None, "1.23"),
        (123456.0, None, "123000"),
        (1.0, float("nan"), "1.00"),
    ],
)
def test_numbers_keep_the_digits_that_their_error_leaves(
    value: float, error: float | None, shown: str
) -> None:
    assert rounded(value, decimals(value, error)) == shown


def test_csv_holds_all_digits() -> None:
    table = evaluation(lognormal(100), lognormal(100, 1), names=('a"b,c', "B")).risk_table()
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert len(rows) == 2 * len(table.statistics)
    for row, cell in zip(rows, [c for cells in table.cells.values() for c in cells], strict=True):
        assert float(row["value"]) == cell.value
        assert row["low"] == ("" if cell.low is None else repr(cell.low))
    assert rows[0]["model"] == 'a"b,c'


def test_latex_has_the_columns_of_the_paper() -> None:
    table = evaluation(lognormal(48), lognormal(48, 1) / 2, names=("ERM", "EQRM_{0.9}%"))
    text = table.risk_table([0, 0.25, 0.5, 0.75, 0.9, 0.99, 1], []).to_latex()
    lines = text.splitlines()
    assert lines[:2] == [r"\begin{tabular}{lcccccccc}", r"\toprule"]
    assert r"\multicolumn{7}{c}{Quantile risk} \\ \cmidrule(lr){3-9}" in lines[2]
    assert lines[3:5] == [r"&  & 0 & 0.25 & 0.5 & 0.75 & 0.9 & 0.99 & 1 \\", r"\midrule"]
    assert lines[6].startswith(r"EQRM\_\{0.9\}\% & \textbf{")
    assert lines[6].count(r"\textbf{") == 8
    assert all(lines[i].count("&") == 8 for i in (3, 5, 6))


def test_markdown_escapes_names() -> None:
    text = evaluation(lognormal(9), names=("<b>|*x*",)).risk_table().to_markdown()
    header, rule, row = text.splitlines()
    assert r"\<b>\|\*x\*" in row
    assert rule.count("---") == 1 + header.count("|") - 2
    assert row.replace(r"\|", "").count("|") == header.count("|")


def test_text_is_aligned_whatever_the_names() -> None:
    names = ("日本語😀", "x" * 10_000, "a\nb\x1b[31m")
    table = evaluation(lognormal(40), lognormal(40, 1), lognormal(40, 2), names=names).risk_table()
    text = table.to_text()
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) < 250
    flat = table.to_text(intervals=False).splitlines()
    assert flat[1].startswith("model")
    assert flat[4].startswith("a b ")


def test_wrong_settings_are_refused() -> None:
    found = evaluation(lognormal(9))
    with pytest.raises(eqrm.errors.LevelError):
        found.risk_table([1.5])
    with pytest.raises(eqrm.errors.SettingError, match="confidence"):
        found.risk_table(confidence=95)
    with pytest.raises(SettingError, match=r"worst must be an integer of at least 0, got 2\.5"):
        found.risk_table(worst=2.5)  # type: ignore[arg-type]
    with pytest.raises(eqrm.errors.SettingError, match="interpolation"):
        found.risk_table(interpolation="cubic")
    with pytest.raises(eqrm.errors.SettingError, match="Unknown model 'D'"):
        found["D"]


def test_an_open_interval_gives_no_false_digits() -> None:
    """The .99-quantile of 40 domains is the largest risk, and the next lies 1e-6 below it."""
    rng = np.random.default_rng(0)
    means = [*rng.uniform(0.1, 0.5, 38), 0.7, 0.700001]
    domains = np.repeat(np.arange(40), 20)
    losses = np.repeat(means, 20) + np.tile([-0.2, 0.2], 400)
    cell = eqrm.evaluate(domains=domains, losses=losses).risk_table(0.99, []).cells["model"][1]
    assert cell.high is None
    assert cell.text == "0.70"
