"""What scores of rows amount to: risks by domain, and what a requirement leaves of decisions.

Also the scores of constants, which every model is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.preprocessor import Task
from eqrm.domains import NumberedDomains, places_among
from eqrm.errors import TooFewDomainsError
from eqrm.estimators.tasks import Classification, Regression
from eqrm.evaluation.controlling.control import point_of
from eqrm.evaluation.controlling.operating_point import Asked, OperatingPoint
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring.from_arrays import risks_of_losses
from eqrm.evaluation.measuring.measured import Measured
from eqrm.evaluation.measuring.requirement import INTERVALS, LAC, Requirement
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.evaluation.references import BASE_RATE, MEAN, guess_name
from eqrm.level import Level
from eqrm.linear.scored_rows import probabilities_of
from eqrm.risks import MeasuredRisks
from eqrm.tabular.preparation import EncodedPart

Array = NDArray[np.float64]


def constant_scores(
    task: Task, labels: NDArray[Any], weights: Array | None = None
) -> dict[str, Array]:
    """The scores (1,) or (1, K) of constant predictors: the base rate and a guess, or the mean.

    >>> found = constant_scores(Task(("no", "yes")), np.array([0, 0, 0, 1]))
    >>> {name: scores.round(2).tolist() for name, scores in found.items()}
    {'base rate': [-1.1], '50/50 guess': [0.0]}
    """
    if not task.classes:
        return {MEAN: np.array([np.average(labels, weights=weights)])}
    counts = np.bincount(labels, weights, minlength=len(task.classes))
    shares = counts / counts.sum()
    if len(shares) == 2:
        return {BASE_RATE: np.array([math.log(shares[1] / shares[0])]), guess_name(2): np.zeros(1)}
    return {BASE_RATE: np.log(shares)[None], guess_name(len(shares)): np.zeros((1, len(shares)))}


def weighted_losses(losses: Array, weights: Array, domains: NumberedDomains) -> Array:
    """Losses whose plain mean in each domain is the weighted mean R = Σwℓ/Σw of the given ones.

    Each becomes R + w(ℓ − R)/w̄, so that the variance of their mean is that of the weighted mean
    (a ratio, linearised).
    """
    ids, number = domains.ids, len(domains.names)
    total = np.bincount(ids, weights, number)
    risks = np.bincount(ids, weights * losses, number) / total
    share = weights * (np.bincount(ids, minlength=number) / total)[ids]
    return risks[ids] + share * (losses - risks[ids])


def measured_rows(
    scores: Mapping[str, Array], rows: EncodedPart, task: Task
) -> dict[str, MeasuredRisks]:
    """The risks of predictors by name, from their scores (n,) or (n, K) of all rows."""
    domains, found = rows.table.numbered_domains, {}
    kind = Classification if task.classes else Regression
    for name, each in scores.items():
        losses = kind._losses_of(each, rows.labels)  # a probability may be rounded to 0
        if rows.weights is not None:
            losses = weighted_losses(losses, rows.weights, domains)
        found[name] = risks_of_losses(name, losses, domains)
    return found


def required_of(text: str, task: Task) -> Requirement:
    """The requirement on the decisions of a task."""
    found = Requirement.of(text, LAC if task.classes else INTERVALS)
    found.refuse_other_task(task.classes)
    return found


def rows_of(scores: Array, rows: EncodedPart, task: Task) -> Measured:
    """Labels and predictions of rows, from their scores."""
    risks = measured_rows({"": scores}, rows, task)[""]
    numbered = rows.table.numbered_domains
    ids = places_among(numbered.names, risks.domains)[numbered.ids]
    labels = rows.labels.astype(np.float64)
    if task.classes:
        found = RowsOfPredictions(ids.astype(np.int32), labels, probabilities_of(scores))
    else:
        unit = np.column_stack([np.zeros(len(labels)), np.ones(len(labels))])
        found = RowsOfPredictions(ids.astype(np.int32), np.abs(labels - scores), unit)
    return Measured(risks, rows=found, classes=task.classes)


def kept_of(
    scores: Array, rows: EncodedPart, task: Task, required: Requirement, level: Level
) -> float:
    """What a candidate keeps where a share α of the judged domains meets the requirement."""
    measured = rows_of(scores, rows, task)
    (needed,) = measured.needing(required, [required.allowed])
    setting = float(np.quantile(needed, level.alpha, method="higher"))
    return float(np.nanmean(measured.keeping(required, [setting])))


def point_for(
    name: str, model: Measured, judged: Evaluation, asked: Asked, required: Requirement
) -> OperatingPoint | str:
    """The operating point of a model on the domains it was judged on, or why there is none."""
    alone = replace(judged, models={name: judged[name]}, references=None)
    try:
        return point_of({name: model}, alone, required, asked)
    except TooFewDomainsError as refusal:
        return str(refusal)
