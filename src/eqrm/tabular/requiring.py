"""A training by a requirement: what candidates keep, and the operating point of the chosen one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqrm.data.tables.preprocessor import Task
from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.controlling.control import point_of
from eqrm.evaluation.controlling.operating_point import Asked, OperatingPoint
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring.measured import Measured
from eqrm.evaluation.measuring.requirement import INTERVALS, LAC, Array, Requirement
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.level import Level
from eqrm.linear.scored_rows import probabilities_of
from eqrm.tabular.preparation import EncodedPart
from eqrm.tabular.references import measured_rows


def required_of(text: str, task: Task) -> Requirement:
    """The requirement on the decisions of a task."""
    found = Requirement.of(text, LAC if task.classes else INTERVALS)
    found.refuse_other_task(task.classes)
    return found


def rows_of(scores: Array, rows: EncodedPart, task: Task) -> Measured:
    """Labels and predictions of rows, from their scores."""
    risks = measured_rows({"": scores}, rows, task)[""]
    numbered = rows.table.numbered_domains
    place = {str(name): i for i, name in enumerate(risks.domains)}
    ids = np.array([place.get(str(name), -1) for name in numbered.names])[numbered.ids]
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
    name: str,
    scores: Array,
    rows: EncodedPart,
    task: Task,
    judged: Evaluation,
    asked: Asked,
    text: str,
) -> OperatingPoint | str:
    """The operating point of a model on the domains it was judged on, or why there is none."""
    required = required_of(text, task)
    alone = replace(judged, models={name: judged[name]}, references=None)
    try:
        return point_of({name: rows_of(scores, rows, task)}, alone, required, asked)
    except TooFewDomainsError as refusal:
        return str(refusal)
