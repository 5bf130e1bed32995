"""``eqrm.train``: a table in, models and what they do on unseen domains out; and ``eqrm.load``.

The command ``eqrm train`` runs the same. Nothing heavy is imported before the table has been
checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from eqrm.checks import CONFIDENCE, Problems
from eqrm.data.datasets.registry import BUILT_IN, raw_dataset
from eqrm.data.splits import TimeSplit, conflicting_splits
from eqrm.data.tables.frames import is_frame
from eqrm.data.tables.reading import Inspect, TableColumns, read_test_table
from eqrm.data.tables.table import Table
from eqrm.errors import DataFileError, EqrmError, Setting, SettingError
from eqrm.execution import torch_for
from eqrm.files.checked_json import read_json
from eqrm.level import Level
from eqrm.tabular.output_folder import check_folder, listed_files
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import PreparedTraining, inspect_columns, prepare

if TYPE_CHECKING:
    from eqrm.tabular.result import TrainingResult

T = TypeVar("T")
ENCODING, WRITING = "encoding the table", "writing"
STEPS = 6
"""Reading, encoding, comparing, judging, fitting to all domains, writing."""
NOT_BUILT_IN = ("categories", "within", "weight", "missing_values", "skip_incomplete")
"""What a table that ships with eqrm does not take."""


def train(
    data: Any,
    target: str | None = None,
    domain: str | Sequence[str] | None = None,
    *,
    alpha: Level | float | str | Sequence[Level | float | str] = 0.9,
    confidence: float = 0.95,
    output: str | Path | None = None,
    progress: bool | Callable[[str], None] = False,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing_values: Sequence[Any] = (),
    max_missing: float = 0.1,
    skip_incomplete: bool = False,
    weight: str | None = None,
    within: str | Sequence[str] | None = None,
    order: str | None = None,
    weather: bool = False,
    certify: float | Sequence[str] | None = None,
    test: Any = None,
    test_after: Any = None,
    test_last: float | None = None,
    model: str = "auto",
    settings: Mapping[str, Any] | None = None,
    candidates: Mapping[str, Any] | None = None,
    measure: str = "quantile",
    surrogate: str = "auto",
    require: str | None = None,
    mean_budget: float = 0.1,
    refit: str = "chosen",
    task: str = "auto",
    class_weight: str | Mapping[Any, float] | None = None,
    unseen: str = "warn",
    seed: int = 0,
    **unknown: NoReturn,
) -> TrainingResult:
    """Find the model of a table to use on new domains, by cross-fitting over all domains.

    Linear models and boosted trees, trained plainly, recalibrated and trained for a level, are
    judged on domains that they have not seen; one is chosen, and fitted to all domains. The same as
    the command ``eqrm train``, bit for bit.

    Args:
        data: a CSV or Parquet file, a pattern or a folder; a frame of pandas, polars or Arrow, or a
            mapping of columns; or "flights" or "coloured-digits", which ship with eqrm.
        target: the column to predict.
        domain: the column that names each row's domain, or several that are joined.
        alpha: a level or several to train for.
        confidence: of intervals and certificates.
        output: a folder to write everything to, as the option ``--output`` of the command does:
            report, summary, tables and models. It is new, or that of an earlier training.
        progress: whether to show a bar; or a function that is called with the name of each step.
        features, drop, categories: columns to predict from (all others), to leave out, and of
            numbers to read as categories.
        missing_values, max_missing, skip_incomplete: what means a missing value, how large a share
            of them a column may have, and whether rows without target or domain are left out.
        weight, within, order: columns with the weight of a row, the member of a domain, its time.
        weather: of the flights: with the weather at departure.
        certify, test, test_after, test_last: domains to keep aside for a certificate: a share or
            names; another table; the domains after a day; the latest share.
        model, settings: the kind of model, and its settings; "auto" lets several compete.
        candidates: estimators of scikit-learn by name, which compete too.
        measure, surrogate: what is minimised over the training domains, and how.
        require: what decisions must achieve in a domain, such as "wrong <= 5%", as in
            :func:`eqrm.control`: the model that keeps most is chosen, ``result.point`` says how.
        mean_budget: how much higher the average risk may be than that of plain training.
        refit: "all" fits every model that is shown to all domains, "chosen" the chosen one.
        task, class_weight: "classification" or "regression"; "balanced" or a weight per class.
        unseen: what to do about categories that only domains kept aside have: "warn" or "error".
        seed: of the split and of the models.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, ward = rng.normal(size=1000), np.repeat(np.arange(50), 20)
    >>> ill = x + rng.normal(size=50).repeat(20) + rng.normal(size=1000) > 0
    >>> found = train(
    ...     {"x": x, "ward": ward, "ill": ill}, target="ill", domain="ward", model="linear"
    ... )
    >>> found
    TrainingResult(2 models, 50 domains, recommended: ...)
    >>> list(found.predict({"x": [0.5, -0.5]}).columns)
    ['prediction', 'p_0', 'p_1']
    """
    named = {"target": target, "domain": domain, "weight": weight, "within": within, "order": order}
    for name, value in {"data": None if is_frame(data) else data, **named}.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        if any(not isinstance(each, str | Path | None) for each in several):
            raise SettingError(
                "eqrm.train takes a table with named columns, or a file, and target and domain are "
                f"names of columns of it; {name} is of the type {type(value).__name__}. For "
                "arrays, use QRMClassifier().fit(X, y, groups=…), or eqrm.evaluate."
            )
    names = {each.name for each in fields(TrainingPlan)}
    given = {name: value for name, value in locals().items() if name in names} | unknown
    problems = Problems()
    folder = None if output is None else Path(output)
    with problems.noted():
        CONFIDENCE.check(confidence, "confidence")
    if folder is not None:
        with problems.noted():
            check_folder(folder)
        if candidates:
            problems.note(
                "output cannot be used with candidates: estimators of your own are not written to "
                "files. Leave it out, and use report(path) of the result."
            )
    plan = TrainingPlan.of(problems=problems, **{**given, "domain": domain or ()})
    from eqrm.tabular.steps import steps_shown

    shown = nullcontext(progress) if callable(progress) else steps_shown(STEPS, shown=progress)
    with shown as tell:
        found = run_training(data, plan, confidence, problems, tell)
        if folder is None:
            return found
        found.save(folder)
        return replace(found, folder=folder)


def run_training(
    data: Any,
    plan: TrainingPlan,
    confidence: float,
    problems: Problems,
    tell: Callable[[str], None],
    command: str | None = None,
) -> TrainingResult:
    """Read, check, train and evaluate; ``problems`` are raised with those of the table."""
    tell("reading the table")
    ways = ("test", "certify", "test_after", "test_last", "order")
    given = {name: getattr(plan, name) for name in ways}
    if isinstance(plan.certify, (int, float)):  # with an order, the last share of domains
        del given["order"]
    conflicts = conflicting_splits(given)
    for problem in conflicts:
        problems.note(problem)
    with problems.noted():
        inspect = partial(inspect_columns, plan=plan, asked=plan.columns.asked)
        table = read_any_table(data, plan.columns, plan.weather, inspect)
        if conflicts:  # which domains to train on is not known
            inspect(table.columns, table.target)
        else:
            train, test, in_time = _split(table, plan)
            everything = table if test is not None and plan.test is None else None
            prepared = prepare(train, test, plan, in_time, everything)
    problems.refuse(_label_of(data), alone=True)
    if isinstance(plan.certify, (int, float)) and not plan.in_time:
        _check_certified(prepared, plan, confidence)
    tell(ENCODING)
    # Only now: what is wrong with a table is said before torch and scikit-learn are imported.
    from eqrm.tabular.result import TrainingResult
    from eqrm.tabular.training import train_prepared

    training = train_prepared(prepared, plan, tell, confidence)
    tell(WRITING)
    source = str(data) if isinstance(data, (str, Path)) else ""
    return TrainingResult.of(training, confidence, source, command)


def _check_certified(prepared: PreparedTraining, plan: TrainingPlan, confidence: float) -> None:
    """Refuse to keep domains aside that are too few for any certificate."""
    from eqrm.evaluation.inference.certificates import domains_needed

    kept = 0 if prepared.test is None else len(prepared.test.table.unit_names)
    levels = [level for level in plan.alpha if level < Level(1.0)]
    fewest = min((domains_needed(each.alpha, confidence) for each in levels), default=0)
    if kept < fewest:
        total = kept + len(prepared.train.table.unit_names)
        share = Setting("certify", math.ceil(100 * fewest / total) / 100)
        more = f"Keep more of them aside ({share}), or" if 2 * fewest <= total else "With so few,"
        raise SettingError(
            f"{Setting('certify')} keeps {kept} of {total} domains aside, but a certificate for "
            f"{levels[0].share_in_words} with {confidence:.0%} confidence takes {fewest}. {more} "
            "leave it out: the cross-fitted bound, which is checked by simulation, takes all."
        )


def _label_of(data: Any) -> str:
    """What errors call a table."""
    return data if isinstance(data, str) else "The table"


def own_name(data: Any) -> str:
    """What the user's table is called; a file may hide one that ships with eqrm."""
    if is_frame(data):
        return "a table in memory"
    return f"{data} (a file that hides the table of eqrm)" if data in BUILT_IN else str(data)


