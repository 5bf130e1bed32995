"""``evaluate(..., within=)`` and ``eqrm evaluate --within``: from rows to statements."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli.commands import called
from eqrm import Evaluation, evaluate
from eqrm.errors import SettingError, TooFewDomainsError
from eqrm.evaluation import evaluate_part, merge_parts, quantile_bound
from eqrm.evaluation.inference.nested.bounds import nested_bound
from eqrm.evaluation.inference.nested.members import NestedRisks
from eqrm.evaluation.presenting.report.page import report_html
from eqrm.evaluation.presenting.summary import summarised


def rows(hospitals: int = 36, largest: int = 30) -> pd.DataFrame:
    """Losses of patients in wards of hospitals; one hospital is much larger than the others."""
    rng = np.random.default_rng(0)
    sizes = [largest, *rng.integers(1, 4, hospitals - 1)]
    hospital = np.repeat([f"H{h}" for h in range(hospitals)], sizes)
    ward = np.concatenate([np.arange(size) for size in sizes])
    risk = np.repeat(rng.uniform(0.1, 0.4, hospitals), sizes) + rng.uniform(0, 0.2, len(ward))
    frame = pd.DataFrame({"hospital": hospital, "ward": ward, "risk": risk})
    frame = frame.loc[frame.index.repeat(4)].reset_index(drop=True)
    frame["loss"] = (frame["risk"] + rng.normal(0, 0.05, len(frame))).round(4)
    return frame


FRAME = rows()
WARDS = FRAME.groupby(["hospital", "ward"], sort=False)["loss"].mean()


def found(**changes: object) -> Evaluation:
    given = {"domains": "hospital", "within": "ward", "losses": {"ERM": "loss"}, **changes}
    return evaluate(FRAME, **given)


def test_members_are_the_domains_and_know_their_group() -> None:
    nested = found()
    assert len(nested.domains) == len(WARDS)
    expected = {f"{hospital} | {ward}": hospital for hospital, ward in WARDS.index}
    assert dict(zip(nested.domains, nested.outer_domains or (), strict=True)) == expected
    assert nested.sentence.endswith(f"in {len(WARDS)} domains of 36 groups.")


def test_certificates_are_about_new_members_of_new_groups() -> None:
    nested = found()
    risks, groups = nested["ERM"].risks, nested.outer_domains
    bound = nested.certificate(0.9)
    assert bound.bound == nested_bound(NestedRisks.of(risks, groups), 0.9).bound
    assert "new members (ward) of similar size in new groups (hospital)" in bound.sentence
    assert nested.certificate(0.9, sampling="once").bound <= risks.max()
    known = nested.certificate(0.9, group="H0")
    own = np.array([g == "H0" for g in groups or ()])
    assert known.bound == quantile_bound(risks[own], 0.9).bound
    with pytest.raises(TooFewDomainsError, match="36 groups are too few"):
        nested.certificate(0.99)


def test_other_bounds_rest_on_one_member_per_group() -> None:
    nested = found(bounds=(-1.0, 2.0))
    below = nested.certificate(threshold=0.5)
    assert (below.domains, below.kind) == (36, "probability")
    assert "of new members (ward) of similar size in new groups" in below.sentence
    assert "new members (ward) in new groups" in nested.certificate(0.5, true_risk=True).sentence
    assert len(nested.cdf_band().risks) == 36
    with pytest.raises(SettingError, match="leave out sampling and group"):
        nested.certificate(threshold=0.5, sampling="repeated")
    with pytest.raises(SettingError, match="for nested domains"):
        found(domains=["hospital", "ward"], within=None).certificate(group="H0")
    with pytest.raises(SettingError, match="take them for one sequence"):
        nested.in_time(dependence=1)


def test_arrays_nest_without_names_of_columns() -> None:
    one = evaluate(
        domains=FRAME["hospital"].to_numpy(), within=FRAME["ward"].to_numpy(), losses=FRAME["loss"]
    )
    assert one.domains == found().domains
    assert "90% of new members of similar size in new groups have" in one.certificate().sentence
    again = Evaluation.from_dict(json.loads(one.to_json()))
    assert again.outer_domains == one.outer_domains
    assert again.certificate().sentence == one.certificate().sentence


def test_the_summary_tells_every_level_and_known_groups() -> None:
    text = summarised(found()).to_text()
    assert "needs 29 members of it: 1 of the 36 groups has as many" in text
    assert "in 'H0'" in text
    assert "Standard deviations of the risks of" in text
    assert "Sampling noise explains" not in text, "one share of noise, that of the levels"
    assert "Approximate, because how alike members are is estimated" in text
    assert "treat domains as independent" in text
    few = summarised(evaluate(rows(8, 3), domains="hospital", within="ward", losses="loss"))
    assert "8 groups are too few to bound the 0.9-quantile" in few.to_text()
    assert "none of the 8 groups has as many (the largest, " in few.to_text()


def test_the_report_has_a_section_and_states_the_nested_certificate() -> None:
    page = report_html(found())
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1])
    assert "Groups and members" in page
    assert "Standard deviations of the risks of" in page
    assert data["levels"]["units"] == [36, "groups"]
    assert "each as likely as the others" in page
    at = data["levels"]["start"]
    assert float(data["levels"]["bounds"][0][at][0]) == pytest.approx(
        found().certificate(0.9).bound, rel=1e-3
    )
    plain = report_html(found(domains=["hospital", "ward"], within=None))
    assert data["band"] is None
    assert '"band":[[' in plain
    assert "Groups and members" not in plain


def test_the_command_prints_writes_and_reports(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    given = [str(tmp_path / "t.csv"), "--domain", "hospital", "--within", "ward", "--loss", "loss"]
    page = tmp_path / "page.html"
    code, printed, _ = called("evaluate", *given, "--report", str(page))
    assert code == 0
    assert found().certificate(0.9).sentence in printed
    assert "new members (ward)" in page.read_text(encoding="utf-8")
    code, printed, _ = called("evaluate", *given, "--format", "json")
    content = json.loads(printed)
    assert code == 0
    assert content["nesting"] == {"groups": ["hospital"], "members": ["ward"]}
    nested = content["summary"]["nested"]["loss"]
    assert set(nested["new_groups"]) == {"once", "repeated", "pooled"}
    assert nested["known_groups"]["H0"]["group"] == "H0"
    assert nested["spread"]["groups"] == 36
    code, _, err = called("evaluate", given[0], "--within", "ward", "--loss", "loss")
    assert (code, "Name the groups too" in err) == (2, True)


def test_parts_of_nested_domains_are_merged(tmp_path: Path) -> None:
    half = len(FRAME) // 2
    columns = {"domains": "hospital", "within": "ward", "losses": "loss"}
    parts = []
    for i, part in enumerate((FRAME[:half], FRAME[half:])):
        part.to_csv(tmp_path / f"{i}.csv", index=False)
        parts.append(evaluate_part(tmp_path / f"{i}.csv", **columns))
        parts[-1].write(tmp_path / f"{i}.json")
    whole = merge_parts([tmp_path / "0.json", tmp_path / "1.json"])
    assert whole.outer_domains == found().outer_domains
    assert whole.certificate().bound == pytest.approx(found().certificate().bound, rel=1e-12)
    flat = evaluate_part(tmp_path / "1.csv", domains=["hospital", "ward"], losses="loss")
    for given in ([parts[0], flat], [flat, parts[0]]):
        with pytest.raises(Exception, match="measures within"):
            merge_parts(given)
