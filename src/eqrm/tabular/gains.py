"""What training for a level bought and what it cost, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from eqrm.errors import LevelError, TooFewDomainsError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.inference.noise import MUCH
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.rounding import as_percent, decimals, rounded, rounded_up
from eqrm.level import Level
from eqrm.text import aligned

ERM = "ERM"
NO_CHANGE = "0.0%"


def predictor_name(level: Level | None) -> str:
    """What a predictor is called in tables, figures and reports.

    >>> predictor_name(Level(0.9)), predictor_name(None)
    ('α = 0.9', 'ERM')
    """
    return ERM if level is None else f"α = {level}"


@dataclass(frozen=True)
class Bargain:
    """A level: the quantile it was trained for, the mean risk it pays, and certificates.

    ``quantile`` and ``mean`` compare with ERM, paired by domain, on domains that neither saw.
    A certificate that so few domains cannot carry is the sentence that refuses it. ``noise``
    says why the spread of ERM's risks is not to be trusted, and is empty where it is.
    """

    level: Level
    quantile: Difference
    mean: Difference
    certificate: Certificate | str
    certificate_of_erm: Certificate | str
    noise: str = ""

    def sentences(self) -> str:
        """A paragraph for a reader who knows no statistics."""
        own, erm = _alike(self.quantile)
        return (
            f"{predictor_name(self.level)}: on {_share(self.level)} unseen domains its risk was at "
            f"most {own}; trained for the mean, at most {erm}{_bracketed(self.quantile)}. "
            f"{self._verdict()} {self._price()} {self._certified()}"
        )

    def _price(self) -> str:
        """What happened to the mean risk, if anything that the printed digits show."""
        paid, before = _alike(self.mean)
        if paid == before or _change(self.mean) == NO_CHANGE:
            return f"It had no price in mean risk, which is {paid} either way."
        compared = f"{paid} instead of {before}{_bracketed(self.mean)}."
        if self.mean.value < 0.0:
            return f"It had no price: the mean risk is {compared}"
        return f"The price is a mean risk of {compared}"

    def _verdict(self) -> str:
        """Whether training for the level lowered its quantile, as far as one can tell."""
        if self.quantile.value >= 0.0:
            return (
                "It did not help here: where domains hardly differ, or their risk is mostly "
                "sampling noise, no level can be seen to do better than the mean."
            )
        if self.noise:
            return (
                f"That says little: {self.noise}, and so few rows per domain cannot show whether "
                "the quantile of the true risks fell. A model whose risks differ by noise alone "
                "may have made the domains equal."
            )
        if not (self.quantile.reliable and self.quantile.clear):
            return "It may have helped: so few domains beyond this level leave it open."
        places = decimals(self.quantile.value, _error(self.quantile))
        least, most = (rounded(-end, places) for end in (self.quantile.high, self.quantile.low))
        sure = as_percent(self.quantile.confidence)
        return f"It helped: lower by {least} to {most}, with {sure} confidence."

    def _certified(self) -> str:
        if isinstance(self.certificate, str):
            return f"No certificate: {self.certificate}"
        compared = ""
        if isinstance(self.certificate_of_erm, Certificate):
            compared = f" For ERM the same holds with {rounded_up(self.certificate_of_erm.bound)}."
        return f"Certificate: {self.certificate.sentence}{compared}"


def bargains(evaluation: Evaluation, levels: Sequence[Level], confidence: float) -> list[Bargain]:
    """Each level against ERM, on the domains of an evaluation."""
    differences = evaluation.compare(ERM, list(levels), confidence=confidence)
    noise = _noise(evaluation)
    found = []
    for place, level in enumerate(levels):
        of_level = differences[predictor_name(level)]
        quantiles = [each for each in of_level if each.statistic == "quantile"]
        found.append(
            Bargain(
                level,
                quantiles[place],
                next(each for each in of_level if each.statistic == "mean"),
                _certificate(evaluation, level, predictor_name(level), confidence),
                _certificate(evaluation, level, ERM, confidence),
                noise,
            )
        )
    return found


def bargain_table(found: Sequence[Bargain]) -> str:
    """A line per level: its quantile and its mean risk beside ERM's, and its certificate."""
    header = ["trained for", "quantile", "ERM's", "change", "mean", "ERM's", "change", "certified"]
    lines = []
    for each in found:
        bound = each.certificate
        certified = "too few" if isinstance(bound, str) else rounded_up(bound.bound)
        quantile = [*_alike(each.quantile), _change(each.quantile)]
        mean = [*_alike(each.mean), _change(each.mean)]
        lines.append([predictor_name(each.level), *quantile, *mean, certified])
    return aligned([header, *lines])


