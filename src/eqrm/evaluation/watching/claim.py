"""What is watched: the certificate of a model, and the rows of new domains in files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eqrm.checks import (
    CONFIDENCE,
    NON_NEGATIVE_INTEGER,
    OPEN_FRACTION,
    are_numbers,
    check_all,
    one_of,
    optional,
)
from eqrm.data.times import Times, as_times
from eqrm.domains import Name
from eqrm.errors import DataFileError, DomainDataError, EqrmError, Setting, SettingError
from eqrm.evaluation.controlling.operating_point import FORMAT as POINT
from eqrm.evaluation.controlling.operating_point import OperatingPoint
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.inference.exchangeability import order_test
from eqrm.evaluation.inference.in_time.evidence import FEWEST_REFERENCES
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.inference.in_time.watch import Watch
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.measuring.metrics import METRICS, loss_in_words
from eqrm.evaluation.measuring.requirement import LOSS, Requirement
from eqrm.files.checked_json import parsed_json
from eqrm.files.reading import regular_file
from eqrm.level import Level
from eqrm.text import did_you_mean

USUAL = {"alpha": 0.9, "confidence": 0.95, "delta": 0.05, "dependence": 0}
GIVEN_LOSS = "loss"
"""What an evaluation calls its loss where losses were given, and not computed."""
Time = str | int | float
"""When a domain was, ready for JSON: dates as strings of one length. Both are compared as is."""


@dataclass(frozen=True)
class WatchSettings:
    """The certificate to watch and the columns of new files; None where nothing was said.

    New files hold either ``loss``, or ``target`` and ``prediction``, from which losses are computed
    by ``metric`` and ``clip``. ``order`` is the time of each row, where the domains' names are not
    their times.
    """

    domain: tuple[str, ...] | None = None
    loss: str | None = None
    target: str | None = None
    prediction: str | None = None
    metric: str | None = None
    clip: float | None = None
    order: str | None = None
    model: str | None = None
    alpha: LevelLike | None = None
    confidence: float | None = None
    delta: float | None = None
    dependence: int | None = None

    @property
    def said(self) -> dict[str, Any]:
        """What is not None."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def check(self) -> None:
        """Refuse numbers that no watch can have, all of them at once."""
        check_all(
            lambda: optional(OPEN_FRACTION).check(self.delta, str(Setting("delta"))),
            lambda: optional(CONFIDENCE).check(self.confidence, str(Setting("confidence"))),
            lambda: optional(NON_NEGATIVE_INTEGER).check(
                self.dependence, str(Setting("dependence"))
            ),
        )

    def refuse_differing(self, given: WatchSettings) -> None:
        """Raise if something else is said now than what is watched."""
        now = given.said
        if given.alpha is not None:
            now["alpha"] = checked_alpha(given.alpha)
        problems = [
            f"{Setting(name)} is {value!r}, but the watch was started with {getattr(self, name)!r}."
            for name, value in now.items()
            if value != getattr(self, name)
        ]
        if problems:
            advice = f"Leave it out, or watch a new certificate ({Setting('restart')})."
            raise SettingError(" ".join([*problems, advice]))

    def completed(self, evaluation: Evaluation) -> WatchSettings:
        """With what the evaluation says; raises where columns are missing or too many."""
        loss, bounds = evaluation.loss, evaluation.bounds
        measurable = (GIVEN_LOSS, *METRICS) if Requirement.among(loss) is None else (loss,)
        if loss.partition(":")[0] not in measurable:
            raise SettingError(
                f"The certificate is about the {loss_in_words(loss)}, which a watch cannot compute "
                "for new rows. Evaluate a column of losses, and watch that."
            )
        clip, problems = self.clip or 0.0, []
        if loss == "log-loss" and bounds is not None:
            clip = float(f"{math.exp(-bounds[1]):.12g}")
            if self.clip is not None and not math.isclose(self.clip, clip, rel_tol=1e-9):
                problems.append(
                    f"The certificate is about probabilities clipped to [{clip:g}, 1 - {clip:g}], "
                    f"and {Setting('clip')} is {self.clip:g}. Leave {Setting('clip')} out."
                )
        if not self.domain:
            problems.append(
                f"{Setting('domain', 'COLUMN')} is required: the domain of each new row."
            )
        if self.metric not in (None, loss):
            problems.append(
                f"The certificate is about the {loss_in_words(loss)}, and {Setting('metric')} is "
                f"{self.metric!r}."
            )
        about, needed, others = "losses that were given", ["loss"], ["target", "prediction"]
        if loss != GIVEN_LOSS:
            about, needed, others = f"the {loss_in_words(loss)} of predictions", others, needed
        if not all(getattr(self, name) for name in needed) or any(
            getattr(self, name) for name in others
        ):
            columns = " and ".join(str(Setting(name, "COLUMN")) for name in needed)
            problems.append(
                f"The certificate is about {about}, so new files need {columns}, and nothing else."
            )
        if problems:
            raise SettingError(" ".join(problems))
        order = evaluation.order
        known = None if order is None or order.name == DomainOrder.name else order.name
        return replace(self, metric=loss, clip=clip, order=self.order or known)


