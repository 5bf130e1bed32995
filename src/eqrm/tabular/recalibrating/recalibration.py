"""The job of ``eqrm recalibrate``: predictions in files, corrected for a level.

The correction is fitted on some domains and judged on others, beside the predictions as they are
and a constant; it is a small JSON file that can be applied to new predictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.seen_domains import SeenDomains
from eqrm.data.splits import TimeSplit, split_in_time
from eqrm.data.tables.files import opened
from eqrm.data.tables.table import drawn_names
from eqrm.domains import Name, NumberedDomains, number_domains
from eqrm.errors import DomainDataError, LevelError, TooFewDomainsError
from eqrm.estimators.goal import Goal
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.inference.comparison import Difference, paired_differences
from eqrm.evaluation.inference.gains import Gain, gain_over
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.evaluation.measuring.domain_columns import domain_times, facts_of_files
from eqrm.evaluation.measuring.grouped_losses import PredictionTable
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.evaluation.references import BASE_RATE, MEAN, guess_name
from eqrm.level import Level
from eqrm.linear.recalibration import recalibrate
from eqrm.linear.scored_rows import Correction, ScoredRows, logits_of
from eqrm.linear.solving.risk_functions import Array
from eqrm.tabular.recalibrating.correction_files import SavedCorrection
from eqrm.tabular.recalibrating.plan import SHARE, RecalibrationPlan
from eqrm.text import counted, did_you_mean

GIVEN, CORRECTED = "as given", "recalibrated"
FEWEST = 2


@dataclass(frozen=True, eq=False)
class Judged:
    """Risks of one predictor on the fitted and on the held-out domains, and its certificate.

    Where there are too few domains for a certificate, the sentence that says so is in its place.
    """

    fitted: Array
    held_out: Array
    certificate: Certificate | str

    def statistics(self, level: Level) -> tuple[float, float, float, float]:
        """Mean and quantile of both; quantiles as in the verdict of ``eqrm train``."""
        one, two = self.fitted, self.held_out
        quantiles = smooth_quantile(one, level), smooth_quantile(two, level)
        return float(one.mean()), quantiles[0], float(two.mean()), quantiles[1]


@dataclass(frozen=True, eq=False)
class Recalibration:
    """The correction, and how it does beside the references, by name.

    ``gain`` and ``over_constant`` compare its quantile with that of the predictions as given and
    of the better constant, ``mean`` its mean risk with that of the predictions as given, all
    paired by held-out domain. ``seen`` are domains that were left out, because the predictor was
    trained on them.
    """

    saved: SavedCorrection
    judged: Mapping[str, Judged]
    gain: Gain
    over_constant: Gain
    mean: Difference
    domains: tuple[int, int]
    rows: tuple[int, int]
    domain_name: str
    in_time: TimeSplit | None
    confidence: float
    seen: tuple[Name, ...] = ()


def recalibrate_files(data: Any, plan: RecalibrationPlan) -> Recalibration:
    """Read predictions, fit the correction on some domains, and judge it on the others."""
    goal = Goal.of(plan.level)
    spec = MeasurementSpec(
        list(plan.domains),
        target=plan.target,
        predictions=plan.prediction,
        metric=plan.metric,
        clip=plan.clip if plan.metric == "log-loss" else 0.0,
        threads=plan.threads,
        memory=plan.memory,
        progress=plan.progress,
    )
    with opened(data, plan.threads, plan.memory, plan.progress) as table:
        predictions = PredictionTable.of(table, spec)
        known = facts_of_files(table, predictions.domains, spec).seen or frozenset()
        names = predictions.measured.domains
        left_out = tuple(name for name in names if str(name) in known)
        fitted, held_out, in_time = _split(predictions, plan, known)
        rows, classes = _read(predictions, [*fitted, *held_out], plan)
    seen, new = rows.between(0, len(fitted)), rows.between(len(fitted), rows.domains)
    correction = recalibrate(seen, goal.level, goal.choice, plan.scale)
    constants = {BASE_RATE if rows.classes else MEAN: seen.constant()}
    if rows.classes:
        constants[guess_name(rows.classes)] = Correction(0.0, 0.0)
    compared = {GIVEN: Correction(), CORRECTED: correction, **constants}
    judged = {name: _judge(each, seen, new, plan) for name, each in compared.items()}
    # The better constant is chosen where a user could choose it: on the fitted domains.
    best = min(constants, key=lambda name: judged[name].statistics(plan.level)[1])
    risks = {name: each.held_out for name, each in judged.items()}
    saved = SavedCorrection(
        correction,
        plan.metric,
        plan.prediction,
        plan.clip,
        classes,
        plan.level,
        len(fitted),
        tuple(plan.domains),
        SeenDomains.of([*fitted, *left_out]),
    )
    return Recalibration(
        saved,
        judged,
        gain_over(risks, CORRECTED, GIVEN, plan.level, plan.confidence),
        gain_over(risks, CORRECTED, best, plan.level, plan.confidence),
        paired_differences(risks[GIVEN], risks[CORRECTED], [], plan.confidence)[0],
        (len(fitted), len(held_out)),
        (len(seen.target), len(new.target)),
        " and ".join(plan.domains),
        in_time,
        plan.confidence,
        left_out,
    )


def _judge(
    correction: Correction, seen: ScoredRows, new: ScoredRows, plan: RecalibrationPlan
) -> Judged:
    risks = new.risks(correction)
    try:
        certificate: Certificate | str = quantile_bound(risks, plan.level, plan.confidence)
    except (TooFewDomainsError, LevelError) as refusal:
        certificate = str(refusal)
    return Judged(seen.risks(correction), risks, certificate)


def _split(
    predictions: PredictionTable, plan: RecalibrationPlan, seen: frozenset[str]
) -> tuple[list[Name], list[Name], TimeSplit | None]:
    """The domains to fit on, and those held out; none that the predictor has seen in training."""
    names = tuple(name for name in predictions.measured.domains if str(name) not in seen)
    by_text = {str(name): name for name in names}
    in_time = None
    if (plan.order, plan.test_after, plan.test_last) != (None, None, None):
        last = plan.test_last
        if plan.test_after is None and last is None:
            last = SHARE
        numbered, times = NumberedDomains(np.arange(len(names)), names), None
        if plan.order is not None:
            found, times = domain_times(predictions.table, predictions.domains, plan.order)
            new = [str(found.names[number]) not in seen for number in found.ids]
            times = [time for time, kept in zip(times, new, strict=True) if kept]
            numbered = number_domains([found.names[number] for number in found.ids[new]])
        order = plan.order or " and ".join(plan.domains)
        in_time = split_in_time(numbered, times, after=plan.test_after, last=last, order=order)
        fitted, held_out = ([by_text[t] for t in part] for part in (in_time.train, in_time.test))
    else:
        chosen = plan.test_domains
        if chosen is None:
            share = SHARE if plan.test_share is None else plan.test_share
            chosen = drawn_names(list(by_text), share, plan.seed)
        unknown = [name for name in chosen if name not in by_text]
        if unknown:
            raise DomainDataError(
                f"Unknown domain {unknown[0]!r}. {did_you_mean(unknown[0], by_text)}"
            )
        out = set(chosen)
        held_out = [name for text, name in by_text.items() if text in out]
        fitted = [name for text, name in by_text.items() if text not in out]
    unseen = " that the predictor has not seen in training" if seen else ""
    for part, what in ((fitted, "fit on"), (held_out, "evaluate on")):
        if len(part) < FEWEST:
            raise DomainDataError(
                f"Only {len(part)} of {counted(len(names), 'domain')}{unseen} would be left to "
                f"{what}; a quantile over domains needs at least {FEWEST}, and dozens to be "
                "useful. Change which domains are held out, or pass predictions for more domains."
            )
    return fitted, held_out, in_time


def _read(
    predictions: PredictionTable, names: Sequence[Name], plan: RecalibrationPlan
) -> tuple[ScoredRows, list[str] | None]:
    """The scores of all rows of these domains, sorted by them, and the names of the classes."""
    numbers = {name: number for number, name in enumerate(names)}
    measured = predictions.measured
    kept = np.array([name in numbers for name in measured.domains])
    rows, start = int(measured.counts[kept].sum()), 0
    domains = np.empty(rows, dtype=np.int32)
    regression = plan.metric == "squared"
    target: NDArray[Any] = np.empty(rows, dtype=np.float64 if regression else np.int16)
    scores: NDArray[Any] | None = None
    for batch in predictions.rows(numbers):
        part = slice(start, start + len(batch.domain))
        found = batch.prediction if regression else logits_of(batch.prediction, plan.clip)
        if scores is None:
            # Logarithms of many classes take much memory: float32 has more digits than they need.
            kind = np.float64 if found.ndim == 1 else np.float32
            scores = np.empty((rows, *found.shape[1:]), dtype=kind)
        if found.shape[1:] != scores.shape[1:]:
            raise DomainDataError("Rows have different numbers of probabilities.")
        domains[part], target[part], scores[part] = batch.domain, batch.label, found
        start = part.stop
    if scores is None or start != rows:
        raise DomainDataError("The files changed while they were read. Run the command again.")
    if regression:
        return ScoredRows.of(scores, target, 0, domains), None
    count = 2 if scores.ndim == 1 else scores.shape[1]
    classes = predictions.classes
    seen = np.bincount(target, minlength=count)
    if (seen == 0).any():
        absent = int(np.flatnonzero(seen == 0)[0])
        raise DomainDataError(
            f"No row has the label {classes[absent] if classes else absent!r}, so its shift cannot "
            "be fitted. Give rows of every class."
        )
    return ScoredRows.of(scores, target, count, domains), classes
