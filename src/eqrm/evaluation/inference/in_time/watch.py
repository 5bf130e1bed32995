"""The watch: does a certificate still hold for the domains that come? Looked at after every one.

The hypothesis is what the certificate states: a new domain's risk exceeds b with a probability of
at most 1−α, whatever the domains before it. An :class:`Evidence` bets against it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.checks import NON_NEGATIVE_INTEGER, number
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.in_time.evidence import (
    Evidence,
    RiskDrift,
    carried,
    log_miss_factors,
    miss_rate_interval,
)
from eqrm.evaluation.inference.in_time.spells import SpellCertificate
from eqrm.evaluation.inference.risk_checks import Finding, checked_risks
from eqrm.evaluation.rounding import as_percent, rounded_up
from eqrm.text import counted

HOLDS, SUSPICIOUS, BROKEN = "still holds", "suspicious", "broken"
CHUNK = 65_536
FORMAT = 1
CLAIM = ("bound", "alpha", "confidence")
DELTAS = number(least=1e-100, below=1)
"""Evidence that is too large for a number could not reach 1/δ."""


@dataclass(frozen=True, kw_only=True)
class WatchReport(Finding):
    """What a :class:`Watch` has seen so far.

    ``evidence`` is that against the certificate now, ``largest_evidence`` the largest so far; the
    alarm rings when it reaches ``alarm_at`` = 1/δ, which happened at domain number ``alarm``
    (counting from 1) or not at all (None). ``verdict`` is "still holds", "suspicious" (the evidence
    now is at least √(1/δ)) or "broken". ``low`` and ``high`` limit the probability of a miss, at
    all times at once, with a confidence of 1−δ, if it does not change. ``drift_evidence`` and
    ``drift_alarm`` are about any change of the risk's distribution (None without reference risks),
    ``largest_drift_evidence`` is the largest so far.
    """

    derived = ("verdict", "miss_rate", "sentence")

    domains: int
    misses: int
    allowed: float
    low: float
    high: float
    evidence: float
    largest_evidence: float
    alarm_at: float
    alarm: int | None
    drift_evidence: float | None
    drift_alarm: int | None
    largest_drift_evidence: float | None = None

    @property
    def verdict(self) -> str:
        """ "still holds", "suspicious" or "broken"."""
        return verdict_of(self.evidence, self.alarm_at, self.alarm is not None)

    @property
    def miss_rate(self) -> float | None:
        """The share of domains with a risk above the bound."""
        return self.misses / self.domains if self.domains else None

    @property
    def sentence(self) -> str:
        """The verdict, with its numbers."""
        return self.told()

    def told(self, where: object = None) -> str:
        """The same, where the alarm rang at a domain that has a name."""
        if not self.domains:
            return "No domain has been watched yet."
        rate = (
            f"{self.misses:,} of {counted(self.domains, 'domain')} missed the bound "
            f"({as_percent(round(self.misses / self.domains, 4))}, between "
            f"{as_percent(round(self.low, 4))} and {as_percent(round(self.high, 4))}), "
            f"where {as_percent(round(self.allowed, 10))} may"
        )
        rang = "" if self.alarm is None else f" The alarm rang at domain {self.alarm:,}."
        if where is not None:
            rang = f" The alarm rang at '{where}', domain number {self.alarm:,} of the watch."
        return (
            f"{self.verdict.capitalize()}: {rate}. Evidence {self.evidence:.3g}, largest "
            f"{self.largest_evidence:.3g}; the alarm rings at {self.alarm_at:.3g}.{rang}"
        )


def verdict_of(evidence: float, alarm_at: float, rang: bool) -> str:
    """The word for the evidence now, and whether it has been enough for an alarm before."""
    if rang:
        return BROKEN
    return SUSPICIOUS if evidence >= math.sqrt(alarm_at) else HOLDS


class Watch:
    """A test, after every new domain, of what a certificate states: "a share α has risk ≤ b".

    ``certificate`` comes from :func:`quantile_bound` or any of its relatives. The alarm rings with
    a probability of at most ``delta``, however long one watches, if the statement is true; if it
    was certified with a confidence, of at most ``delta`` + 1 − confidence.

    *Assumption:* new domains are independent, or, with ``dependence=k`` (by default that of the
    certificate), independent of those more than k places earlier: k+1 interleaved tests, each with
    δ/(k+1). The k domains that follow those of the certificate depend on it: leave them out.

    With ``reference``, risks of earlier domains in the order of time, the watch also tests whether
    the distribution of the risk has changed in any way, again with at most ``delta``.

    >>> from eqrm.evaluation.inference.certificates import quantile_bound
    >>> watch = Watch(quantile_bound([i / 100 for i in range(100)]))
    >>> for risk in (0.5, 0.97, 0.98, 0.99, 0.99):
    ...     evidence = watch.update(risk)
    >>> watch.report.verdict, watch.report.alarm
    ('broken', 4)
    """

    def __init__(
        self,
        certificate: Certificate,
        delta: float = 0.05,
        dependence: int | None = None,
        reference: Any = None,
    ) -> None:
        bound, alpha = _claim(certificate)
        parts = 1 + _dependence(certificate, dependence)
        drift = None if reference is None else RiskDrift(reference, parts - 1)
        self._begin((bound, alpha, certificate.confidence), delta, parts, drift)

    def _begin(
        self, claim: tuple[float, float, float], delta: float, parts: int, drift: RiskDrift | None
    ) -> None:
        self.bound, self.alpha, self.confidence = claim
        self.delta = DELTAS.check(delta, "delta")
        self.dependence = parts - 1
        self.domains = 0
        self._misses = [0] * parts
        self._processes = [Evidence(bets=5) for _ in range(parts)]
        self._alarm: int | None = None
        self._drift = drift
        self._drift_alarm: int | None = None

    @property
    def assumption(self) -> str:
        """What must be true for false alarms to be as rare as stated, as a sentence."""
        return assumed(self, f"have a risk of at most {rounded_up(self.bound)}")

    def update(self, risk: float) -> float:
        """Take the risk of one new domain; returns the evidence against the certificate."""
        if np.size(risk) != 1:
            raise DomainDataError(
                f"update takes the risk of one domain, got {counted(np.size(risk), 'number')}. "
                "Use update_many for several."
            )
        return float(self.update_many(np.reshape(risk, 1))[-1])

    def update_many(self, risks: Any) -> Any:
        """Take risks (n,) in the order of time; returns the evidence after each (n,).

        The state afterwards is the same, to the last bit, as after n calls of :meth:`update`. A
        risk that is not finite is refused, and the state does not change; the error counts domains
        from 1 since the start.
        """
        if np.size(risks) == 0:
            return np.empty(0)
        values = checked_risks(risks, "New risks", 1, self.domains + 1)
        return np.concatenate(
            [self._extend(values[i : i + CHUNK]) for i in range(0, values.size, CHUNK)]
        )

    def _extend(self, risks: Any) -> Any:
        parts = self.dependence + 1
        missed = risks > self.bound
        each = np.empty((parts, risks.size))
        for part, process in enumerate(self._processes):
            mine = np.arange((part - self.domains) % parts, risks.size, parts)
            factors = log_miss_factors(missed[mine], 1.0 - self.alpha)
            each[part] = carried(process.current, process.extend(factors), mine, risks.size)
            self._misses[part] += int(missed[mine].sum())
        evidence = each.max(axis=0) / parts
        self._alarm = self._alarm or self._first_alarm(evidence)
        if self._drift is not None:
            drift = self._drift.update_many(risks)
            self._drift_alarm = self._drift_alarm or self._first_alarm(drift)
        self.domains += risks.size
        return evidence

    def _first_alarm(self, evidence: Any) -> int | None:
        reached = np.flatnonzero(evidence >= 1.0 / self.delta)
        return self.domains + int(reached[0]) + 1 if reached.size else None

    @property
    def report(self) -> WatchReport:
        """Everything known so far."""
        parts = self.dependence + 1
        limits = [
            miss_rate_interval(misses, process.steps, 1.0 - self.alpha, self.delta / parts)
            for misses, process in zip(self._misses, self._processes, strict=True)
        ]
        return WatchReport(
            domains=self.domains,
            misses=sum(self._misses),
            allowed=1.0 - self.alpha,
            low=max(low for low, _ in limits),
            high=min(high for _, high in limits),
            evidence=max(process.current for process in self._processes) / parts,
            largest_evidence=max(process.largest for process in self._processes) / parts,
            alarm_at=1.0 / self.delta,
            alarm=self._alarm,
            drift_evidence=None if self._drift is None else self._drift.current,
            drift_alarm=self._drift_alarm,
            largest_drift_evidence=None if self._drift is None else self._drift.largest,
        )

    def to_dict(self) -> dict[str, Any]:
        """The state, ready for JSON; its size does not depend on the number of domains."""
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in (*CLAIM, "delta", "domains")},
            "misses": list(self._misses),
            "processes": [process.to_dict() for process in self._processes],
            "alarm": self._alarm,
            "drift": None if self._drift is None else self._drift.to_dict(),
            "drift_alarm": self._drift_alarm,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Watch:
        """The watch that :meth:`to_dict` described, which goes on where that one stopped."""
        try:
            if state["format"] != FORMAT:
                raise ValueError(state["format"])
            alarms = [state[key] or 1 for key in ("alarm", "drift_alarm")]
            parts, last = len(state["processes"]), max(1, state["domains"])
            if not 0 < parts == len(state["misses"]) or not 1 <= min(alarms) <= max(alarms) <= last:
                raise ValueError("numbers that contradict each other")
            made = cls.__new__(cls)
            bound, alpha, confidence = (float(state[name]) for name in CLAIM)
            drift = RiskDrift.from_dict(state["drift"]) if state["drift"] else None
            made._begin((bound, alpha, confidence), float(state["delta"]), parts, drift)
            made.domains = int(state["domains"])
            made._misses = [int(misses) for misses in state["misses"]]
            made._processes = [Evidence.from_dict(each) for each in state["processes"]]
            made._alarm, made._drift_alarm = state["alarm"], state["drift_alarm"]
        except (KeyError, TypeError, ValueError) as error:
            raise DomainDataError(
                f"This is not the state of a watch (format {FORMAT}): {error!r}. Use what "
                "Watch.to_dict returned."
            ) from error
        return made


def _claim(certificate: Certificate) -> tuple[float, float]:
    """The risk b and the share α of a certificate of either kind."""
    if not isinstance(certificate, Certificate):
        raise SettingError(
            "certificate must be a Certificate, such as quantile_bound returns, got "
            f"{type(certificate).__name__}."
        )
    if certificate.kind == "quantile":
        bound, alpha = certificate.bound, certificate.alpha or 0.0
    else:
        bound, alpha = certificate.threshold or 0.0, certificate.bound
    if certificate.vacuous or not math.isfinite(bound) or not 0.0 < alpha < 1.0:
        raise SettingError(
            f"There is nothing to watch: the certificate is vacuous ({certificate.sentence})"
        )
    return bound, alpha


def _dependence(certificate: Certificate, given: int | None) -> int:
    if given is not None:
        return NON_NEGATIVE_INTEGER.check(given, "dependence")
    if isinstance(certificate, SpellCertificate):
        raise SettingError(
            "This certificate is for domains in spells, which does not say after how many domains "
            "they are independent. Choose dependence=k: the longer, the fewer false alarms, and "
            f"the later a true one (the estimated block length is {certificate.block_length:.1f})."
        )
    return certificate.dependence


def assumed(watch: Watch, promised: str) -> str:
    """The assumption of a watch, with what is promised of domains in words."""
    if watch.dependence == 0:
        which = "New domains are independent of each other"
    else:
        places = counted(watch.dependence, "place")
        which = f"New domains are independent of those more than {places} earlier"
    return (
        f"{which}. Then the alarm rings with a probability of at most "
        f"{as_percent(watch.delta)}, however long one watches, if at least "
        f"{as_percent(watch.alpha)} of new domains {promised}. Where neighbouring domains "
        "resemble each other beyond that, false alarms are more frequent."
    )
