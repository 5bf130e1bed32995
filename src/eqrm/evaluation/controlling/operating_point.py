"""An operating point: the setting at which new domains meet a requirement, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.frames import column, frame_columns, in_memory, is_frame
from eqrm.errors import (
    DataFileError,
    DomainDataError,
    EqrmError,
    Setting,
    SettingError,
    TooFewDomainsError,
)
from eqrm.evaluation.certifying import Certifier
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import CROSS_FITTED, TRUE, Certificate
from eqrm.evaluation.inference.comparison import Difference, paired_differences
from eqrm.evaluation.inference.in_time.ordered import RecentBound, TimeBounds
from eqrm.evaluation.inference.risk_checks import Refused
from eqrm.evaluation.inference.true_risk import rank_and_miss
from eqrm.evaluation.measuring.metrics import as_numbers, single_column
from eqrm.evaluation.measuring.requirement import AMONG, LOSS, ROUNDING, Array, Requirement
from eqrm.evaluation.measuring.rows import ENDS_IN_ORDER
from eqrm.evaluation.presenting.plots import QUIET, given_or_new_axes, plain_label, shades
from eqrm.evaluation.rounding import as_percent
from eqrm.files.checked_json import read_checked_json, write_checked_json
from eqrm.files.plain import plain_values, read_as
from eqrm.risks import MeasuredRisks
from eqrm.text import aligned, counted, one_line, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "eqrm operating point 1"
MOST_LISTED = 5
STATED = ("requirement", "asked", "model", "models", "classes", "ends", "scaled")
Bound = Certificate | RecentBound


@dataclass(frozen=True)
class Asked:
    """What is asked of an operating point: the share of new domains, how sure, and of what kind.

    ``true`` is about the true share of a domain; the others are those of :class:`TimeBounds`.
    """

    alpha: float = 0.9
    confidence: float = 0.95
    true: bool = False
    dependence: int | None = None
    spells: bool = False
    recent: float | None = None

    @property
    def in_time(self) -> TimeBounds:
        """The bound for domains in time that is asked for, if any."""
        return TimeBounds(self.dependence, self.spells, self.recent)

    def of_one(self, models: int) -> Asked:
        """The same for each of several models, of which one is chosen by what it keeps.

        All of them hold together with the confidence asked for (Bonferroni); a bound for the next
        domain, which has none, with the probability.
        """
        if self.recent is not None:
            return replace(self, alpha=1.0 - (1.0 - self.alpha) / models)
        return replace(self, confidence=1.0 - (1.0 - self.confidence) / models)

    def setting(self, required: Requirement, needed: Array, found: Evaluation) -> float:
        """The setting for decisions: that of the bound, or a little more cautious."""
        return required.above(float(self.bound(needed, found).bound))

    def bound(self, needed: Array, found: Evaluation) -> Bound:
        """The setting that a share of new domains needs at most; ``found`` says who they are."""
        risks = MeasuredRisks(found.domains, found[next(iter(found.models))].counts, needed, needed)
        if self.true:
            rank, _ = rank_and_miss(len(needed), self.alpha, self.confidence)
            return Certificate(
                bound=float(np.sort(needed)[rank - 1]),
                confidence=self.confidence,
                achieved=self.confidence,
                domains=len(needed),
                method="order statistic of binomial bounds",
                rank=rank,
                alpha=self.alpha,
                risk_kind=TRUE,
            )
        if self.in_time.asked:
            given = self.in_time.arranged(needed, found.domains, found.time_order)
            (made,) = self.in_time.of(given, self.alpha, self.confidence).values()
            if isinstance(made, Refused):
                raise TooFewDomainsError(made.sentence, len(needed), made.needed)
            return made
        named = None if found.nesting is None else found.nesting.labels
        certifier = Certifier(risks, found.loss, None, found.outer_domains, named)
        return certifier.certificate(self.alpha, self.confidence)


@dataclass(frozen=True)
class ModelPoint:
    """One model: its setting, what it keeps in each domain there, and at other limits.

    ``kept`` (m,) is None where a domain has nothing that could be kept. ``curve`` has rows of a
    limit, the setting for it and the mean kept.
    """

    setting: float
    kept: tuple[float | None, ...]
    curve: tuple[tuple[float, float, float], ...] = ()

    @property
    def by_domain(self) -> Array:
        """What is kept (m,), NaN where there is nothing."""
        return np.array(self.kept, dtype=np.float64)

    @property
    def mean(self) -> float:
        """The mean over domains of what is kept."""
        return float(np.nanmean(self.by_domain))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OperatingPoint:
    """The setting of a model at which new domains meet a requirement, and what it keeps.

    ``models`` are all that were compared, by name, ``model`` the one that keeps most.
    ``needed`` is the evaluation whose risks are the settings that the calibration domains need:
    everything that bounds risks bounds them. ``classes`` are the names of classes in the order of
    predictions, by default 0, 1, …; there are none of numbers, of which ``ends`` and ``scaled`` say
    whether lower and upper ends, and a scale, are needed.
    """

    requirement: Requirement
    asked: Asked
    model: str
    models: Mapping[str, ModelPoint]
    needed: Evaluation
    classes: tuple[Any, ...] = ()
    ends: bool = False
    scaled: bool = False

    @property
    def setting(self) -> float:
        """The setting of the model that keeps most; of 'missed' and 'lac' minus the probability."""
        return self.models[self.model].setting

    @property
    def kept(self) -> float:
        """What it keeps: the mean over domains."""
        return self.models[self.model].mean

    @cached_property
    def bound(self) -> Bound:
        """The certificate that the setting comes from, with what speaks against its assumption."""
        found = self._bound_of(self.model)
        if self.needed.time_order is None or isinstance(found, RecentBound):
            return found
        tests = self.needed.exchangeability[self.model]
        doubt = tests[0].doubt if tests and not self.asked.in_time.asked else ""
        return replace(found, doubt=doubt)

    def _bound_of(self, name: str) -> Bound:
        return self.asked.of_one(len(self.models)).bound(self.needed[name].risks, self.needed)

    def met(self, name: str | None = None) -> int:
        """How many of the calibration domains meet the requirement at the setting."""
        name = name or self.model
        return int((self.needed[name].risks <= self.models[name].setting).sum())

    @property
    def differences(self) -> dict[str, Difference]:
        """What the others keep minus what the chosen model keeps, paired by domain."""
        own = self.models[self.model].by_domain
        known, asked = ~np.isnan(own), self.asked.confidence
        return {
            name: paired_differences(own[known], each.by_domain[known], [], asked)[0]
            for name, each in self.models.items()
            if name != self.model
        }

    def apply(
        self, predictions: Any, *, scale: Any = None, classes: Sequence[Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Decisions for new rows, from predictions of the kind that the point was computed on.

        For "wrong": ``passed`` and the ``answer`` (None where a row is passed on). For coverage of
        classes the ``set`` of each row, as a tuple; of numbers ``lower`` and ``upper``, for which
        ``scale`` holds the unit of each row if there was one. For "missed" and "false alarms":
        ``positive``. ``classes`` are names of classes, by default those of the point; columns of a
        frame that are called like them, or ``p_`` and the name, may have any order.
        """
        if is_frame(predictions) and self.classes:
            named = {str(each).removeprefix("p_"): each for each in frame_columns(predictions)}
            wanted = [*map(str, self.classes)]
            if {*named} == {*wanted}:
                predictions = np.column_stack([column(predictions, named[k]) for k in wanted])
        how, given = self.requirement, in_memory(predictions)
        if how.kind == LOSS:
            raise SettingError(
                f"The point is a setting of your own, {self.setting:.12g}: use it where your "
                "decisions are made."
            )
        values = as_numbers(given.ravel()).reshape(given.shape)
        wrong = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
        if wrong.size:
            raise DomainDataError(
                f"The prediction of row {wrong[0] + 1} is {given[wrong[0]]}: {wrong.size:,} of "
                f"{len(given):,} rows have none that is finite."
            )
        if how.numbers:
            both = values.reshape(len(values), -1)
            if self.ends != (both.shape[1] == 2) or self.scaled != (scale is not None):
                raise DomainDataError(
                    f"The point was computed on {'ends of intervals' if self.ends else 'numbers'} "
                    f"with{'' if self.scaled else 'out'} a scale: give the same kind of predictions"
                    f"{', and scale' * self.scaled}."
                )
            low, high, unit = both[:, 0], both[:, -1], np.ones(len(both))
            if scale is not None:
                unit = as_numbers(single_column(in_memory(scale)))
            if unit.shape != low.shape or not ((unit > 0.0) & (low <= high)).all():
                raise DomainDataError(f"In every row {ENDS_IN_ORDER}.")
            wide = self.setting * unit
            wide += ROUNDING * (np.maximum(np.abs(low), np.abs(high)) + np.abs(wide))
            return {"lower": low - wide, "upper": high + wide}
        names = np.array(self.classes if classes is None else classes, dtype=object)
        self._refuse_other_classes(values, len(names))
        return how.decided(values, self.setting, names)

    def _refuse_other_classes(self, values: Array, named: int) -> None:
        given, known = 2 if values.ndim == 1 else values.shape[1], len(self.classes)
        outside = ~((values >= 0.0) & (values <= 1.0))
        if {given, named} != {known} or outside.any():
            raise DomainDataError(
                f"The point was computed on probabilities of {known} classes, from 0 to 1; these "
                f"are of {given}, with {named} names, from {values.min():.4g} to "
                f"{values.max():.4g}."
            )

    @property
    def sentence(self) -> str:
        """What to do, what that keeps, and what is guaranteed on which assumption."""
        return f"{self.advice} {self.statement}"

    @property
    def advice(self) -> str:
        """What to do with the model that keeps most, and what that keeps."""
        how = self.requirement
        kept = how.kept_shown(self.kept)
        told = {
            "answered": f"{kept} of the rows are answered",
            "called positive": f"{kept} of the rows are called positive",
            "positives found": f"{kept} of the positives are found",
            "classes per set": f"Sets hold {kept} classes",
            "width": f"Intervals are {kept} wide",
            "setting": "No model that was compared has a lower one",
        }[how.how.keeps]
        opening = f"Use '{one_line(self.model)}': {how.in_words(self.setting)}."
        idle = self.kept == 0.0 if how.how.more else self.setting >= how.how.highest
        nothing = " No decision is left: the requirement cannot be met otherwise." * idle
        return f"{opening} {told} (mean of {len(self.needed.domains):,} domains).{nothing}"

    @property
    def statement(self) -> str:
        """With which confidence how many new domains meet the requirement, and the assumption."""
        asked, bound, number = self.asked, self.bound, len(self.models)
        share, required = as_percent(asked.alpha), self.requirement.sentence
        if isinstance(bound, RecentBound):
            return (
                f"The next domain has {required} with a probability of at least {share} if nothing "
                f"changes, the weight of each domain halving every {bound.half_life:g}. This is "
                "not a certificate: it is about the next domain only."
            )
        opening = "With" if not self.needed.cross_fitted else f"{CROSS_FITTED}: with"
        if bound.approximate:
            opening = f"Approximate, because {bound.estimated}: with"
        chosen = f" This counts the choice among {number} models." * (number > 1)
        return (
            f"{opening} {as_percent(asked.confidence)} confidence, at least {share} of "
            f"{bound.about} have {required}, provided that {bound.assumed}{chosen}"
        )

    def __str__(self) -> str:
        """The advice and the guarantee, then a table of all models, then what else to know."""
        how, most = self.requirement, len(self.needed.domains)
        differences, sign = self.differences, 1.0 if self.requirement.how.more else -1.0
        rows = [["model", how.how.keeps, "setting", "meet it here"]]
        for name, each in sorted(self.models.items(), key=lambda item: -sign * item[1].mean):
            found = differences.get(name)
            told = "" if found is None else f"{found.value:+.3g}"
            if found is not None and not found.refused:
                told += f" [{found.low:.3g}, {found.high:.3g}]"
            numbers = how.kept_shown(each.mean), how.shown(each.setting)
            rows.append([one_line(name), *numbers, f"{self.met(name)} of {most}", told])
        rows[0].append("difference" if differences else "")
        if how.kind == LOSS:  # what is kept is the setting
            rows = [[row[0], *row[2:]] for row in rows]
        return "\n\n".join(
            [wrapped(self.advice, self.statement), aligned(rows), wrapped(*self._notes)]
        )

    @property
    def _notes(self) -> list[str]:
        own = self.needed[self.model]
        order = np.argsort(-own.risks, kind="stable")[:MOST_LISTED]
        named = ", ".join(f"'{one_line(str(own.domains[i]))}'" for i in order)
        told = [f"The domains that need the most cautious setting: {named}."]
        unsure = [one_line(name) for name, each in self.differences.items() if not each.clear]
        if unsure:
            told.append(
                f"{counted(len(unsure), 'other model')} may keep as much: the interval of the "
                f"difference holds 0 ({', '.join(unsure)})."
            )
        if not self.asked.true and self.requirement.kind not in (AMONG, LOSS):
            told.append(
                "The requirement is about the measured share of a domain of similar size. For the "
                f"true share: {Setting('true', True)}."
            )
        if self.needed.time_order is not None and not self.asked.in_time.asked:
            ways = " or ".join(map(str, (Setting("spells", True), Setting("dependence", "K"))))
            told.append(f"Where neighbours in time resemble each other, ask for {ways}.")
        return [*told, *filter(None, [self.needed.left_out.strip()])]

    @property
    def curve(self) -> str:
        """What the chosen model keeps at other limits, as a table."""
        how = self.requirement
        rows = [["at most this share", "setting", how.how.keeps]]
        for limit, setting, kept in self.models[self.model].curve:
            share = as_percent(float(f"{limit:.4g}")) + " (asked for)" * (limit == how.allowed)
            rows.append([share, how.shown(setting), how.kept_shown(kept)])
        return f"'{one_line(self.model)}', of {how.how.lost}, and what it keeps\n{aligned(rows)}"

    def __repr__(self) -> str:
        return f"<OperatingPoint: {self.requirement.text!r} by {self.model!r}>"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what each model keeps against the limit of the requirement; returns the axes."""
        axes, how = given_or_new_axes(ax), self.requirement
        for (name, each), colour in zip(self.models.items(), shades(len(self.models)), strict=True):
            limits, _, kept = np.array(each.curve, dtype=np.float64).T
            axes.plot(limits, kept, marker="o", markersize=3, color=colour, label=plain_label(name))
        axes.axvline(how.allowed, linestyle="--", linewidth=1, color=QUIET)
        lost = f"at most this share of {how.how.lost}"
        axes.set(xscale="log", xlabel=lost, ylabel=how.how.keeps)
        axes.legend(frameon=False, fontsize="small")
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; :meth:`from_dict` reads it back."""
        stated = {name: plain_values(each) for name, each in vars(self).items() if name in STATED}
        return {"format": FORMAT, **stated, "needed": self.needed.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> OperatingPoint:
        """The reverse of :meth:`to_dict`; settings that do not follow from it are refused."""
        try:
            given = {name: content[name] for name in STATED} | {
                "classes": tuple(content["classes"]),
                "requirement": read_as(Requirement, content["requirement"]),
                "asked": read_as(Asked, content["asked"]),
                "models": {k: read_as(ModelPoint, v) for k, v in content["models"].items()},
            }
            needed = Evaluation.from_dict(content["needed"])
            made = cls(needed=needed, **given)
            whole = content["format"] == FORMAT and needed.loss == made.requirement.text
            whole &= made.models.keys() == needed.models.keys() and made.model in made.models
            for name, each in made.models.items() if whole else ():
                whole &= len(each.kept) == len(needed.domains)
                whole &= each.setting == made.requirement.above(made._bound_of(name).bound)
        except (EqrmError, AttributeError, LookupError, TypeError, ValueError):
            whole = False
        if not whole:
            raise DomainDataError(
                "This is not an operating point, or it was changed: its settings do not follow "
                "from its domains. Compute it again with eqrm control."
            )
        return made

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file with a checksum."""
        write_checked_json(Path(path), FORMAT, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> OperatingPoint:
        """Read what :meth:`save` wrote; a file that was damaged or changed is refused."""
        content = read_checked_json(Path(path), FORMAT, "an operating point")
        try:
            return cls.from_dict(content)
        except EqrmError as error:
            raise DataFileError(f"{path}: {error}") from None
