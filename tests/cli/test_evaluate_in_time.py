"""``eqrm evaluate`` of domains in the order of time: the order test, and the bounds that apply."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.commands import called, printed_by, refused
from eqrm import Evaluation
from eqrm.evaluation import order_test, quantile_bound, recent_bound, spell_bound

DAYS = 240


def spells(seed: int = 0) -> pd.DataFrame:
    """A loss per shop; shops are named at random, and neighbours in time have similar losses."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=DAYS + 2)
    day = np.datetime64("2013-01-01") + np.arange(DAYS)
    loss = 0.3 + 0.05 * (noise[2:] + noise[1:-1] + noise[:-2])
    name = [f"shop {number:03d}" for number in rng.permutation(DAYS)]
    days = pd.Series(day.astype(str))
    return pd.DataFrame({"shop": name, "day": days, "month": days.str[:7], "loss": loss})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "losses.csv"
    spells().sample(frac=1, random_state=0).to_csv(path, index=False)
    return str(path)


def test_an_order_column_gives_the_test_and_every_bound_in_text_json_and_report(
    file: str, tmp_path: Path
) -> None:
    risks = spells().loss.to_numpy()
    command = ["evaluate", file, "--domain", "shop", "--loss", "loss", "--order", "day"]
    asked = ["--dependence", "2", "--spells", "--recent", "30"]
    report = tmp_path / "r.html"
    code, out, _ = called(*command, *asked, "--report", str(report))
    assert code == 0
    bounds = {
        "dependence": quantile_bound(risks, 0.9, 0.95, dependence=2),
        "spells": spell_bound(risks, 0.9, 0.95),
        "recent": recent_bound(risks, 0.9, 30.0),
    }
    page = report.read_text(encoding="utf-8")
    for name, bound in bounds.items():
        assert f"In time ({name}): {bound.sentence}" in out
        assert bound.sentence in page
    plain = quantile_bound(risks)
    test = order_test(risks)
    assert test.rejected == "serial"
    assert (
        f"{plain.sentence} The order test rejects this (p = {test.p_value:.2g}): the bound that "
        "applies is the one for dependent domains (eqrm evaluate --dependence K where K is "
        "known, or --spells)."
    ) in out
    _, out, _ = called(*command, *asked, "--format", "json")
    content = json.loads(out)
    for name, bound in bounds.items():
        assert content["summary"]["in_time"]["loss"][name] == bound.to_dict()
    again = Evaluation.from_dict(content)
    assert again.in_time(dependence=2)["dependence"] == bounds["dependence"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dependence", "1"], "--dependence: these bounds need domains in the order of time"),
        (["--spells", "--recent", "9"], "--spells, --recent: these bounds need domains in the"),
        (["--test-after", "2013-06"], "Name the column that orders the domains (--order COLUMN"),
        (["--order", "dya"], "has no column 'dya'. Did you mean 'day'?"),
        (["--order", "day", "--test-after", "2014"], "0 domains of 240 would be evaluated"),
        (["--test-after", "2013", "--test-last", ".5"], "(--test-last), not both"),
        (["--order", "day", "--partial", "part.json"], "leave out --order"),
        (["--test-last", ".5", "--partial", "part.json"], "bounds in time: use them with --merge"),
        (["--order", "month", "--spells"], "share their time with another"),
    ],
)
def test_options_that_cannot_be_followed_are_refused_with_a_remedy(
    options: list[str], words: str, file: str
) -> None:
    command = ["evaluate", file, "--domain", "shop", "--loss", "loss", *options]
    assert words in refused(*command)


def test_merged_parts_of_dated_domains_have_an_order(tmp_path: Path) -> None:
    frame, parts = spells(), []
    for number in (0, 1):
        frame[number::2].to_csv(tmp_path / f"{number}.csv", index=False)
        parts.append(str(tmp_path / f"{number}.json"))
        command = ["evaluate", str(tmp_path / f"{number}.csv"), "--domain", "day", "--loss", "loss"]
        assert called(*command, "--partial", parts[-1])[0] == 0
    later = ["--test-after", "2013-03", "--dependence", "1"]
    out = printed_by("evaluate", "--merge", *parts, *later)
    late = frame.loss.to_numpy()[90:]
    assert quantile_bound(late, 0.9, 0.95, dependence=1).sentence in out
    code, _, err = called("evaluate", "--merge", *parts, "--order", "day", "--seen", "x")
    assert (code, "Leave out --seen, --order." in err) == (2, True)