def read_any_table(
    data: Any, columns: TableColumns, weather: bool = False, inspect: Inspect | None = None
) -> Table:
    """A table of the user's files, or one that ships with eqrm; what is wrong is one error.

    ``inspect`` is as in :meth:`TableColumns.read`.
    """
    problems = Problems()
    if weather and data != "flights":
        problems.note(f"{Setting('weather')} can only be used with the table 'flights'.")
    built_in = isinstance(data, str) and data in BUILT_IN and not Path(data).exists()
    absent = [name for name in ("target", "domain") if not getattr(columns, name)]
    if built_in or not absent:
        with problems.noted():
            table = _built_in(data, columns, weather) if built_in else columns.read(data, inspect)
    else:
        for name in absent:
            problems.note(f"{Setting(name, 'COLUMN')} is required for {own_name(data)}.")
    problems.refuse(_label_of(data), alone=True)
    return table


def _built_in(data: str, columns: TableColumns, weather: bool) -> Table:
    """A table by name, whose columns are what they are."""
    settings: dict[str, Any] = {"weather": True} if weather else {}
    table: Any = raw_dataset(data, **settings)
    own = {"target": table.target_name, "domain": table.domain_name, "order": table.domain_name}
    domain = columns.domain if isinstance(columns.domain, str) else " and ".join(columns.domain)
    given = {"target": columns.target, "domain": domain, "order": columns.order}
    differ = [name for name, value in given.items() if value and value != own[name]]
    differ += [name for name in NOT_BUILT_IN if getattr(columns, name)]
    if differ:
        raise SettingError(
            f"The table {data!r} has the target {table.target_name!r} and the domain "
            f"{table.domain_name!r}, and no other order than that of its domain: leave out "
            f"{', '.join(str(Setting(name)) for name in differ)}."
        )
    found: Table = table.with_features(columns.features, columns.drop)
    return found