def quantile_table(table: RiskTable) -> str:
    """Rows: trained for. Columns: mean and quantiles, with the same digits all over."""
    smallest = min(abs(cell.value) for cells in table.cells.values() for cell in cells)
    places = max(decimals(smallest, None), 0)
    lines = [
        [name, *(f"{rounded(cell.value, places)}{'*' if cell.best else ' '}" for cell in cells)]
        for name, cells in table.cells.items()
    ]
    labels = [f"{statistic.label} " for statistic in table.statistics]
    return aligned([["trained for", *labels], *lines])


def own_columns(table: RiskTable) -> str:
    """How many levels have the lowest value of the column they were trained for."""
    rows = list(table.cells.values())[1:]
    # Column 0 is the mean, so that the level of row i stands in column i + 1.
    best = sum(row[place].best for place, row in enumerate(rows, start=1))
    if len(rows) == 1:
        return f"The level {'has' if best else 'does not have'} the lowest risk in its own column."
    return f"{best} of {len(rows)} levels have the lowest risk in their own column."


def nearest(found: Sequence[Bargain], alpha: float = 0.9) -> Bargain:
    """The level to speak of first."""
    return min(found, key=lambda each: abs(each.level.alpha - alpha))


def _noise(evaluation: Evaluation) -> str:
    split = evaluation.noise[ERM]
    if split is None:
        return "with one row in every domain, nobody can tell their spread from sampling noise"
    many = split.noise_share >= MUCH
    return "most of the spread of these risks is sampling noise" if many else ""


def _certificate(
    evaluation: Evaluation, level: Level, predictor: str, confidence: float
) -> Certificate | str:
    try:
        return evaluation.certificate(level, confidence, predictor=predictor)
    except (TooFewDomainsError, LevelError) as refusal:
        return str(refusal)


def _alike(difference: Difference) -> tuple[str, str]:
    """The level's statistic and ERM's, with the same digits."""
    own, erm = difference.second, difference.first
    places = max(decimals(min(abs(own), abs(erm)), None), 0)
    return rounded(own, places), rounded(erm, places)


def _error(difference: Difference) -> float:
    return (difference.high - difference.low) / 4.0


def _change(difference: Difference) -> str:
    """In percent of ERM's, without a sign where it rounds to none; nothing where ERM's is 0."""
    if not difference.first:
        return ""
    text = f"{difference.value / difference.first:+.1%}"
    return NO_CHANGE if text[1:] == NO_CHANGE else text


def _bracketed(difference: Difference) -> str:
    change = _change(difference)
    return f" ({change})" if change not in ("", NO_CHANGE) else ""


def _share(level: Level) -> str:
    """A level as a count that one can picture.

    >>> _share(Level(0.9)), _share(Level(0.99)), _share(Level(0.123))
    ('9 of 10', '99 of 100', '12.3% of')
    """
    fraction = Fraction(level.alpha).limit_denominator(100)
    if abs(float(fraction) - level.alpha) < 1e-9 and fraction < 1:
        return f"{fraction.numerator} of {fraction.denominator}"
    return f"{as_percent(level.alpha)} of"