@dataclass(frozen=True, kw_only=True)
class WatchedCertificate:
    """A certificate, how it is watched, and the domains that it was computed on."""

    certificate: Certificate
    settings: WatchSettings
    warnings: tuple[str, ...] = ()
    """What speaks against the certificate's assumption before anything new has come."""
    domains: tuple[Name, ...]
    """In the order of time if that is known, as are ``risks``."""
    risks: tuple[float, ...]
    sizes: tuple[int, int]
    """The least and the largest number of examples."""
    through: Time | None
    """The time of the last of the domains, if known."""

    @property
    def model(self) -> str:
        return str(self.settings.model)

    @property
    def requirement(self) -> Requirement | None:
        """What decisions must achieve, where an operating point is watched."""
        return Requirement.among(self.settings.metric)

    @property
    def statement(self) -> tuple[Any, ...]:
        """What it is about, whatever the options of its watch."""
        return self.model, self.certificate.bound, self.domains, self.risks

    def watch(self) -> Watch:
        """A watch that has seen nothing yet."""
        ordered = self.through is not None and len(self.risks) >= FEWEST_REFERENCES
        return Watch(
            self.certificate,
            self.settings.delta or USUAL["delta"],
            reference=self.risks if ordered else None,
        )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> WatchedCertificate:
        """What ``dataclasses.asdict`` made of it."""
        settings, lists = content["settings"], ("domains", "risks", "sizes", "warnings")
        if len(content["domains"]) != len(content["risks"]) or len(content["sizes"]) != 2:
            raise ValueError("its domains have no risks")
        if not are_numbers([*content["risks"], settings["delta"]]):
            raise ValueError("a risk that is not a finite number")
        return cls(
            **{
                **content,
                "certificate": Certificate(**content["certificate"]),
                "settings": WatchSettings(**{**settings, "domain": tuple(settings["domain"])}),
                **{name: tuple(content[name]) for name in lists},
            }
        )


def certificate_to_watch(
    path: Path, given: WatchSettings, usual: str | None = None
) -> WatchedCertificate:
    """The certificate of a model, computed on the domains of an evaluation in a file.

    The file is what ``eqrm train`` or ``eqrm evaluate --format json`` wrote. Level and confidence
    are those given, or of the evaluation, or else 0.9 and 0.95. The model is the one given, or
    the only one, or ``usual``.
    """
    evaluation, known = _read(path)
    if evaluation.nesting is not None:
        raise SettingError(
            f"{path} is about domains inside groups, which a watch cannot tell apart. Evaluate "
            f"without {Setting('within')}."
        )
    own = [name for name in ("alpha", "confidence", "dependence") if name in given.said]
    if own and "setting" in known:
        raise SettingError(
            f"The operating point in {path} was computed for its own level: leave out "
            f"{', '.join(str(Setting(each)) for each in own)}, or compute another point."
        )
    if known.get("ends") not in (None, ":" in str(given.prediction)):
        raise SettingError(
            f"{Setting('prediction')} must name such columns as the operating point in {path} was "
            "computed on (numbers, or LOWER:UPPER), not those of decisions."
        )
    name = _chosen(evaluation, given.model, usual, path)
    asked = {k: given.said.get(k, known.get(k, usual)) for k, usual in USUAL.items()}
    settings = replace(given.completed(evaluation), model=name)
    measured, dependence = evaluation[name], asked["dependence"]
    times = _times(evaluation, settings)
    if times is None and (dependence or settings.order is None):
        raise SettingError(
            f"New domains are judged in the order of time, and {Setting('dependence')} counts in "
            "it, but the certified domains are neither dates nor numbers, such as "
            f"{measured.domains[0]!r}. Name the column with the time of each new row "
            f"({Setting('order', 'COLUMN')}), and give it to 'eqrm evaluate' too."
        )
    if dependence and evaluation.order is not None:
        evaluation.order.arranged(measured.risks, measured.domains)  # refuses equal times
    places = list(range(len(measured)))
    if times is not None:
        places.sort(key=times.__getitem__)
    risks = tuple(float(measured.risks[place]) for place in places)
    found = quantile_bound(risks, asked["alpha"], asked["confidence"], dependence)
    bound = known.get("setting", found.bound)
    found = replace(found, bound=bound, proven=not evaluation.cross_fitted)
    return WatchedCertificate(
        certificate=found,
        settings=replace(settings, **{**asked, "alpha": found.alpha}),
        domains=tuple(measured.domains[place] for place in places),
        risks=risks,
        sizes=(int(measured.counts.min()), int(measured.counts.max())),
        through=None if times is None else max(times),
        warnings=_doubts(risks, times is not None, dependence),
    )


