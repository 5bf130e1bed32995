"""Models that are compared by what they keep: from rows, or from losses on a grid of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqrm.domains import DomainKey
from eqrm.errors import DomainDataError, TooFewDomainsError
from eqrm.evaluation.controlling.operating_point import Asked, ModelPoint, OperatingPoint
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.true_risk import rank_and_miss
from eqrm.evaluation.measuring.measured import Measured
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.evaluation.measuring.requirement import LOSS, NEVER, Array, Requirement
from eqrm.evaluation.rounding import as_percent
from eqrm.risks import MeasuredRisks
from eqrm.text import counted

CURVE = (0.25, 0.4, 0.63, 1.6, 2.5, 4.0)
"""Limits that are tried besides, as multiples of the share allowed."""
LARGEST = 0.9


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
    places = {name: _places(model.risks, found) for name, model in models.items()}
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


def _places(risks: MeasuredRisks, found: Evaluation) -> list[int]:
    place = {str(name): i for i, name in enumerate(risks.domains)}
    return [place[str(name)] for name in found.domains]


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
