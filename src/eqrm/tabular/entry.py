"""``eqrm.train``: a table in, models and what they do on unseen domains out; and ``eqrm.load``.

The command ``eqrm train`` runs the same. Nothing heavy is imported before the table has been
checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqrm.checks import CONFIDENCE, FLAG, Problems, check_all, refuse_unknown
from eqrm.data.tables.reading import TableColumns
from eqrm.errors import OPTIONS, DataFileError, EqrmError, Setting, SettingError
from eqrm.files.checked_json import parsed_json
from eqrm.files.reading import regular_file
from eqrm.level import Level
from eqrm.tabular.output_folder import check_folder, listed_files
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.request import TrainingRequest

if TYPE_CHECKING:
    from eqrm.tabular.preparation import PreparedTraining
    from eqrm.tabular.result import TrainingResult

ENCODING, WRITING = "encoding the table", "writing"
STEPS = 6
"""Reading, encoding, comparing, judging, fitting to all domains, writing."""
FLAGS = ("skip_incomplete", "weather")
"""Keywords that are true or false."""
LISTS = ("drop", "features", "categories", "missing_values")
"""Keywords of one or several names or values."""
MEANT = {OPTIONS[name].replace("-", "_"): name for name in (*LISTS[1:], "settings", "weight")} | {
    "test_share": "certify=SHARE: by default no domains are held out, and all are trained on",
    "test_domains": "certify=NAMES: by default no domains are held out, and all are trained on",
    "report": "output=FOLDER, which writes report.html among other files, or report(path) of the "
    "result",
}
"""Keywords that :func:`train` does not have, and what they stand for."""
OWN = ("target", "domain", "levels", "confidence", "output", "progress")
"""Keywords of :func:`train` itself."""


def train(
    data: Any,
    target: str | None = None,
    domain: str | Sequence[str] | None = None,
    *,
    levels: Sequence[Level | float | str] | float | str | None = None,
    confidence: float = 0.95,
    output: str | Path | None = None,
    progress: bool | Callable[[str], None] = False,
    **options: Any,
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
        levels: a level or several to train for (default 0.9).
        confidence: of intervals and certificates.
        output: a folder to write everything to, as the option ``--output`` of the command does:
            report, summary, tables and models. It is new, or that of an earlier training.
        progress: whether to show a bar; or a function that is called with the name of each step.
        options: the other options of the command: of the table
            ``within``, ``features``, ``drop``, ``categories``, ``order``, ``weight`` (a column),
            ``missing_values``, ``skip_incomplete``, ``max_missing``, ``weather``; of domains that
            are kept aside for a certificate ``certify`` (a share, or names), ``test`` (another
            table), ``test_after``, ``test_last``; of the training ``model``, ``settings`` (of the
            model), ``candidates`` (estimators of scikit-learn by name, which compete),
            ``mean_budget``, ``refit`` ("all" fits every model that is shown to all domains),
            ``measure``, ``surrogate``, ``task``, ``class_weight`` ("balanced" or a mapping),
            ``unseen``, ``seed``.

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
    check_all(*(partial(_check_keyword, name) for name in options if name != "alpha"))
    problems, plan = Problems(), TrainingPlan.of()
    for name in FLAGS:
        with problems.noted():
            FLAG.check(options.get(name, False), name)
    if "alpha" in options:
        if levels is not None:
            problems.note("levels and alpha are the same: give one of them.")
        levels = options.pop("alpha")
    if isinstance(options.get("certify"), str):
        options["certify"] = [options["certify"]]
    for name in LISTS:
        value = options.pop(name, None)
        if value is not None:
            with problems.noted():
                options[name] = _listed(name, value)
    given = [levels] if isinstance(levels, (int, float, str, Level)) else levels
    parts = [_options_of(kind, options) for kind in (TableColumns, TrainingRequest, TrainingPlan)]
    with problems.noted():
        CONFIDENCE.check(confidence, "confidence")
    folder = None if output is None else Path(output)
    with problems.noted():
        _check_output(folder, options)
    with problems.noted():
        plan = TrainingPlan.of(given, **parts[2])
    columns = TableColumns(target or "", domain or (), **parts[0])
    request = TrainingRequest(data, columns, **parts[1])

    def run(tell: Callable[[str], None]) -> TrainingResult:
        found = run_training(request, plan, confidence, problems, tell)
        return found if folder is None else found.saved(folder)

    if callable(progress):
        return run(progress)
    from eqrm.tabular.steps import steps_shown

    with steps_shown(STEPS, shown=progress) as tell:
        return run(tell)


def _check_output(folder: Path | None, options: Mapping[str, Any]) -> None:
    if folder is None:
        return
    check_folder(folder)
    if options.get("candidates"):
        raise SettingError(
            "output cannot be used with candidates: estimators of your own are not written to "
            "files. Leave it out, and use report(path) and save(folder) of the result."
        )


def _listed(name: str, given: Any) -> list[Any]:
    """The values of a keyword that takes one or several.

    >>> _listed("drop", "note"), _listed("missing_values", -999)
    (['note'], ['-999'])
    """
    values = name == "missing_values"
    several = isinstance(given, Iterable) and not isinstance(given, str)
    if not (several or values or isinstance(given, str)):
        raise SettingError(f"{name} must be a name or a list of names, got {given!r}.")
    found = list(given) if several else [given]
    return [str(each) for each in found] if values else found


def _check_keyword(name: str) -> None:
    """Raise for a keyword that does not exist, and say which one is meant."""
    if name in MEANT:
        raise SettingError(f"eqrm.train has no option {name!r}. Use {MEANT[name]}.")
    refuse_unknown([name], _keywords(), "eqrm.train", "option")


def run_training(
    request: TrainingRequest,
    plan: TrainingPlan,
    confidence: float,
    problems: Problems,
    tell: Callable[[str], None],
    command: str | None = None,
) -> TrainingResult:
    """Read, check, train and evaluate; ``problems`` are raised with those of the table."""
    tell("reading the table")
    prepared = request.prepare(plan, problems)
    problems.refuse(request.label, alone=True)
    if prepared is None:
        raise TypeError("a request without problems can be prepared")
    if isinstance(request.certify, (int, float)) and not request.is_in_time:
        _check_certified(prepared, plan, confidence)
    tell(ENCODING)
    # Only now: what is wrong with a table is said before torch and scikit-learn are imported.
    from eqrm.tabular.result import TrainingResult
    from eqrm.tabular.training import train_prepared

    training = train_prepared(prepared, plan, tell, confidence)
    tell(WRITING)
    source = str(request.data) if isinstance(request.data, (str, Path)) else ""
    return TrainingResult.of(training, confidence, source, command)


def _check_certified(prepared: PreparedTraining, plan: TrainingPlan, confidence: float) -> None:
    """Refuse to keep domains aside that are too few for any certificate."""
    from eqrm.evaluation.inference.binomial_ranks import domains_needed

    kept = 0 if prepared.test is None else len(prepared.test.table.unit_names)
    levels = [level for level in plan.levels if level < Level(1.0)]
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


def _keywords() -> list[str]:
    kinds = TableColumns, TrainingRequest, TrainingPlan
    return [*OWN, *(name for kind in kinds for name in _names(kind))]


def _names(kind: type[Any]) -> list[str]:
    return [f.name for f in fields(kind) if f.name not in ("data", "columns", *OWN)]


def _options_of(kind: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in _names(kind) if name in options}


def load(path: str | Path) -> Any:
    """What is in a file or folder that eqrm wrote.

    - the folder of :func:`eqrm.train` or ``eqrm train``: a ``TrainingResult``;
    - a model file of it: the model with the columns of its table, ``predict(frame)``;
    - a model file of :func:`eqrm.save_model`: the estimator;
    - the folder of a run of ``eqrm train-network``: the network, with the columns of its table
      where it was trained on one;
    - JSON of an evaluation (``evaluation.json``), of a certificate
      (``json.dumps(certificate.to_dict())``), or a correction of ``eqrm recalibrate --save``.

    Nothing that is loaded can execute code.

    >>> import json, tempfile, eqrm
    >>> path = Path(tempfile.mkdtemp()) / "certificate.json"
    >>> found = eqrm.evaluation.quantile_bound([0.1 * i for i in range(30)], 0.9, 0.95)
    >>> _ = path.write_text(json.dumps(found.to_dict()))
    >>> load(path) == found
    True
    """
    place = Path(path)
    if not place.exists():
        raise DataFileError(f"{str(path)!r} does not exist.")
    if place.is_dir():
        return _folder(place)
    if place.suffix.lower() == ".json":
        return _json(place)
    from eqrm.estimators.model_files import read_model
    from eqrm.tabular.model import FORMAT, load_table_model

    saved = read_model(place)
    if saved.attached is not None and saved.attached.get("format") == FORMAT:
        return load_table_model(place)
    return saved.estimator


def _folder(place: Path) -> Any:
    if listed_files(place) is not None:
        from eqrm.tabular.result import TrainingResult

        return TrainingResult.load(place)
    from eqrm.training.runs.loading import is_table_run, load_predictor, load_table_network

    return load_table_network(place) if is_table_run(place) else load_predictor(place)


def _json(place: Path) -> Any:
    """An evaluation, a certificate or a correction."""
    from eqrm.evaluation.evaluation import FORMAT, Evaluation
    from eqrm.evaluation.inference.certificates import Certificate
    from eqrm.tabular.recalibrating.correction_files import SavedCorrection

    try:
        content = parsed_json(regular_file(place).read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return Evaluation.from_dict(content)
        names = [field.name for field in fields(Certificate)]
        if isinstance(content, dict) and {*names} - {"proven"} <= {*content}:
            return Certificate(**{name: content[name] for name in names if name in content})
    except EqrmError:
        raise
    except (ValueError, TypeError) as error:
        raise DataFileError(f"{place} cannot be read: {error}.") from None
    return SavedCorrection.read(place)
