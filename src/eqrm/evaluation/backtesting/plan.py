"""What a backtest does: the lengths of its windows, its levels and its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eqrm.checks import CONFIDENCE, NON_NEGATIVE_INTEGER, POSITIVE, POSITIVE_INTEGER
from eqrm.errors import EqrmError, SettingError
from eqrm.evaluation.backtesting.rules import DEPENDENT, HALF_LIFE, KINDS, RECENT, BoundRule
from eqrm.evaluation.inference.risk_checks import LevelLike, checked_alpha
from eqrm.evaluation.rounding import as_percent
from eqrm.text import counted, did_you_mean

LEVELS = (0.5, 0.75, 0.9)
CERTIFY, JUDGE = 60, 30
EVERY_WINDOW, NEVER = "every-window", "never"
REFITS = (EVERY_WINDOW, NEVER)
HEADLINE = 0.9


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
    levels: tuple[float, ...] = LEVELS
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
        levels: Sequence[LevelLike] = LEVELS,
        confidence: float = 0.95,
        bounds: Sequence[str] = ("plain",),
        dependence: int | Sequence[int] = (),
        half_life: float | None = None,
    ) -> BacktestPlan:
        """All settings checked; what is wrong with them is raised at once.

        >>> BacktestPlan.of(certify=20, judge=0, bounds=["spell"])
        Traceback (most recent call last):
        ...
        eqrm.errors.SettingError: judge must be an integer of at least 1, got 0. Unknown bound ...
        """
        sizes = tuple(certify) if isinstance(certify, Sequence) else (certify,)
        k = tuple(dependence) if isinstance(dependence, Sequence) else (dependence,)
        problems = _wrong_integers(sizes, judge, train, gap, step, k)
        problems += _wrong_choices(bounds, half_life, refit, expanding, confidence)
        alphas = _alphas(levels, problems)
        rules = [
            BoundRule(kind, half_life=half_life or HALF_LIFE) for kind in bounds if kind in KINDS
        ]
        # Domains that are independent of all others have the plain certificate.
        rules += [
            BoundRule(DEPENDENT, each) if each else BoundRule()
            for each in k
            if NON_NEGATIVE_INTEGER.holds(each)
        ]
        made = cls(
            tuple(dict.fromkeys(sizes)),
            judge,
            train,
            gap,
            judge if step is None else step,
            expanding,
            refit,
            tuple(sorted(set(alphas))),
            confidence,
            tuple(dict.fromkeys(rules)) or (BoundRule(),),
        )
        problems += made._too_short() if not problems else []
        if problems:
            raise SettingError(" ".join(problems))
        return made

    @property
    def headline(self) -> float:
        """The level that is told first: the one closest to 0.9."""
        return min(self.levels, key=lambda level: abs(level - HEADLINE))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the bounds."""
        return tuple(rule.name for rule in self.rules)

    def parts(self, certify: int) -> dict[str, int]:
        """The lengths of a window's parts by name, in order."""
        trained = {} if self.train is None else {"train": self.train}
        return {**trained, "certify": certify, "judge": self.judge}

    def _too_short(self) -> list[str]:
        """Bounds that take more domains than a window has, with the number needed."""
        found = []
        for certify in self.certify:
            for rule in self.rules:
                for level in self.levels:
                    needed = rule.needed(level, self.confidence)
                    if needed > certify:
                        found.append(
                            too_few_to_certify(rule.name, certify, level, self.confidence, needed)
                        )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **{name: getattr(self, name) for name in ("train", "judge", "gap", "step", "refit")},
            "certify": list(self.certify),
            "expanding": self.expanding,
            "levels": list(self.levels),
            "confidence": self.confidence,
            "bounds": list(self.kinds),
        }


def too_few_to_certify(
    kind: str, domains: int, level: float, confidence: float, needed: float
) -> str:
    """The sentence about a bound that takes more domains than there are."""
    enough = "no number is enough: use a longer half_life"
    if needed < math.inf:
        enough = f"at least {needed} are needed"
    return (
        f"{counted(domains, 'domain')} to certify on are too few for the bound {kind!r} at level "
        f"{level:g} with {as_percent(confidence)} confidence: {enough}."
    )


def _wrong_choices(
    bounds: Sequence[str], half_life: float | None, refit: str, expanding: bool, confidence: float
) -> list[str]:
    problems = []
    if not CONFIDENCE.holds(confidence):
        problems.append(f"confidence must be {CONFIDENCE.words}, got {confidence!r}.")
    if half_life is not None and not POSITIVE.holds(half_life):
        problems.append(f"half_life must be {POSITIVE.words}, got {half_life!r}.")
    elif half_life is not None and RECENT not in bounds:
        problems.append("half_life is that of the bound 'recent': add it, or leave it out.")
    unknown = [kind for kind in bounds if kind not in KINDS]
    problems += [f"Unknown bound {kind!r}. {did_you_mean(kind, KINDS)}" for kind in unknown]
    if refit not in REFITS:
        problems.append(f"Unknown refit {refit!r}. {did_you_mean(refit, REFITS)}")
    elif expanding and refit == NEVER:
        problems.append("expanding has no effect with refit='never': leave one of them out.")
    return problems


def _alphas(levels: Sequence[LevelLike], problems: list[str]) -> list[float]:
    """The levels as numbers; what is wrong with them is added to the problems."""
    found = []
    for level in levels:
        try:
            found.append(checked_alpha(level))
        except EqrmError as error:
            problems.append(str(error))
    if not levels:
        problems.append("At least one level is required, such as 0.9.")
    return found


def _wrong_integers(
    certify: Sequence[int],
    judge: int,
    train: int | None,
    gap: int,
    step: int | None,
    dependence: Sequence[int],
) -> list[str]:
    given: list[tuple[Any, int | None, str]] = [
        (POSITIVE_INTEGER, each, "certify") for each in certify
    ]
    given += [(POSITIVE_INTEGER, judge, "judge"), (NON_NEGATIVE_INTEGER, gap, "gap")]
    given += [(NON_NEGATIVE_INTEGER, each, "dependence") for each in dependence]
    given += [
        (POSITIVE_INTEGER, value, name)
        for name, value in (("train", train), ("step", step))
        if value is not None
    ]
    wrong = [
        f"{name} must be {rule.words}, got {v!r}." for rule, v, name in given if not rule.holds(v)
    ]
    return wrong if certify else [*wrong, "At least one length of certify is required."]