def plain_times(times: Times) -> list[Time]:
    """Times (n,) as numbers, or as strings that sort like the dates they are."""
    return [str(time) for time in times] if times.dtype.kind == "M" else times.tolist()


def _read(path: Path) -> tuple[Evaluation, dict[str, Any]]:
    """The evaluation in a file, and the level and confidence that it was asked for."""
    advice = (
        "Give the evaluation.json of 'eqrm train', or what 'eqrm evaluate FILES … --format json "
        "--output FILE' wrote."
    )
    text = regular_file(path).read_text(encoding="utf-8", errors="replace")
    try:
        content = parsed_json(text)
        if content.get("format") == POINT:
            return _of_point(OperatingPoint.load(path))
        found = Evaluation.from_dict(content)
        if found.order is not None and len(found.order.times) != len(found.domains):
            raise ValueError(found.order)
        known = {k: v for k, v in content.get("risk_table", {}).items() if k == "confidence"}
        if "alpha" in (summary := content.get("summary", {})):
            known["alpha"] = Level.parse(summary["alpha"])
    except EqrmError as error:
        raise DataFileError(f"{path}: {error} {advice}") from None
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        raise DataFileError(f"{path} is not an evaluation, or it was damaged. {advice}") from None
    return found, known


def _of_point(point: OperatingPoint) -> tuple[Evaluation, dict[str, Any]]:
    """The settings that domains need by the model that was chosen, and what was asked."""
    asked = point.asked.of_one(len(point.models))
    own = point.requirement.kind == LOSS
    if asked.true or asked.spells or asked.recent is not None or point.scaled or own:
        raise SettingError(
            "A watch takes operating points for the measured share of independent or k-dependent "
            "domains, without a scale: compute one without true, spells, recent and scale. What "
            "'loss <= …' promises is watched as the loss itself, by a certificate."
        )
    found = replace(point.needed, models={point.model: point.needed[point.model]})
    known = {"alpha": Level(asked.alpha), "confidence": asked.confidence, "setting": point.setting}
    ends = point.ends if point.requirement.numbers else None
    return found, {**known, "dependence": asked.dependence or 0, "ends": ends}


def _chosen(evaluation: Evaluation, model: str | None, usual: str | None, path: Path) -> str:
    names = list(evaluation.models)
    if model is not None:
        return one_of(model, names, "model")
    if usual in names:
        return str(usual)
    if len(names) != 1:
        raise SettingError(
            f"{path} holds {len(names)} models. Say whose certificate is watched with "
            f"{Setting('model', 'NAME')}. {did_you_mean('', names)}"
        )
    return names[0]


def _times(evaluation: Evaluation, settings: WatchSettings) -> list[Time] | None:
    """When the certified domains were; None where neither a column nor their names say so."""
    if evaluation.order is not None:
        return plain_times(evaluation.order.times)
    if settings.order is not None and settings.domain != (settings.order,):
        return None
    try:
        return plain_times(as_times(list(evaluation.domains), "domains"))
    except DomainDataError:
        return None


def _doubts(risks: tuple[float, ...], ordered: bool, dependence: int) -> tuple[str, ...]:
    """What speaks against the assumption of a certificate on domains with these risks."""
    if not ordered:
        return (
            "When the certified domains were is not known, so that changes of the risk's "
            "distribution are not tested: name them by dates or numbers, or give 'eqrm evaluate' "
            f"the column of the time ({Setting('order')}).",
        )
    if len(risks) < FEWEST_REFERENCES:
        return ()
    found = order_test(risks)
    known = found.rejected == "serial" and dependence > 0
    return () if found.warning is None or known else (found.warning,)


@dataclass(frozen=True)
class Arrival:
    """The rows of one domain in one file: when, how many, and the mean of their losses.

    ``source`` tells the file from others by its content, and ``seen`` says whether the model was
    trained on the domain (the column that ``eqrm predict`` writes).
    """

    domain: Name
    time: Time
    examples: int
    risk: float
    source: str
    file: str
    seen: bool = False
