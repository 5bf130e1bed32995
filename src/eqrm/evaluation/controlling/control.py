"""``eqrm.control``: from a requirement to the operating point of the model that keeps most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from eqrm.checks import CONFIDENCE, FLAG, Problems, refuse_unknown
from eqrm.data.tables.frames import in_memory
from eqrm.domains import DomainKey, NumberAsName, places_among
from eqrm.errors import DomainDataError, Setting, TooFewDomainsError
from eqrm.evaluation.controlling.operating_point import Asked, ModelPoint, OperatingPoint
from eqrm.evaluation.evaluate import are_labels, measured_models
from eqrm.evaluation.evaluated_domains import Period, evaluated
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.inference.true_risk import rank_and_miss
from eqrm.evaluation.measuring.from_arrays import stacked
from eqrm.evaluation.measuring.measured import Measured
from eqrm.evaluation.measuring.measurement_spec import (
    Column,
    Columns,
    MeasurementSpec,
    by_column,
    nested_domains,
)
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.evaluation.measuring.requirement import (
    AMONG,
    INTERVALS,
    LAC,
    LOSS,
    NEVER,
    Array,
    Requirement,
)
from eqrm.evaluation.rounding import as_percent
from eqrm.risks import MeasuredRisks
from eqrm.text import counted

READING = ("seen", "order", "threads", "memory", "progress")
OPTIONS = (*READING, "common_domains", "test_after", "test_last")
"""Those of :func:`eqrm.evaluate` that are the same here."""
CURVE = (0.25, 0.4, 0.63, 1.6, 2.5, 4.0)
"""Limits that are tried besides, as multiples of the share allowed."""
LARGEST = 0.9


def control(
    data: Any = None,
    predictions: Columns | None = None,
    domains: Any = None,
    *,
    require: str | Requirement,
    target: Column | None = None,
    losses: Columns | None = None,
    setting: Column | None = None,
    within: Any = None,
    score: str | None = None,
    scale: Column | None = None,
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    true: bool = False,
    dependence: int | None = None,
    spells: bool = False,
    recent: float | None = None,
    **options: Any,
) -> OperatingPoint:
    """When to answer, how wide an interval, which threshold: so that new domains are served.

    The requirement is about each domain: "wrong <= 5%" of its rows are answered wrongly, "wrong
    among answered <= 5%" (where 20 rows or more are answered), "coverage >= 90%" of sets of classes
    or of intervals around numbers, "missed <= 10%" of the positives, "false alarms <= 5%" of the
    negatives. The setting is such that, with the ``confidence``, at least a share ``alpha`` of new
    domains meet it. The domains must have played no part in training. Of several models the one
    that keeps most is chosen, at no cost to the guarantee.

    Data, predictions and domains are given as to :func:`eqrm.evaluate`, and so are the options
    ``seen``, ``order``, ``test_after``, ``test_last``, ``common_domains``, ``threads``, ``memory``
    and ``progress``. Predictions are probabilities; for intervals numbers, or their lower and upper
    ends: (n, 2), or two columns as ``"low:high"``. ``scale`` is the unit of each row in which
    intervals are widened, such as a predicted spread. ``score`` is how sets and intervals are made:
    "lac" (all classes above a probability), "aps" (the likeliest up to a total) or "intervals".

    "loss <= 0.4" is for decisions of your own: ``losses`` of the same rows at several numbers, the
    ``setting`` of each line of the data. A domain needs the smallest of these from which on its
    mean loss stays within the limit.

    ``true`` is about the true share of a domain, of which its rows are a sample. ``dependence``,
    ``spells`` and ``recent`` are for domains in time, as in :meth:`eqrm.Evaluation.in_time`.

    >>> import numpy as np, eqrm
    >>> rng = np.random.default_rng(0)
    >>> days, labels = np.repeat(np.arange(60), 50), rng.integers(0, 2, 3000)
    >>> sure = 1 / (1 + np.exp(-3 * (2 * labels - 1) - 2 * rng.normal(size=3000)))
    >>> point = eqrm.control(labels, sure, days, require="wrong <= 2%")
    >>> round(point.setting, 3), round(point.kept, 3), point.met()
    (0.859, 0.722, 59)
    """
    refuse_unknown(options, [*signature(control).parameters, *OPTIONS], "eqrm.control", "option")
    if target is None and are_labels(data, predictions):
        data, target = None, data
    required = Requirement.of(require, score or _score(predictions))
    _refuse_together(required, true, within, losses, setting, (dependence, spells, recent))
    asked = Asked(checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence"), true)
    asked = replace(asked, dependence=dependence, spells=spells, recent=recent)
    of_grid = required.kind == LOSS
    if of_grid:
        within = NumberAsName(setting) if data is not None else in_memory(setting).astype(str)
    domains, nesting = nested_domains(data, domains, within)
    metric = "log-loss" if of_grid else required
    columns = dict[str, Any](target=target, predictions=predictions, losses=losses, scale=scale)
    read = {name: options[name] for name in READING if name in options}
    spec = MeasurementSpec(domains, nesting=nesting, metric=metric, **columns, **read)
    measured = measured_models(data, spec)
    period = Period(options.get("test_after"), options.get("test_last"))
    found = evaluated(measured, spec, period, options.get("common_domains", False))
    if of_grid:
        found, grids = grids_of(found)
        return point_of(grids, found, required, asked)
    return point_of(measured, found, required, asked)


def _score(predictions: Any) -> str:
    """How sets or intervals are made, unless it is said."""
    named = isinstance(predictions, (Mapping, str)) or (
        isinstance(predictions, list) and all(isinstance(each, str) for each in predictions)
    )
    first: Any = next(iter(by_column(predictions).values()), None) if named else predictions
    if isinstance(first, str):
        return LAC if "{class}" in first else INTERVALS
    values = stacked(np.atleast_1d(in_memory(first)))
    if values.ndim < 2:
        return INTERVALS
    ends = values.shape[1] == 2 and not np.allclose(as_numbers(values.sum(axis=1)), 1.0, atol=1e-3)
    return INTERVALS if ends else LAC


def _refuse_together(
    required: Requirement, true: bool, within: Any, losses: Any, setting: Any, in_time: Any
) -> None:
    """Refuse what cannot be combined, all of it at once."""
    problems, kind = Problems(), required.kind
    chosen = [each for each in in_time if each is not None and each is not False]
    if len(chosen) > 1:
        problems.note("Choose one of dependence, spells and recent: each gives a setting.")
    if within is not None and (chosen or kind == LOSS):
        problems.note(f"{Setting('within')} cannot be combined with bounds in time, nor with loss.")
    if FLAG.check(true, "true") and (chosen or within is not None or kind in (AMONG, LOSS)):
        problems.note(
            f"{Setting('true', True)} is for shares of all rows of independent domains: leave out "
            f"{Setting('within')} and bounds in time, and do not require '{AMONG}' or '{LOSS}'."
        )
    if {losses is not None, setting is not None} != {kind == LOSS}:
        columns = f"{Setting('losses', 'COLUMN')} and {Setting('setting', 'COLUMN')}"
        problems.note(f"{columns} belong to 'loss <= …', where both are needed.")
    problems.refuse("The requirement", alone=True)


@dataclass(frozen=True, eq=False)
class OfGrid:
    """A model whose mean losses (m, G) are known at the ``settings`` (G,), in ascending order.

    It answers like :class:`Measured`, whose rows are known.
    """

    risks: MeasuredRisks
    settings: Array
    means: Array
    parts: tuple[Any, ...] = ()

    def needing(self, required: Requirement, limits: Sequence[float], miss: float) -> Array:
        """The smallest settings from which on the mean loss is within each limit (L, m)."""
        found = np.full((len(limits), len(self.means)), NEVER)
        for row, limit in zip(found, limits, strict=True):
            held = np.logical_and.accumulate((self.means <= limit)[:, ::-1], axis=1).sum(axis=1)
            row[held > 0] = self.settings[len(self.settings) - held[held > 0]]
        return found

    def keeping(self, required: Requirement, settings: Sequence[float]) -> Array:
        """The settings themselves (J, m)."""
        return np.repeat(np.array(settings)[:, None], len(self.means), axis=1)


def grids_of(found: Evaluation) -> tuple[Evaluation, dict[str, OfGrid]]:
    """From means by domain and setting, as members of their domain, to a grid of each domain."""
    key = found.nesting or DomainKey.UNNAMED
    groups = [key.group_of(name) for name in found.domains]
    members = [key.member_of(name) for name in found.domains]
    settings = as_numbers(members)
    wrong = np.flatnonzero(~np.isfinite(settings))
    if wrong.size:
        raise DomainDataError(
            f"The setting must be a finite number in every row, got {members[wrong[0]]!r}."
        )
    grid, columns = np.unique(settings, return_inverse=True)
    names, rows = np.unique(groups, return_inverse=True)
    shape = len(names), len(grid)
    cells = np.bincount(rows * len(grid) + columns, minlength=len(names) * len(grid))
    lacking = np.argwhere(cells.reshape(shape) != 1)
    if lacking.size:
        row, column = lacking[0]
        raise DomainDataError(
            f"Every domain must have losses at each of {counted(len(grid), 'setting')}, but domain "
            f"{str(names[row])!r} has none at {grid[column]:g}."
        )
    order = np.lexsort((columns, rows)).reshape(shape)
    first = next(iter(found.models.values()))
    empty = np.full(len(names), np.nan)
    unknown = MeasuredRisks(tuple(names.tolist()), first.counts[order[:, 0]], empty, empty)
    began = found.order and found.order.only(order[:, 0])
    domains = replace(found, models=dict.fromkeys(found.models, unknown), nesting=None, order=began)
    grids = {name: OfGrid(unknown, grid, own.risks[order]) for name, own in found.models.items()}
    return domains, grids


def point_of(
    models: Mapping[str, Measured | OfGrid], found: Evaluation, required: Requirement, asked: Asked
) -> OperatingPoint:
    """The operating point of models; ``found`` says which domains count."""
    kinds = {name: _kind_of(name, model, required) for name, model in models.items()}
    classes = {name: kind.get("classes", ()) for name, kind in kinds.items()}
    if len({*classes.values()}) > 1:
        raise DomainDataError(f"Models that are compared must predict the same classes: {classes}.")
    if required.kind != LOSS:
        required.refuse_other_task(next(iter(classes.values())))
    allowed, most = required.allowed, np.inf if required.kind == LOSS else LARGEST
    limits = sorted({allowed, *(min(allowed * each, max(most, allowed)) for each in CURVE)})
    at, each = limits.index(allowed), asked.of_one(len(models))
    miss = rank_and_miss(len(found.domains), each.alpha, each.confidence)[1] if asked.true else 0.0
    places = {k: places_among(found.domains, m.risks.domains) for k, m in models.items()}
    needs = {
        name: model.needing(required, limits, miss)[:, places[name]]
        for name, model in models.items()
    }
    risks = {k: replace(found[k], risks=v[at], variances=v[at] * np.nan) for k, v in needs.items()}
    needed = replace(found, models=risks, loss=required.text, bounds=None)
    points = {}
    for name, need in needs.items():
        try:
            settings = [each.setting(required, row, needed) for row in need]
        except TooFewDomainsError as error:
            best = f" by the best of {len(models)} models" * (len(models) > 1)
            promised = f"No setting can be promised for {as_percent(asked.alpha)} of new domains"
            text = f"{promised}{best}: {error}"
            raise TooFewDomainsError(text, error.domains, error.needed) from None
        if settings[at] >= NEVER:
            raise DomainDataError(
                f"{name}: too many domains meet the requirement at no setting, so that none can be "
                "promised for new ones. Give larger settings, larger domains, or ask for less."
            )
        kept = models[name].keeping(required, settings)[:, places[name]]
        means = np.nanmean(kept, axis=1).tolist()
        curve = [row for row in zip(limits, settings, means, strict=True) if row[1] < NEVER]
        by_domain = [None if np.isnan(v) else v for v in kept[at].tolist()]
        points[name] = ModelPoint(settings[at], tuple(by_domain), tuple(curve))
    sign = 1.0 if required.how.more else -1.0
    best = max(points, key=lambda name: sign * points[name].mean)
    return OperatingPoint(
        requirement=required,
        asked=asked,
        model=best,
        models=points,
        needed=needed,
        **kinds[best],
    )


def _kind_of(name: str, model: Measured | OfGrid, required: Requirement) -> dict[str, Any]:
    """What predictions are: of which classes; ends of intervals, and with a scale, or not."""
    for part in model.parts:
        if required.numbers:
            base, unit = part.prediction.T
            return {"ends": bool(base.any()), "scaled": bool((unit != 1.0).any())}
        if np.isin(part.prediction, (0.0, 1.0)).all():
            raise DomainDataError(
                f"{name}: all predictions are 0 or 1, which look like predicted classes. Give "
                "probabilities."
            )
        number = 2 if part.prediction.ndim == 1 else part.prediction.shape[1]
        return {"classes": getattr(model, "classes", ()) or tuple(range(number))}
    return {}
