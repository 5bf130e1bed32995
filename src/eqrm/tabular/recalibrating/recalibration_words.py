"""What a recalibration found, in words for a reader who knows no statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit, softmax

from eqrm.data.splits import TimeSplit
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.inference.gains import MARGIN, clearly_lower, fewest_to_compare
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.rounding import as_needed, as_percent, decimals, rounded, rounded_up
from eqrm.linear.scored_rows import Correction
from eqrm.tabular.recalibrating.recalibration import CORRECTED, GIVEN, Recalibration
from eqrm.text import aligned, counted, listed, wrapped

SHOWN_CLASSES = 12


def recalibration_in_words(found: Recalibration) -> str:
    """The table before and after, what the correction does, and whether it is worth it."""
    saved, level = found.saved, found.saved.level
    return "\n\n".join(
        [
            wrapped(_opening(found)),
            risk_comparison(found),
            wrapped(
                f"{level.quantile_in_words}: {level.share_in_words} of the domains are estimated "
                f"to have at most this risk (the {level}-quantile, Harrell–Davis). Certified: with "
                f"{as_percent(found.confidence)} confidence, at least {level.share_in_words} of "
                "new domains drawn like the held-out ones have at most this risk ('too few': not "
                f"enough domains to say so).{_about_the_future(found.in_time)}"
            ),
            wrapped(
                correction_in_words(saved.correction, saved.classes, saved.metric == "squared")
            ),
            wrapped(*verdict(found)),
            wrapped(_certified(found)),
        ]
    )


def _opening(found: Recalibration) -> str:
    (fitted, held_out), (rows, new_rows) = found.domains, found.rows
    split, kind, first, second, ending = found.in_time, "held-out", "", "", ""
    if split is not None:
        spans = (" to ".join(dict.fromkeys(ends)) for ends in (split.trained, split.tested))
        kind, first, second = "later", *(f", {span}" for span in spans)
        ending = f" Domains are ordered by {split.order!r}.{_left_out(split)}"
    if found.seen:
        ending += (
            f" Not used, because the predictor was trained on them: "
            f"{counted(len(found.seen), 'domain')} ({listed(found.seen, 3)})."
        )
    loss = loss_in_words(found.saved.metric)
    return (
        f"Correction for the {found.saved.level}-quantile of risk, fitted on {fitted:,} domains "
        f"({rows:,} rows{first}) and evaluated on {held_out:,} {kind} domains ({new_rows:,} rows"
        f"{second}). A domain is a value of {found.domain_name!r}; its risk is the mean {loss} of "
        f"its rows.{ending}"
    )


def risk_comparison(found: Recalibration) -> str:
    """Mean and quantile of the risk on both parts, and certificates, of every predictor."""
    level = found.saved.level
    numbers = {name: each.statistics(level) for name, each in found.judged.items()}
    places = max(0, max(decimals(min(map(abs, row)), None) for row in numbers.values()))
    both = ["average", level.quantile_in_words]
    lines = [["", "fitted on:", "", "held out:", "", ""], ["", *both, *both, "certified"]]
    for name, row in numbers.items():
        bound = found.judged[name].certificate
        certified = "too few" if isinstance(bound, str) else rounded_up(bound.bound)
        lines.append([name, *(rounded(value, places) for value in row), certified])
    return aligned(lines)


def correction_in_words(
    correction: Correction, classes: Sequence[str] | None, numbers: bool
) -> str:
    """What the correction does to a prediction.

    >>> correction_in_words(Correction(-0.5, 1.0), None, False)
    'The logit of every probability is multiplied by 1.00 (as sure as before) and lowered by 0.50...
    >>> correction_in_words(Correction(2.0, 0.5), None, True)
    'A prediction p becomes 0.5·p + 2.'
    >>> correction_in_words(Correction(0.0, 0.0), None, False)
    'The predictions are replaced by a constant, the probability 0.50: they add nothing here.'
    """
    shift, scale = correction.shift, correction.scale
    if scale == 0.0:
        if isinstance(shift, float):
            what = f"{shift:.4g}" if numbers else f"the probability {expit(shift):.2f}"
        else:
            what = f"the probabilities {_by_class(classes, softmax(shift), '.2f')}"
        return f"The predictions are replaced by a constant, {what}: they add nothing here."
    against = (
        " The scale is negative: on the fitted domains the predictions point the wrong way. Check "
        "the labels."
        if scale < 0.0
        else ""
    )
    if numbers and isinstance(shift, float):
        sign = "-" if shift < 0.0 else "+"
        return f"A prediction p becomes {scale:.4g}·p {sign} {abs(shift):.4g}.{against}"
    sure = "as sure as before" if abs(scale - 1.0) < 0.005 else "surer"
    if scale <= 0.995:
        sure = "less sure"
    if isinstance(shift, float):
        moved = f"{'lowered' if shift < 0.0 else 'raised'} by {abs(shift):.2f}"
        now = [f"{p:.2f}" for p in expit(correction(logit(np.array([0.1, 0.5, 0.9]))))]
        return (
            f"The logit of every probability is multiplied by {scale:.2f} ({sure}) and {moved}: "
            f"0.10, 0.50 and 0.90 become {now[0]}, {now[1]} and {now[2]}.{against}"
        )
    return (
        f"The logits of every row are multiplied by {scale:.2f} ({sure}) and shifted by class: "
        f"{_by_class(classes, shift, '+.2f')}.{against}"
    )


def _by_class(classes: Sequence[str] | None, values: Sequence[float], form: str) -> str:
    """A number per class, for the first classes."""
    names = classes or range(len(values))
    shown = [f"{name} {own:{form}}" for name, own in zip(names, values, strict=True)]
    more = len(shown) - SHOWN_CLASSES
    return ", ".join(shown[:SHOWN_CLASSES]) + (f" and {more} more" if more > 0 else "")


def verdict(found: Recalibration) -> list[str]:
    """Whether the gain is real, what it costs, and whether a constant does as well.

    The rule is in :mod:`eqrm.evaluation.inference.gains`.
    """
    level, over = found.saved.level, found.over_constant
    needed = fewest_to_compare(level, found.confidence)
    own, other = _quantiles(found, over.reference)
    compared = f"its {level}-quantile is {other}, that of the recalibrated predictions {own}"
    equalled = over.change >= 0.0 or own == other
    lines = [f"{_gain(found, equalled)} {_cost(found.mean)}"]
    if equalled:
        how = "as well" if own == other or not over.higher else "better"
        lines.append(
            f"Warning: the constant {over.reference!r} does {how} without looking at any row: "
            f"{compared}. At this level the predictions add nothing."
        )
    elif found.domains[1] >= needed and clearly_lower([over]):
        lines.append(f"This is better than the constant {over.reference!r}: {compared}.")
    else:
        lines.append(
            f"Whether it is better than the constant {over.reference!r} is not clear: {compared}."
        )
    means = {name: each.statistics(level)[2] for name, each in found.judged.items()}
    constants = [name for name in means if name not in (GIVEN, CORRECTED)]
    cheapest = min(constants, key=means.__getitem__)
    if means[CORRECTED] > means[cheapest] and found.mean.value > 0.0:
        own, other = _same_digits(means[CORRECTED], means[cheapest])
        lines.append(
            f"The price is high: the mean risk, {own}, is above that of the constant "
            f"{cheapest!r}, {other}. Use "
            "the predictions as given, or a lower level, where the mean matters."
        )
    return lines


def _gain(found: Recalibration, equalled: bool) -> str:
    """``equalled`` by a constant, it is not a gain of these predictions."""
    gain, level = found.gain, found.saved.level
    own, before = _quantiles(found, GIVEN)
    sure, margin = as_percent(found.confidence), as_percent(MARGIN)
    what = f"the {level}-quantile of risk on held-out domains is {own} instead of {before}"
    needed = fewest_to_compare(level, found.confidence)
    if found.domains[1] < needed:
        return (
            f"{found.domains[1]} held-out domains are too few to tell whether there is a gain at "
            f"this level ({as_needed(needed)} are needed): {what} ({gain.change:+.1%})."
        )
    roughly = f"{what} ({gain.change:+.1%}, standard error {gain.error:.1%})"
    what = f"{what} ({gain.change:+.1%}, {sure} interval {gain.interval})"
    if clearly_lower([gain]):
        if clearly_lower([gain, found.over_constant]):
            return f"The gain is real: {what}."
        return (
            f"Lower, {'as for' if equalled else 'but not clearly lower than'} a constant: {what}."
        )
    if gain.higher:
        return f"The correction made it worse: {what}. Keep the predictions as they are."
    if gain.excluded:
        return (
            f"Less than {margin} is gained by the estimate: {roughly}. Keep the predictions as "
            "they are."
        )
    return (
        f"No clear gain: {what}. More than {margin} is neither shown nor ruled out; more domains "
        "would decide. Until then, keep the predictions as they are."
    )


def _cost(mean: Difference) -> str:
    own, before = _same_digits(mean.second, mean.first)
    if own == before:
        return f"The mean risk stays at {own}."
    which = "falls" if mean.value < 0.0 else "rises"
    clear = "" if mean.clear else ", not clearly"
    return f"The mean risk {which} from {before} to {own}{clear}."


def _certified(found: Recalibration) -> str:
    stated = found.judged[CORRECTED].certificate
    if isinstance(stated, str):
        return f"No certificate: {stated}"
    before = found.judged[GIVEN].certificate
    compared = ""
    if not isinstance(before, str):
        compared = f" For the predictions as given, the same holds with {rounded_up(before.bound)}."
    return f"Certificate: {stated.sentence}{compared}"


def _quantiles(found: Recalibration, other: str) -> tuple[str, str]:
    """The quantile of the corrected predictions and of others on held-out domains."""
    level = found.saved.level
    return _same_digits(*(found.judged[n].statistics(level)[3] for n in (CORRECTED, other)))


def _same_digits(one: float, two: float) -> tuple[str, str]:
    """Two numbers with the same number of decimals."""
    places = max(decimals(min(abs(one), abs(two)), None), 0)
    return rounded(one, places), rounded(two, places)


def _left_out(split: TimeSplit) -> str:
    """The domains that belong to neither part, if there are any."""
    if not split.left_out:
        return ""
    have = "1 domain has" if len(split.left_out) == 1 else f"{len(split.left_out):,} domains have"
    return (
        f" {have} rows both before and after the cut and so took no part in training or "
        f"evaluation: {listed(split.left_out)}."
    )


def _about_the_future(split: TimeSplit | None) -> str:
    """What a certificate does not cover where domains are ordered in time."""
    if split is None:
        return ""
    return (
        " This assumes that future domains are drawn like the evaluated ones, which an evaluation "
        "on later domains cannot prove: a trend, or a season that does not occur from "
        f"{' to '.join(split.tested)}, is not covered. Check the certificate as new "
        "domains arrive."
    )
