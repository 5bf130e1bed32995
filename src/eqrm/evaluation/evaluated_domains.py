"""Which of the measured domains are evaluated: of all models, unseen in training, in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.splits import later_domains
from eqrm.data.times import DomainSpans, as_times, order_remedy, shown_time
from eqrm.domains import Name, name_order, named_domains, places_among
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.measuring.measured import DomainFacts, Measured
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.risks import FEWEST_DOMAINS, MeasuredRisks
from eqrm.text import counted


@dataclass(frozen=True)
class Period:
    """Which domains to evaluate: those that begin ``after`` a moment, or the ``last`` share."""

    after: Any = None
    last: float | None = None

    def __post_init__(self) -> None:
        if self.after is not None and self.last is not None:
            raise SettingError(
                f"Evaluate the domains after a moment ({Setting('test_after')}) or the last share "
                f"of them ({Setting('test_last')}), not both."
            )


ALL_DOMAINS = Period()


def evaluated(
    measured: Mapping[str, Measured],
    spec: MeasurementSpec,
    period: Period = ALL_DOMAINS,
    common_domains: bool = False,
) -> Evaluation:
    """Leave out the domains that a model has seen in training, then those of other times.

    Of nested domains, a whole group is left out where training has seen one of its members:
    certificates are about new groups.
    """
    models = paired({name: each.risks for name, each in measured.items()}, common_domains)
    facts = [each.facts for each in measured.values()]
    names = next(iter(models.values())).domains
    known = frozenset[str]().union(*(each.seen or () for each in facts))
    unseen = np.array([str(name) not in known for name in names])
    if spec.nesting is not None and known:
        groups = [spec.nesting.group_of(name) for name in names]
        begun = {group for group, new in zip(groups, unseen, strict=True) if not new}
        unseen = np.array([group not in begun for group in groups])
    _refuse_all_seen(names, unseen)
    times = _times(names, facts, spec.order if isinstance(spec.order, str) else "domains")
    kept = np.flatnonzero(unseen)
    if period != ALL_DOMAINS:
        times = times or DomainOrder(as_times(list(names), "The domains", order_remedy()))
        kept = kept[_of_period(times.only(kept), period)]
    left = set(kept.tolist())
    earlier = tuple(names[i] for i in np.flatnonzero(unseen) if i not in left)
    metrics = {
        name: each.of_sets([names[i] for i in kept])
        for name, each in measured.items()
        if each.of_sets is not None
    }
    if metrics:
        models = paired({name: each.risks for name, each in metrics.items()}, common_domains)
        kept = places_among(next(iter(models.values())).domains, names)
    elif len(kept) < len(names):
        chosen = [names[i] for i in kept]
        models = {name: risks.only(chosen) for name, risks in models.items()}
    return Evaluation(
        models,
        spec.name_of_loss,
        None,
        nesting=spec.nesting,
        order=None if times is None else times.only(kept),
        seen=tuple(names[i] for i in np.flatnonzero(~unseen)),
        earlier=earlier,
        metrics=metrics,
    )


def paired(
    models: Mapping[str, MeasuredRisks], common_domains: bool = False
) -> dict[str, MeasuredRisks]:
    """The models on the same domains; raises if one of them lacks a domain.

    With ``common_domains``, such domains are left out instead.
    """
    if len({all(isinstance(d, int) for d in p.domains) for p in models.values()}) > 1:
        # Integers in one file and strings in another, such as 2 and "2", are compared as strings.
        texts = {name: tuple(map(str, p.domains)) for name, p in models.items()}
        models = {name: replace(p, domains=texts[name]) for name, p in models.items()}
    everywhere = set.intersection(*(set(p.domains) for p in models.values()))
    everything = set.union(*(set(p.domains) for p in models.values()))
    if everywhere == everything:
        return dict(models)
    kept = sorted(everywhere, key=name_order)
    if len(kept) < FEWEST_DOMAINS:
        raise DomainDataError(
            f"The models have {counted(len(kept), 'domain')} in common, but at least two are "
            "needed. Check that all files use the same names for the domains."
        )
    if not common_domains:
        lacking = {name: everything - set(p.domains) for name, p in models.items()}
        name, missing = next((n, m) for n, m in lacking.items() if m)
        raise DomainDataError(
            f"Models are compared on the same domains, but {name!r} has no examples of "
            f"{named_domains(sorted(missing, key=name_order))}. Add these examples, or compare on "
            f"the {counted(len(kept), 'domain')} that all models share "
            f"({Setting('common_domains', True)})."
        )
    return {name: p.only(kept) for name, p in models.items()}


def _refuse_all_seen(names: Sequence[Name], unseen: NDArray[np.bool_]) -> None:
    left = int(unseen.sum())
    if left == len(names) or left >= FEWEST_DOMAINS:
        return
    seen = [name for name, new in zip(names, unseen, strict=True) if not new]
    remaining = f"{counted(left, 'domain')} left" if left else "none left"
    raise DomainDataError(
        f"Training has seen {len(seen):,} of {counted(len(names), 'domain')}: "
        f"{named_domains(seen)}. Statements about unseen domains cannot be based on them, and "
        f"there is {remaining}, where at least {FEWEST_DOMAINS} are needed. Evaluate predictions "
        "for domains that the model was not trained on; where only the time is new, train with "
        "the time (day, month) as the domain."
    )


def _times(names: Sequence[Name], facts: Sequence[DomainFacts], order: str) -> DomainOrder | None:
    """When each domain began, by the earliest of its rows in any file."""
    given = [each.began for each in facts if each.began is not None]
    if not given:
        return None
    first = [min(began[str(name)] for began in given if str(name) in began) for name in names]
    return DomainOrder(np.array(first), order)


def _of_period(order: DomainOrder, period: Period) -> NDArray[np.bool_]:
    spans = DomainSpans(order.times, order.times)
    later = later_domains(spans, order.name, after=period.after, last=period.last)
    if int(later.sum()) < FEWEST_DOMAINS:
        raise DomainDataError(
            f"{counted(int(later.sum()), 'domain')} of {len(later):,} would be evaluated, but at "
            f"least {FEWEST_DOMAINS} are needed: they begin from "
            f"{shown_time(spans.first.min())} to {shown_time(spans.first.max())}. Choose an "
            "earlier moment, or a larger share."
        )
    return later
