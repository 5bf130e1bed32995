"""The evaluation of one or several models: measured risks, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from eqrm.checks import one_of
from eqrm.domains import DomainKey, Name
from eqrm.errors import DomainDataError, EqrmError, Setting, SettingError
from eqrm.evaluation.certifying import Certifier
from eqrm.evaluation.inference.cdf_bands import CdfBand, cdf_band
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import LEVELS as COMPARED_LEVELS
from eqrm.evaluation.inference.comparison import paired_differences
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest, order_test
from eqrm.evaluation.inference.in_time.ordered import DomainOrder, TimeBound, TimeBounds
from eqrm.evaluation.inference.nested.findings import NestedFindings, nested_findings
from eqrm.evaluation.inference.noise import NoiseSplit, noise_split
from eqrm.evaluation.inference.risk_checks import LevelLike, as_levels
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.measuring.set_metrics import DomainMetric
from eqrm.evaluation.presenting.in_notebooks import PairedComparison, ShownRisks
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.references import References
from eqrm.risks import MeasuredRisks
from eqrm.text import counted, listed

LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
SUPERQUANTILES = (0.9, 0.95, 0.99)
FEWEST_TO_TEST = 5
FORMAT = "eqrm evaluation 2"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(ShownRisks):
    """Models by name, each with its risks on the same domains.

    ``evaluation["ERM"]`` is a ``MeasuredRisks``: names of domains, counts, risks and variances.
    ``loss`` names the loss, ``bounds`` are the least and the largest loss possible (None where
    it has no bound). ``references`` are what the models are compared with, if they were asked
    for. ``nesting`` says which columns name groups and members, where domains are nested; ``order``
    says when the domains began, if a column does. ``seen`` and ``earlier`` are domains that were
    left out: training has seen them, or they began too early. ``cross_fitted`` says that each
    domain was judged by a model of other domains, so that certificates are not proven. ``metrics``
    has, by model, a metric that is no mean of losses; risks are then 1 − metric.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> found
    <Evaluation: One model measured by the loss of 4 examples in 2 domains.>
    >>> found.domains, found["model"].risks.tolist(), found["model"].counts.tolist()
    (('a', 'b'), [0.2, 0.7], [2, 2])
    """

    models: Mapping[str, MeasuredRisks]
    loss: str
    bounds: tuple[float, float] | None
    references: References | None = None
    nesting: DomainKey | None = None
    order: DomainOrder | None = None
    seen: tuple[Name, ...] = ()
    earlier: tuple[Name, ...] = ()
    cross_fitted: bool = False
    metrics: Mapping[str, DomainMetric] = field(default_factory=dict)

    @cached_property
    def outer_domains(self) -> tuple[str, ...] | None:
        """The group that each domain is in, where domains are nested."""
        if self.nesting is None:
            return None
        return tuple(self.nesting.group_of(name) for name in self.domains)

    @property
    def domains(self) -> tuple[Name, ...]:
        """The names of the domains, the same for all models."""
        return next(iter(self.models.values())).domains

    @property
    def examples(self) -> int:
        """The number of examples of the first model over all domains."""
        return int(next(iter(self.models.values())).counts.sum())

    @property
    def sentence(self) -> str:
        """What was measured, in one sentence."""
        who = "One model" if len(self) == 1 else f"{len(self)} models"
        inside = f" of {len(set(self.outer_domains)):,} groups" if self.outer_domains else ""
        loss = self.loss if self.metrics else f"the {loss_in_words(self.loss)}"
        return (
            f"{who} measured by {loss} of {self.examples:,} examples "
            f"in {len(self.domains):,} domains{inside}.{self.left_out}"
        )

    @property
    def left_out(self) -> str:
        """Which domains were left out and why, as sentences that begin with a blank; or nothing."""
        trained = "training has seen them" + (" or others of their group" if self.nesting else "")
        why = {trained: self.seen, "they began before the period asked for": self.earlier}
        undefined = next((each.undefined for each in self.metrics.values()), {})
        for name, reason in undefined.items():
            told = f"the metric is not defined ({reason})"
            why[told] = (*why.get(told, ()), name)
        return "".join(
            f" Left out because {reason}: {counted(len(names), 'domain')} ({listed(names, 3)})."
            for reason, names in why.items()
            if names
        )

    @cached_property
    def time_order(self) -> DomainOrder | None:
        """When the domains began: by a column, or by their names where these are dates."""
        return self.order or DomainOrder.of_names(self.domains)

    def __repr__(self) -> str:
        return f"<Evaluation: {self.sentence}>"

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, model: str) -> MeasuredRisks:
        return self.models[self._known(model)]

    def risk_table(
        self,
        quantiles: LevelLike | Sequence[LevelLike] = LEVELS,
        superquantiles: LevelLike | Sequence[LevelLike] = SUPERQUANTILES,
        *,
        confidence: float = 0.95,
        worst: int = 5,
        interpolation: str = "step",
    ) -> RiskTable:
        """Mean, quantiles and superquantiles of risk per model, with intervals (§6.2).

        ``worst`` domains are listed for each model. ``interpolation`` is "step", the
        paper's quantile, "linear", numpy's, or "smooth", the Harrell–Davis estimate, which varies
        less and which verdicts compare. Ends of intervals that domains cannot support are open.
        """
        return RiskTable.of(
            self.models,
            as_levels(quantiles),
            as_levels(superquantiles),
            references=self.references,
            confidence=confidence,
            worst=worst,
            interpolation=interpolation,
        )

    def compare(
        self,
        baseline: str | None = None,
        alpha: LevelLike | Sequence[LevelLike] = COMPARED_LEVELS,
        *,
        confidence: float = 0.95,
        interpolation: str = "step",
    ) -> PairedComparison:
        """Each model against ``baseline`` (the first): differences, paired by domain.

        Differences of mean, quantiles and superquantiles at ``alpha``, with the intervals of
        :func:`eqrm.evaluation.paired_differences`. Negative where the model is better.
        ``interpolation`` of quantiles is "step" or "smooth", as in :meth:`risk_table`.
        """
        first, given = self._known(baseline), (as_levels(alpha), confidence)
        found = {
            name: paired_differences(
                self[first].risks, risks.risks, *given, interpolation=interpolation
            )
            for name, risks in self.models.items()
            if name != first
        }
        return PairedComparison(first, found)

    @cached_property
    def noise(self) -> dict[str, NoiseSplit | None]:
        """How much of the spread of each model's risks is sampling noise.

        None where no domain has two examples, or the loss is no mean over examples, so that noise
        and spread cannot be separated.
        """
        return {
            name: noise_split(risks.risks, risks.counts, risks.variances)
            if np.isfinite(risks.variances).any()
            else None
            for name, risks in self.models.items()
        }

    @cached_property
    def exchangeability(self) -> dict[str, list[ExchangeabilityTest]]:
        """Tests of whether domains are exchangeable: risk against size, and against time.

        Time is tested where a column orders the domains, or their names are dates (2024-05-31,
        2024-05). Fewer than five domains are not tested. :func:`eqrm.evaluation.order_test` takes
        any other order.
        """
        if len(self.domains) < FEWEST_TO_TEST:
            return {name: [] for name in self.models}
        times = self.time_order
        orders: dict[str, Any] = {} if times is None else {"time": times.times}
        return {
            name: [
                order_test(risks.risks, order, by)
                for by, order in {**orders, "size": risks.counts}.items()
            ]
            for name, risks in self.models.items()
        }

    def certificate(
        self,
        alpha: LevelLike = 0.9,
        confidence: float = 0.95,
        *,
        threshold: float | None = None,
        true_risk: bool = False,
        model: str | None = None,
        sampling: str | None = None,
        group: str | None = None,
    ) -> Certificate:
        """A statement about unseen domains that holds with a stated confidence.

        Without ``threshold``: a risk that a share ``alpha`` of new domains does not exceed.
        With it: the share of new domains whose risk is at most ``threshold``. It is about the
        measured risk of new domains of similar size or, with ``true_risk``, about their true
        risk, which needs ``bounds`` on the loss. ``model`` is the first unless named. Too few
        domains raise ``TooFewDomainsError``, which says how many are needed. Where the order test
        rejects the assumption, the sentence names the bound that applies (:meth:`in_time`).

        Where domains are nested, it is about a new member of a new group, or of the known
        ``group``; ``sampling`` is "once" (one member of each group, drawn at random), "repeated"
        (all draws together), "pooled" (approximate), or None: "repeated" with enough groups.

        >>> import eqrm
        >>> rows = list(range(40)) * 2
        >>> found = eqrm.evaluate(domains=rows, losses=[day / 100 for day in rows])
        >>> found.certificate(0.9).bound
        0.39
        """
        asked: dict[str, Any] = {"threshold": threshold, "true_risk": true_risk}
        asked |= {"sampling": sampling, "group": group}
        found = self._certifiers[self._known(model)].certificate(alpha, confidence, **asked)
        found = replace(found, proven=not self.cross_fitted)
        tests = self.exchangeability[self._known(model)] if self.time_order else []
        return replace(found, doubt=tests[0].doubt if tests else "")  # the first is that of time

    def in_time(
        self,
        *,
        dependence: int | None = None,
        spells: bool = False,
        recent: float | None = None,
        alpha: LevelLike = 0.9,
        confidence: float = 0.95,
        model: str | None = None,
    ) -> dict[str, TimeBound]:
        """Bounds for domains that come one after the other, by the name of the setting.

        ``dependence=k``: a certificate for domains that are independent more than k places apart.
        ``spells=True``: an approximate one for domains in spells. ``recent``: a bound for the next
        domain whose weights halve every so many domains, not a certificate. Where there are too
        few domains, a sentence says so. The domains must have an order: ``evaluate(..., order=)``,
        or dates as names.
        """
        asked = TimeBounds(dependence, spells, recent)
        if self.nesting is not None:
            raise SettingError(
                "Bounds for domains in time take them for one sequence, not for members of groups. "
                f"Leave out {Setting('within')}, or dependence, spells and recent."
            )
        risks = self[self._known(model)].risks
        return asked.of(asked.arranged(risks, self.domains, self.time_order), alpha, confidence)

    @cached_property
    def _certifiers(self) -> dict[str, Certifier]:
        named = None if self.nesting is None else self.nesting.labels
        return {
            name: Certifier(risks, self.loss, self.bounds, self.outer_domains, named)
            for name, risks in self.models.items()
        }

    def nested(self, alpha: LevelLike = 0.9, confidence: float = 0.95) -> dict[str, NestedFindings]:
        """Spread per level and certificates of nested domains, by model; empty for others."""
        if self.nesting is None or self.outer_domains is None:
            return {}
        given = self.outer_domains, alpha, confidence, self.nesting.labels
        return {name: nested_findings(each, *given) for name, each in self.models.items()}

    def cdf_band(
        self, confidence: float = 0.95, method: str = "exact", *, model: str | None = None
    ) -> CdfBand:
        """A confidence band for the whole CDF of the risk of a new domain (of one per group)."""
        risks = self._certifiers[self._known(model)].independent.risks
        return cdf_band(risks, confidence, method)

    def to_dict(self) -> dict[str, Any]:
        """Everything measured, in plain types; :meth:`from_dict` reads it back."""
        metrics = {name: each.to_dict() for name, each in self.metrics.items()}
        also = {"cross_fitted": self.cross_fitted, "metrics": metrics}
        return {
            "format": FORMAT,
            "loss": self.loss,
            "bounds": None if self.bounds is None else list(self.bounds),
            "models": {name: risks.to_dict() for name, risks in self.models.items()},
            "references": None if self.references is None else self.references.to_dict(),
            **({} if self.nesting is None else {"nesting": asdict(self.nesting)}),
            "order": None if self.order is None else self.order.to_dict(),
            "seen": list(self.seen),
            "earlier": list(self.earlier),
            **{key: each for key, each in also.items() if each},
        }

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Evaluation:
        """The evaluation that :meth:`to_dict` described."""
        found = content.get("format") if isinstance(content, Mapping) else type(content).__name__
        if found != FORMAT:
            raise DomainDataError(
                f"This is not an evaluation: its format must be {FORMAT!r}, got {found!r}."
            )
        try:
            bounds, beside = content["bounds"], content.get("references")
            nesting, order = content.get("nesting"), content.get("order")
            models = {n: MeasuredRisks.from_dict(c) for n, c in content["models"].items()}
            if not isinstance(content["loss"], str):
                raise TypeError(content["loss"])
            return cls(
                models,
                content["loss"],
                None if bounds is None else _bounds_of(bounds, models),
                None if beside is None else References.from_dict(beside),
                None if nesting is None else DomainKey.of(nesting["groups"], nesting["members"]),
                None if order is None else DomainOrder.from_dict(order),
                tuple(content.get("seen", ())),
                tuple(content.get("earlier", ())),
                content.get("cross_fitted") is True,
                {n: DomainMetric.from_dict(c) for n, c in content.get("metrics", {}).items()},
            )
        except KeyError as absent:
            raise DomainDataError(f"This evaluation is incomplete: it has no {absent}.") from None
        except EqrmError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
            raise DomainDataError("This evaluation was damaged: some values are wrong.") from None

    def _known(self, model: str | None) -> str:
        """A model's name; None means the only one, or the first."""
        first = next(iter(self.models))
        return first if model is None else one_of(model, self.models, "model")


def _bounds_of(bounds: Any, models: Mapping[str, MeasuredRisks]) -> tuple[float, float]:
    """The least and the largest loss in a file, between which all of its risks are."""
    low, high = float(bounds[0]), float(bounds[1])
    slack = 1e-9 * max(abs(low), abs(high))  # of sums that were rounded
    for name, measured in models.items():
        if not (low - slack <= measured.risks.min() and measured.risks.max() <= high + slack):
            raise DomainDataError(
                f"This evaluation was damaged: losses are said to be between {low:g} and {high:g}, "
                f"and the risks of '{name}' are not."
            )
    return low, high