def _split(table: Table, plan: TrainingPlan) -> tuple[Table, Table | None, TimeSplit | None]:
    """The table to train on, the one kept aside, and how they were split in time."""
    after, last, certify = plan.test_after, plan.test_last, plan.certify
    if plan.in_time:
        table.in_time(last=0.5)  # refuses what cannot be ordered
        if isinstance(certify, (int, float)):
            last = certify
        if after is not None or last is not None:
            in_time = table.in_time(after=after, last=last)
            return *table.split(in_time), in_time
    if plan.test is not None:
        return table, read_test_table(plan.test, table), None
    if certify is not None:
        return *table.split(certify, plan.seed), None
    return table, None, None


@overload
def load(path: str | Path) -> Any: ...
@overload
def load(path: str | Path, kind: type[T]) -> T: ...
def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """What is in a file or folder that eqrm wrote.

    - the folder of :func:`eqrm.train` or ``eqrm train``: a ``TrainingResult``;
    - a model file of it: the model with the columns of its table, ``predict(frame)``;
    - a model file of :func:`eqrm.save_model`: the estimator;
    - the folder of a run of ``eqrm train-network``: the network, with the columns of its table
      where it was trained on one;
    - JSON of an evaluation (``evaluation.json``), of a certificate
      (``json.dumps(certificate.to_dict())``), of an operating point, or of a correction of
      ``eqrm recalibrate --save``.

    Anything but a ``kind``, such as ``eqrm.Evaluation``, is refused. Nothing that is loaded can
    execute code.

    >>> import json, tempfile, eqrm
    >>> path = Path(tempfile.mkdtemp()) / "certificate.json"
    >>> found = eqrm.evaluation.quantile_bound([0.1 * i for i in range(30)], 0.9, 0.95)
    >>> _ = path.write_text(json.dumps(found.to_dict()))
    >>> load(path) == found
    True
    """
    found = _content_of(Path(path))
    if kind is not None and not isinstance(found, kind):
        raise DataFileError(f"{path} holds a {type(found).__name__}, not a {kind.__name__}.")
    return found


def _content_of(place: Path) -> Any:
    if not place.exists():
        raise DataFileError(f"{str(place)!r} does not exist.")
    if place.suffix.lower() == ".json":
        return _json(place)
    if place.is_dir() and listed_files(place) is None:
        torch_for(f"The network in {place}")
        from eqrm.training.runs.run import load_run

        return load_run(place)
    if place.is_dir():
        from eqrm.tabular.result import TrainingResult

        return TrainingResult.load(place)
    from eqrm.tabular.model import load_model_file

    return load_model_file(place)


def _json(place: Path) -> Any:
    """An evaluation, a certificate, an operating point or a correction."""
    from eqrm.evaluation.controlling.operating_point import FORMAT as POINT
    from eqrm.evaluation.controlling.operating_point import OperatingPoint
    from eqrm.evaluation.evaluation import FORMAT, Evaluation
    from eqrm.evaluation.inference.certificates import Certificate
    from eqrm.tabular.recalibrating.correction_files import SavedCorrection

    try:
        content = read_json(place)
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return Evaluation.from_dict(content)
        if isinstance(content, dict) and content.get("format") == POINT:
            return OperatingPoint.load(place)
        names = [field.name for field in fields(Certificate)]
        if isinstance(content, dict) and {*names} - {"proven"} <= {*content}:
            return Certificate(**{name: content[name] for name in names if name in content})
    except EqrmError:
        raise
    except (ValueError, TypeError) as error:
        raise DataFileError(f"{place} cannot be read: {error}.") from None
    return SavedCorrection.read(place)
