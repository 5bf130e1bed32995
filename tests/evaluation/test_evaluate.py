"""Every way into an evaluation gives the count, mean and variance that pandas gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import eqrm
from eqrm.data.tables.files import TableFiles
from eqrm.errors import SettingError
from eqrm.evaluation.measuring import grouped_losses
from evaluation.routes import ROUTES, as_parquet, assert_same, world

LOSSES = {
    "log-loss": lambda y, p: -np.log(np.where(y == 1, p, 1 - p)),
    "brier": lambda y, p: (y - p) ** 2,
    "0-1": lambda y, p: ((p >= 0.5) != (y == 1)).astype(float),
    "squared": lambda y, p: (y - p) ** 2,
    "absolute": lambda y, p: np.abs(y - p),
    "pinball:0.8": lambda y, p: np.where(y > p, 0.8 * (y - p), 0.2 * (p - y)),
}


def by_pandas(frame: pd.DataFrame, losses: Any, domain: Any = "hospital") -> pd.DataFrame:
    return pd.Series(losses).groupby(frame[domain]).agg(["count", "mean", "var"]).sort_index()


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("metric", LOSSES)
def test_predictions_are_measured_as_pandas_measures_them(
    route: str, metric: str, tmp_path: Path
) -> None:
    frame = world()
    data = ROUTES[route](frame, tmp_path)
    found = eqrm.evaluate(
        data, domains="hospital", target="y", predictions=["erm", "eqrm"], metric=metric
    )
    for name in ("erm", "eqrm"):
        assert_same(found[name], by_pandas(frame, LOSSES[metric](frame.y, frame[name])))
    assert found.loss == metric


def test_words_can_be_labels_and_names_of_files_are_not(tmp_path: Path) -> None:
    answers, domains = ["yes", "no", "no", "yes"], ["a", "a", "b", "b"]
    found = eqrm.evaluate(answers, np.array(["yes", "no", "yes", "yes"]), domains, metric="0-1")
    assert found["model"].risks.tolist() == [0.0, 0.5]
    (tmp_path / "a.csv").write_text("site,p\na,0.5\n")
    with pytest.raises(SettingError, match="target"):
        eqrm.evaluate([str(tmp_path / "a.csv")], ["p"], "site")


@pytest.mark.parametrize("route", ROUTES)
def test_given_losses_are_measured_as_pandas_measures_them(route: str, tmp_path: Path) -> None:
    frame = world()
    found = eqrm.evaluate(ROUTES[route](frame, tmp_path), domains="ward", losses={"A": "loss"})
    assert_same(found["A"], by_pandas(frame, frame.loss, "ward"))
    assert found.domains == tuple(range(12))


@pytest.mark.parametrize("route", ROUTES)
def test_a_function_is_a_metric(route: str, tmp_path: Path) -> None:
    frame = world()

    def cubed(labels: Any, predictions: Any) -> Any:
        return np.abs(labels - predictions) ** 3

    data = ROUTES[route](frame, tmp_path)
    found = eqrm.evaluate(data, domains="hospital", target="y", predictions="erm", metric=cubed)
    assert_same(found["erm"], by_pandas(frame, (frame.y - frame.erm).abs() ** 3), 1e-12)
    assert found.loss == "cubed"


@pytest.mark.parametrize("route", ROUTES)
def test_several_columns_make_a_domain(route: str, tmp_path: Path) -> None:
    frame = world()
    data = ROUTES[route](frame, tmp_path)
    found = eqrm.evaluate(data, domains=["hospital", "ward"], losses="loss")
    wanted = frame.groupby(["hospital", "ward"]).loss.mean()
    both = {f"{hospital} | {ward}": risk for (hospital, ward), risk in wanted.items()}
    assert dict(zip(found.domains, found["loss"].risks, strict=True)) == pytest.approx(both)


def test_each_file_may_be_a_domain(tmp_path: Path) -> None:
    frame = world()
    found = eqrm.evaluate(ROUTES["parts"](frame, tmp_path), domains="filename", losses="loss")
    assert [Path(str(name)).name for name in found.domains] == [
        f"part-{i}.parquet" for i in range(3)
    ]
    wanted = [frame.loss[i::3].mean() for i in range(3)]
    assert found["loss"].risks == pytest.approx(wanted)


@pytest.mark.parametrize("domains", ["filename", ["filename", "ward"], ["ward", "filename"]])
@pytest.mark.parametrize("other_schema", [False, True])
def test_files_read_one_by_one_give_what_all_together_give(
    domains: Any, other_schema: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ROUTES["parts"](world(), tmp_path)
    first = pd.read_parquet(tmp_path / "part-0.parquet")
    empty = parquet.read_table(tmp_path / "part-0.parquet").slice(0, 0)
    parquet.write_table(empty, tmp_path / "part-3.parquet")  # a file without rows is no domain
    if other_schema:
        first.assign(ward=first.ward.astype("int8")).to_parquet(tmp_path / "part-1.parquet")
    asked: dict[str, Any] = {"target": "y", "predictions": ["erm", "eqrm"], "metric": "log-loss"}
    queries = []
    fetched = TableFiles.fetched
    monkeypatch.setattr(
        TableFiles, "fetched", lambda *given, **names: queries.append(1) or fetched(*given, **names)
    )
    found = eqrm.evaluate(data, domains=domains, **asked)
    assert len(queries) == (1 if other_schema else 4)
    monkeypatch.setattr(grouped_losses, "MOST_FILES", 0)
    together = eqrm.evaluate(data, domains=domains, **asked)
    assert found.domains == together.domains
    assert len(found.domains) == (3 if domains == "filename" else 36)
    for name in ("erm", "eqrm"):
        assert found[name].counts.tolist() == together[name].counts.tolist()
        np.testing.assert_allclose(found[name].risks, together[name].risks, rtol=1e-14)
        np.testing.assert_allclose(found[name].variances, together[name].variances, rtol=1e-12)


@pytest.mark.parametrize("metric", ["log-loss", "brier", "0-1"])
@pytest.mark.parametrize("route", ["columns", "lists", "array"])
def test_probabilities_of_several_classes(metric: str, route: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    probabilities = generator.dirichlet(np.ones(4), 2000)
    labels, domains = generator.integers(0, 4, 2000), generator.integers(0, 7, 2000)
    chosen = probabilities[np.arange(2000), labels]
    hot = np.eye(4)[labels]
    losses = {
        "log-loss": -np.log(chosen),
        "brier": ((probabilities - hot) ** 2).sum(1),
        "0-1": (probabilities.argmax(1) != labels).astype(float),
    }[metric]
    frame = pd.DataFrame({"domain": domains, "label": labels})
    names = ["cat", "dog", "cow", 'a"b']
    if route == "array":
        found = eqrm.evaluate(
            domains=domains, target=labels, predictions=probabilities, metric=metric
        )
    elif route == "lists":
        frame["p"] = list(probabilities)
        path = as_parquet(frame, tmp_path)
        found = eqrm.evaluate(
            path, domains="domain", target="label", predictions="p", metric=metric
        )
    else:
        frame["label"] = [names[i] for i in labels]
        for i, name in enumerate(names):
            frame[f"p {name}!"] = probabilities[:, i]
        found = eqrm.evaluate(
            as_parquet(frame, tmp_path),
            domains="domain",
            target="label",
            predictions="p {class}!",
            metric=metric,
        )
    wanted = pd.Series(losses).groupby(domains).agg(["count", "mean", "var"])
    assert_same(next(iter(found.models.values())), wanted, 1e-12)


@pytest.mark.parametrize("route", ROUTES)
def test_classes_are_compared_as_they_are(route: str, tmp_path: Path) -> None:
    frame = world()
    generator = np.random.default_rng(2)
    frame["species"] = generator.choice(["cat", "dog", "7"], len(frame))
    frame["guess"] = generator.choice(["cat", "dog", "7"], len(frame))
    data = ROUTES[route](frame, tmp_path)
    found = eqrm.evaluate(data, domains="ward", target="species", predictions="guess", metric="0-1")
    wrong = (frame.species != frame.guess).astype(float)
    assert_same(found["guess"], by_pandas(frame, wrong, "ward"))
    found = eqrm.evaluate(data, domains="hospital", target="y", predictions="ward", metric="0-1")
    assert_same(found["ward"], by_pandas(frame, (frame.y != frame.ward).astype(float)))


@pytest.mark.parametrize("route", ROUTES)
def test_the_table_per_domain_gives_the_same_evaluation(route: str, tmp_path: Path) -> None:
    frame = world()
    data = ROUTES["parquet"](frame, tmp_path)
    raw = eqrm.evaluate(data, domains="hospital", target="y", predictions=["erm", "eqrm"])
    tables = []
    for name in ("erm", "eqrm"):
        part = by_pandas(frame, LOSSES["log-loss"](frame.y, frame[name])).reset_index()
        part.columns = pd.Index(["hospital", "n", "mean", "variance"])
        tables.append(part.assign(model=name))
    table = pd.concat(tables).sample(frac=1, random_state=0)
    (tmp_path / "tables").mkdir()
    found = eqrm.evaluate(
        ROUTES[route](table, tmp_path / "tables"),
        domains="hospital",
        aggregated=True,
        model="model",
    )
    assert set(found.models) == set(raw.models)
    for name, risks in raw.models.items():
        assert found[name].domains == risks.domains
        assert found[name].counts.tolist() == risks.counts.tolist()
        np.testing.assert_allclose(found[name].risks, risks.risks, rtol=1e-13)
        np.testing.assert_allclose(found[name].variances, risks.variances, rtol=1e-12)


@pytest.mark.parametrize("route", ROUTES)
def test_rows_of_one_domain_are_merged_to_what_all_examples_give(
    route: str, tmp_path: Path
) -> None:
    """One row per shard, as a group-by on each of many files gives; some have one example."""
    frame = world().assign(loss=lambda f: f.loss + 1e6, shard=lambda f: f.index // 37)
    shards = frame.groupby(["ward", "shard"]).loss.agg(n="count", mean="mean", variance="var")
    assert (shards.n == 1).any()
    data = ROUTES[route](shards.reset_index(), tmp_path)
    found = eqrm.evaluate(data, domains="ward", aggregated=True)
    wanted = by_pandas(frame, frame.loss - 1e6, "ward")
    assert found["model"].counts.tolist() == wanted["count"].tolist()
    np.testing.assert_allclose(found["model"].risks - 1e6, wanted["mean"], rtol=1e-8)
    np.testing.assert_allclose(found["model"].variances, wanted["var"], rtol=1e-7)


def test_rows_of_several_predictors_are_not_taken_for_parts_of_one() -> None:
    table = pd.DataFrame(
        {"d": ["a", "b"] * 2, "n": [7, 9] * 2, "mean": [0.1, 0.2, 0.3, 0.4], "variance": 0.5}
    )
    question = {"domains": "d", "aggregated": True}
    with pytest.raises(eqrm.errors.DomainDataError, match=r"as if 2 models.*model="):
        eqrm.evaluate(table, **question)
    table["model"] = "A"
    found = eqrm.evaluate(table, model="model", **question)
    assert found["A"].counts.tolist() == [14, 18]
    np.testing.assert_allclose(found["A"].risks, [0.2, 0.3])
    copied = pd.concat([table, table])
    with pytest.raises(eqrm.errors.DomainDataError, match="Every row occurs more than once"):
        eqrm.evaluate(copied, model="model", **question)
    assert eqrm.evaluate(copied[:7], model="model", **question)["A"].counts.sum() == 55


@pytest.mark.parametrize("route", ROUTES)
def test_losses_far_from_zero_keep_their_variance(route: str, tmp_path: Path) -> None:
    frame = world()
    frame["loss"] = 1e9 + frame.erm
    found = eqrm.evaluate(ROUTES[route](frame, tmp_path), domains="ward", losses="loss")
    exact = (frame.loss - 1e9).groupby(frame.ward).var()
    np.testing.assert_allclose(found["loss"].variances, exact, rtol=1e-5)


def test_names_like_007_and_7_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("site,loss\n007,1\n7,2\n007,3\n")
    assert eqrm.evaluate(path, domains="site", losses="loss").domains == ("7", "007")
    path.write_text("site,loss\n10,1\n9,2\n")
    assert eqrm.evaluate(path, domains="site", losses="loss").domains == (9, 10)


def test_clip_bounds_the_log_loss() -> None:
    found = eqrm.evaluate(
        domains=[0, 0, 1], target=[1, 0, 1], predictions=[0.0, 0.0, 1.0], clip=1e-3
    )
    assert found["model"].risks == pytest.approx(
        [(np.log(1000) - np.log(0.999)) / 2, -np.log(0.999)]
    )
    assert found.bounds == pytest.approx((0.0, np.log(1000)))


@pytest.mark.parametrize("kind", ["datetime64[ns]", "date", "bool", "category", "int8"])
def test_domains_of_any_type_have_the_same_names_everywhere(kind: str, tmp_path: Path) -> None:
    days = pd.Series(pd.date_range("2024-01-01", periods=2)[np.arange(6) % 2])
    domains = {
        "datetime64[ns]": days,
        "date": days.dt.date,
        "bool": days.dt.day == 1,
        "category": days.dt.day_name().astype("category"),
        "int8": days.dt.day.astype("int8"),
    }[kind]
    frame = pd.DataFrame({"d": domains, "loss": np.arange(6.0)})
    found = eqrm.evaluate(frame, domains="d", losses="loss")
    from_file = eqrm.evaluate(as_parquet(frame, tmp_path), domains="d", losses="loss")
    assert from_file.to_dict() == found.to_dict()
    assert sorted(found["loss"].risks) == [2.0, 3.0]
