"""What is watched: the certificate of a predictor, and where the risks of new domains come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from eqrm.checks import OPEN_FRACTION, check_all, is_number, one_of
from eqrm.data.times import Times, as_times
from eqrm.domains import Name
from eqrm.errors import DataFileError, DomainDataError, EqrmError, SettingError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.inference.exchangeability import order_test
from eqrm.evaluation.inference.in_time.drift import FEWEST_REFERENCES
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.inference.in_time.watch import Watch
from eqrm.evaluation.inference.risk_checks import LevelLike
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.files.checked_json import parsed_json
from eqrm.files.reading import regular_file
from eqrm.level import Level
from eqrm.text import did_you_mean

ALPHA, CONFIDENCE, DELTA = 0.9, 0.95, 0.05
GIVEN_LOSS = "loss"
"""What an evaluation calls its loss where losses were given, and not computed."""
Time = str | int | float
"""When a domain was, ready for JSON: dates as strings of one length. Both are compared as is."""


@dataclass(frozen=True)
class WatchedColumns:
    """The columns of files with new domains, and how losses are computed from them.

    Either ``loss``, or ``label`` and ``prediction`` with ``metric`` and ``clip``.
    """

    loss: str | None = None
    label: str | None = None
    prediction: str | None = None
    domain: tuple[str, ...] = ()
    metric: str | None = None
    clip: float | None = None
    order: str | None = None
    """The time of each row, where the domains' names are not their times."""

    def differing(self, given: WatchedColumns) -> list[str]:
        """What was given now and is not what is watched."""
        return [
            f"--{name} is {_shown(theirs)}, but the watch was started with {_shown(ours)}."
            for name, ours, theirs in self._beside(given)
            if theirs not in (None, ()) and theirs != ours
        ]

    def updated(self, given: WatchedColumns) -> WatchedColumns:
        """The same, with what was given in its place."""
        given_now = {n: theirs for n, _, theirs in self._beside(given) if theirs not in (None, ())}
        return replace(self, **given_now)

    def _beside(self, other: WatchedColumns) -> list[tuple[str, Any, Any]]:
        return [(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]

    def completed(self, loss: str) -> WatchedColumns:
        """With the metric of the certificate; raises where columns are missing or too many."""
        metric = self.metric or loss
        check_all(
            lambda: _refuse(
                not self.domain, "--domain COLUMN is required: the domain of each new row."
            ),
            lambda: _refuse(
                metric != loss,
                f"The certificate is about the {loss_in_words(loss)}, and --metric is {metric!r}.",
            ),
            lambda: self._refuse_columns(loss),
        )
        return replace(self, metric=metric, clip=self.clip or 0.0)

    def _refuse_columns(self, loss: str) -> None:
        if loss == GIVEN_LOSS:
            _refuse(
                self.loss is None or bool(self.label or self.prediction),
                "The certificate is about losses that were given, so new files need them too: "
                "--loss COLUMN, and neither --label nor --prediction.",
            )
            return
        _refuse(
            self.loss is not None or not self.label or not self.prediction,
            f"The certificate is about the {loss_in_words(loss)} of predictions, so new files need "
            "labels and predictions: --label COLUMN and --prediction COLUMN, and not --loss.",
        )


@dataclass(frozen=True, kw_only=True)
class WatchedCertificate:
    """A certificate, whose predictor it is about, and the domains that it was computed on."""

    predictor: str
    certificate: Certificate
    delta: float
    columns: WatchedColumns
    warnings: tuple[str, ...] = ()
    """What speaks against the certificate's assumption before anything new has come."""
    domains: tuple[Name, ...]
    """In the order of time if that is known, as are ``risks``."""
    risks: tuple[float, ...]
    sizes: tuple[int, int]
    """The least and the largest number of examples."""
    through: Time | None
    """The time of the last of the domains, if known."""

    def watch(self) -> Watch:
        """A watch that has seen nothing yet."""
        ordered = self.through is not None and len(self.risks) >= FEWEST_REFERENCES
        return Watch(self.certificate, self.delta, reference=self.risks if ordered else None)

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        own = {f.name: getattr(self.certificate, f.name) for f in fields(Certificate)}
        return {
            "predictor": self.predictor,
            "certificate": own,
            "delta": self.delta,
            "columns": asdict(self.columns) | {"domain": list(self.columns.domain)},
            "domains": list(self.domains),
            "risks": list(self.risks),
            "sizes": list(self.sizes),
            "through": self.through,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> WatchedCertificate:
        """What :meth:`to_dict` described."""
        columns, numbers = content["columns"], (*content["risks"], content["delta"])
        if len(content["domains"]) != len(content["risks"]) or len(content["sizes"]) != 2:
            raise ValueError("its domains have no risks")
        if not all(map(is_number, numbers)):
            raise ValueError("a risk that is not a finite number")
        return cls(
            **{
                **content,
                "certificate": Certificate(**content["certificate"]),
                "columns": WatchedColumns(**{**columns, "domain": tuple(columns["domain"])}),
                **{key: tuple(content[key]) for key in ("domains", "risks", "sizes", "warnings")},
            }
        )


def certificate_to_watch(
    path: Path,
    columns: WatchedColumns,
    *,
    predictor: str | None = None,
    usual: str | None = None,
    alpha: LevelLike | None = None,
    confidence: float | None = None,
    delta: float = DELTA,
    dependence: int = 0,
) -> WatchedCertificate:
    """The certificate of a predictor, computed on the domains of an evaluation in a file.

    The file is ``evaluation.json`` of ``eqrm train``, or what ``eqrm evaluate --format json``
    wrote. Level and confidence are those of its certificates, or else 0.9 and 0.95. The predictor
    is the only one, or ``usual``, unless ``predictor`` names another.
    """
    evaluation, known = _read(path)
    if evaluation.nesting is not None:
        raise SettingError(
            f"{path} is about domains inside groups, which a watch cannot tell apart. Evaluate "
            "without --within."
        )
    name = _chosen(evaluation, predictor, usual, path)
    complete = _clipped_as(evaluation, columns).completed(evaluation.loss)
    ordered = evaluation.order
    if complete.order is None and ordered is not None and ordered.name != DomainOrder.name:
        complete = replace(complete, order=ordered.name)
    OPEN_FRACTION.check(delta, "--delta")
    measured = evaluation[name]
    times = _times(evaluation, complete)
    order = range(len(measured)) if times is None else sorted(range(len(measured)), key=_by(times))
    risks = tuple(float(measured.risks[place]) for place in order)
    if times is None and complete.order is None:
        raise SettingError(
            "New domains are judged in the order of time, but the certified domains are neither "
            f"dates nor numbers, such as {measured.domains[0]!r}. Name the column with the time of "
            "each new row (--order COLUMN), and give it to 'eqrm evaluate' too."
        )
    if dependence and times is None:
        raise SettingError(
            "--dependence needs certified domains in the order of time, but their names are "
            f"neither dates nor numbers, such as {measured.domains[0]!r}. Give 'eqrm evaluate' the "
            "column of the time (--order)."
        )
    if dependence and evaluation.order is not None:
        evaluation.order.arranged(measured.risks, measured.domains)  # refuses equal times
    found = quantile_bound(
        risks,
        known.get("alpha", ALPHA) if alpha is None else alpha,
        known.get("confidence", CONFIDENCE) if confidence is None else confidence,
        dependence,
    )
    return WatchedCertificate(
        predictor=name,
        certificate=found,
        delta=float(delta),
        columns=complete,
        domains=tuple(measured.domains[place] for place in order),
        risks=risks,
        sizes=(int(measured.counts.min()), int(measured.counts.max())),
        through=None if times is None else max(times),
        warnings=start_warnings(risks, times is not None, dependence),
    )


def plain_times(times: Times) -> list[Time]:
    """Times (n,) as numbers, or as strings that sort like the dates they are.

    >>> plain_times(as_times(["2013-07-02"], "times")), plain_times(as_times(["7", "10"], "times"))
    (['2013-07-02T00:00:00.000000'], [7, 10])
    """
    return [str(time) for time in times] if times.dtype.kind == "M" else times.tolist()


def _read(path: Path) -> tuple[Evaluation, dict[str, Any]]:
    """The evaluation in a file, and the level and confidence that it was asked for."""
    advice = (
        "Give the evaluation.json of 'eqrm train', or what 'eqrm evaluate FILES … --format json "
        "--output FILE' wrote."
    )
    regular_file(path)
    try:
        content = parsed_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror}. {advice}") from None
    except ValueError:
        raise DataFileError(f"{path} is not an evaluation in JSON. {advice}") from None
    try:
        found = Evaluation.from_dict(content)
        if found.order is not None and len(found.order.times) != len(found.domains):
            raise ValueError(found.order)
        return found, _settings_in(content)
    except EqrmError as error:
        raise DataFileError(f"{path}: {error} {advice}") from None
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        raise DataFileError(f"{path} is an evaluation that was damaged. {advice}") from None


def _clipped_as(evaluation: Evaluation, columns: WatchedColumns) -> WatchedColumns:
    """With the clip of an evaluation, which bounded its log-loss; another one is refused."""
    if evaluation.loss != "log-loss" or evaluation.bounds is None:
        return columns
    clip = float(f"{math.exp(-evaluation.bounds[1]):.12g}")
    if columns.clip is not None and not math.isclose(columns.clip, clip, rel_tol=1e-9):
        raise SettingError(
            f"The certificate is about probabilities clipped to [{clip:g}, 1 - {clip:g}], and "
            f"--clip is {columns.clip:g}. Leave --clip out."
        )
    return replace(columns, clip=columns.clip or clip)


def _chosen(evaluation: Evaluation, predictor: str | None, usual: str | None, path: Path) -> str:
    if predictor is not None:
        return one_of(predictor, evaluation.predictors, "predictor")
    names = list(evaluation.predictors)
    if usual in names:
        return str(usual)
    if len(names) > 1:
        raise SettingError(
            f"{path} holds {len(names)} predictors. Say whose certificate is watched with "
            f"--predictor NAME. {did_you_mean('', names)}"
        )
    return names[0]


def _settings_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """Level and confidence that 'eqrm evaluate' was asked for, where the file says so."""
    summary, table = content.get("summary", {}), content.get("risk_table", {})
    found = {"alpha": Level.parse(summary["alpha"])} if "alpha" in summary else {}
    return found | {key: table[key] for key in ("confidence",) if key in table}


def _times(evaluation: Evaluation, columns: WatchedColumns) -> list[Time] | None:
    """When the certified domains were; None where neither a column nor their names say so."""
    if evaluation.order is not None:
        return plain_times(evaluation.order.times)
    if columns.order not in (None, *columns.domain):
        return None
    try:
        return plain_times(as_times(list(evaluation.domains), "domains"))
    except DomainDataError:
        return None


def start_warnings(risks: tuple[float, ...], ordered: bool, dependence: int) -> tuple[str, ...]:
    """What speaks against the assumption of a certificate on domains with these risks."""
    if not ordered:
        return (
            "When the certified domains were is not known, so that changes of the risk's "
            "distribution are not tested: name them by dates or numbers, or give 'eqrm evaluate' "
            "the column of the time (--order).",
        )
    if len(risks) < FEWEST_REFERENCES:
        return ()
    found = order_test(risks)
    if found.rejected == "serial" and not dependence:
        return (
            f"Consecutive certified domains have similar risks (p = {found.p_value:.2g}). They do "
            "not look independent, so the certificate may be too optimistic, and false alarms more "
            "frequent: use --dependence K where K is known.",
        )
    if found.rejected == "trend":
        return (
            f"The risk of the certified domains changes over time (p = {found.p_value:.2g}), so "
            "that new ones may differ from them: certify on the most recent domains.",
        )
    return ()


def _by(times: list[Time]) -> Any:
    return lambda place: times[place]


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise SettingError(message)


def _shown(value: Any) -> str:
    return ", ".join(map(repr, value)) if isinstance(value, tuple) else repr(value)
