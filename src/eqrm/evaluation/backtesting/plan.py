"""What a backtest does: the lengths of its windows, its levels, and the bounds that it compares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import (
    CONFIDENCE,
    NON_NEGATIVE_INTEGER,
    POSITIVE,
    POSITIVE_INTEGER,
    check_all,
    one_of,
    optional,
)
from eqrm.errors import SettingError, TooFewDomainsError
from eqrm.evaluation.inference.certificates import Certificate, domains_needed, quantile_bound
from eqrm.evaluation.inference.in_time.online import OnlineBound
from eqrm.evaluation.inference.in_time.ordered import recent_bound
from eqrm.evaluation.inference.in_time.spells import FEWEST, spell_bound
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.rounding import EQUAL, as_percent
from eqrm.text import counted

Array = NDArray[np.float64]
PLAIN, DEPENDENT, SPELLS, RECENT, ONLINE = "plain", "dependent", "spells", "recent", "online"
KINDS = (PLAIN, SPELLS, RECENT, ONLINE)
"""Kinds by name; dependent domains are asked for by their k."""
HALF_LIFE = 30.0
LEVELS = (0.5, 0.75, 0.9)
CERTIFY, JUDGE = 60, 30
EVERY_WINDOW, NEVER = "every-window", "never"
REFITS = (EVERY_WINDOW, NEVER)
HEADLINE = 0.9


@dataclass(frozen=True)
class BoundRule:
    """How domains of the past bound the risk of later ones.

    ``kind`` is "plain" (the certificate for independent domains), "dependent" (with
    ``dependence`` k), "spells" (approximate), "recent" (weights that halve every ``half_life``
    domains; not a certificate) or "online" (adapted after every judged domain).
    """

    kind: str = PLAIN
    dependence: int = 0
    half_life: float = HALF_LIFE

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"dependence={self.dependence}" if self.kind == DEPENDENT else self.kind

    def needed(self, alpha: float, confidence: float) -> float:
        """The fewest domains that it takes; ∞ where no number is enough."""
        if self.kind == ONLINE:
            return 1
        if self.kind == RECENT:
            try:
                recent_bound(np.zeros(2), alpha, self.half_life)
            except TooFewDomainsError as refusal:
                return refusal.needed
            return 2
        least = domains_needed(alpha, confidence, dependence=self.dependence)
        return max(least, FEWEST) if self.kind == SPELLS else least

    def judge(self, past: Array, later: Array, alpha: float, confidence: float) -> JudgedDomains:
        """The bound from the risks of ``past`` domains (m,), beside those of ``later`` ones (n,).

        Both are in the order of time. A refusal for reasons that only the risks show is a result.
        """
        if self.kind == ONLINE:
            online = OnlineBound(alpha)
            online.update_many(past)
            return JudgedDomains(online.update_many(later)[0], later)
        try:
            if self.kind == RECENT:
                bound = recent_bound(past, alpha, self.half_life).bound
                return JudgedDomains(np.full(len(later), bound), later)
            found: Certificate
            if self.kind == SPELLS:
                found = spell_bound(past, alpha, confidence)
            else:
                found = quantile_bound(past, alpha, confidence, self.dependence)
        except TooFewDomainsError as refusal:
            return JudgedDomains(np.full(len(later), np.nan), later, refusal=str(refusal))
        rank = found.rank if self.kind == PLAIN else None
        return JudgedDomains(np.full(len(later), found.bound), later, rank, found.domains)


@dataclass(frozen=True, eq=False)
class JudgedDomains:
    """A bound for each later domain (n,), and the risk that it turned out to have.

    ``rank`` is which of the ``domains`` risks the plain certificate is. ``refusal`` says why there
    is no bound; the bounds are NaN then.
    """

    bounds: Array
    risks: Array
    rank: int | None = None
    domains: int = 0
    refusal: str | None = None

    @property
    def within(self) -> int:
        """How many risks are at most their bounds.

        Up to the rounding of their sums: a constant has the same risk on every domain.
        """
        return int((self.risks - self.bounds <= EQUAL * np.abs(self.risks)).sum())

    @property
    def infinite(self) -> int:
        """How many bounds allow every risk."""
        return int((self.bounds == math.inf).sum())

    @property
    def bound(self) -> float:
        """The bound; where it changes from domain to domain, the mean of the finite ones."""
        finite = self.bounds[np.isfinite(self.bounds)]
        return float(finite.mean()) if finite.size else math.nan

    @property
    def expected(self) -> float | None:
        """The mean share within the plain certificate if all domains are exchangeable.

        The k-th smallest of m risks is as high as a share k/(m+1) of new ones, on average.
        """
        return None if self.rank is None else self.rank / (self.domains + 1)

    def chance_below(self, alpha: float) -> float | None:
        """How likely a share below α is for these many domains, if all are exchangeable.

        The number within the k-th smallest of m risks has a beta-binomial law.
        """
        from scipy.stats import betabinom

        if self.rank is None:
            return None
        n, beyond = len(self.risks), self.domains + 1 - self.rank
        most = math.ceil(alpha * n - 1e-9) - 1
        return float(betabinom.cdf(most, n, self.rank, beyond))


@dataclass(frozen=True)
class BacktestPlan:
    """Windows of domains in time: ``train`` (None: nothing is fitted), ``certify``, ``judge``.

    Several lengths of ``certify`` are backtested one beside the other. ``gap`` domains lie between
    two parts; each window begins ``step`` domains after the one before. Made by :meth:`of`, which
    checks everything.
    """

    certify: tuple[int, ...] = (CERTIFY,)
    judge: int = JUDGE
    train: int | None = None
    gap: int = 0
    step: int = JUDGE
    expanding: bool = False
    refit: str = EVERY_WINDOW
    quantiles: tuple[float, ...] = LEVELS
    confidence: float = 0.95
    rules: tuple[BoundRule, ...] = (BoundRule(),)

    @classmethod
    def of(
        cls,
        *,
        certify: int | Sequence[int] = CERTIFY,
        judge: int = JUDGE,
        train: int | None = None,
        gap: int = 0,
        step: int | None = None,
        expanding: bool = False,
        refit: str = EVERY_WINDOW,
        quantiles: Sequence[LevelLike] = LEVELS,
        confidence: float = 0.95,
        bounds: Sequence[str] = ("plain",),
        dependence: int | Sequence[int] = (),
        half_life: float | None = None,
    ) -> BacktestPlan:
        """All settings checked; what is wrong with them is raised at once."""
        sizes = tuple(certify) if isinstance(certify, Sequence) else (certify,)
        k = tuple(dependence) if isinstance(dependence, Sequence) else (dependence,)
        some, whole = POSITIVE_INTEGER.check, NON_NEGATIVE_INTEGER.check
        check_all(
            *(partial(some, each, "certify") for each in sizes),
            partial(some, judge, "judge"),
            partial(whole, gap, "gap"),
            *(partial(whole, each, "dependence") for each in k),
            *(partial(some, v, n) for n, v in (("train", train), ("step", step)) if v is not None),
            lambda: _refuse(not sizes, "At least one length of certify is required."),
            partial(CONFIDENCE.check, confidence, "confidence"),
            partial(optional(POSITIVE).check, half_life, "half_life"),
            lambda: _refuse(
                half_life is not None and RECENT not in bounds,
                "half_life is that of the bound 'recent': add it, or leave it out.",
            ),
            *(partial(one_of, kind, KINDS, "bound") for kind in bounds),
            partial(one_of, refit, REFITS, "refit"),
            lambda: _refuse(
                expanding and refit == NEVER,
                "expanding has no effect with refit='never': leave one of them out.",
            ),
            *(partial(checked_alpha, level) for level in quantiles),
            lambda: _refuse(not quantiles, "At least one level is required, such as 0.9."),
        )
        rules = [BoundRule(kind, half_life=half_life or HALF_LIFE) for kind in bounds]
        # Domains that are independent of all others have the plain certificate.
        rules += [BoundRule(DEPENDENT, each) if each else BoundRule() for each in k]
        made = cls(
            certify=tuple(dict.fromkeys(sizes)),
            judge=judge,
            train=train,
            gap=gap,
            step=judge if step is None else step,
            expanding=expanding,
            refit=refit,
            quantiles=tuple(sorted(set(map(checked_alpha, quantiles)))),
            confidence=confidence,
            rules=tuple(dict.fromkeys(rules)) or (BoundRule(),),
        )
        short = [text for certify in made.certify for text in made.too_few(certify)]
        _refuse(bool(short), " ".join(short))
        return made

    @property
    def headline(self) -> float:
        """The level that is told first: the one closest to 0.9."""
        return min(self.quantiles, key=lambda level: abs(level - HEADLINE))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the bounds."""
        return tuple(rule.name for rule in self.rules)

    def parts(self, certify: int) -> dict[str, int]:
        """The lengths of a window's parts by name, in order."""
        trained = {} if self.train is None else {"train": self.train}
        return {**trained, "certify": certify, "judge": self.judge}

    def too_few(self, domains: int) -> Iterator[str]:
        """A sentence on each bound that takes more domains to certify on, with the number."""
        for rule in self.rules:
            for level in self.quantiles:
                needed = rule.needed(level, self.confidence)
                enough = f"at least {needed} are needed"
                if needed == math.inf:
                    enough = "no number is enough: use a longer half_life"
                if needed > domains:
                    yield (
                        f"{counted(domains, 'domain')} to certify on are too few for the bound "
                        f"{rule.name!r} at level {level:g} with {as_percent(self.confidence)} "
                        f"confidence: {enough}."
                    )

    @property
    def needed(self) -> float:
        """The fewest domains that one of the bounds takes at one of the levels."""
        return min(
            rule.needed(level, self.confidence) for rule in self.rules for level in self.quantiles
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("train", "judge", "gap", "step", "refit")},
            "certify": list(self.certify),
            "expanding": self.expanding,
            "quantiles": list(self.quantiles),
            "confidence": self.confidence,
            "bounds": list(self.kinds),
        }


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise SettingError(message)
