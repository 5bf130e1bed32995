"""Adaptive search through Optuna, whose samplers propose draws.

A study is made again from the runs in the folder of the sweep whenever it is asked something, so
that nothing but the folder has to be kept. This suits samplers that decide by the finished and
running trials alone; those with a memory of their own (CMA-ES) are not offered.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from eqrm.checks import COUNT, check_all, check_fields, ruled
from eqrm.errors import SettingError, naming_extra
from eqrm.objectives.hyperparameters import ChoiceSpace, LogUniformSpace, UniformSpace
from eqrm.registry import Registry
from eqrm.sweeps.selection import QuantileSelection
from eqrm.sweeps.spaces import Space

SAMPLERS: Registry[Any] = Registry(
    "sampler",
    {
        "tpe": "optuna.samplers:TPESampler",
        "gp": "optuna.samplers:GPSampler",
        "random": "optuna.samplers:RandomSampler",
    },
)


@dataclass(frozen=True)
class SamplerChoice:
    """A sampler by name, and settings that Optuna has for it."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AdaptiveSettings:
    """How draws are proposed (docs/sweeps.md)."""

    sampler: str | SamplerChoice = "tpe"
    alpha: float | str = 0.9
    checkpoints: str = "best"
    at_once: int = ruled(4, COUNT)

    def __post_init__(self) -> None:
        check_all(lambda: check_fields(self), lambda: self.rule.alpha, lambda: self.made_sampler(0))

    @property
    def rule(self) -> QuantileSelection:
        """What is minimised, as the selection rule that tables have."""
        return QuantileSelection(alpha=self.alpha, checkpoints=self.checkpoints)

    def made_sampler(self, seed: int) -> Any:
        given = SamplerChoice(self.sampler) if isinstance(self.sampler, str) else self.sampler
        if "seed" in given.settings:
            raise SettingError("sampler cannot have a seed: it follows from the plan's seed.")
        defaults = {"constant_liar": True} if SAMPLERS.name_of(given.name) == "tpe" else {}
        with _quiet_optuna():
            try:
                return SAMPLERS.make(given.name, given={"seed": seed, **defaults, **given.settings})
            except (TypeError, ValueError) as error:
                raise SettingError(f"sampler {given.name}: {error}") from None


@dataclass(frozen=True)
class TriedDraw:
    """What became of a draw with these values of the searched fields, and what it reached."""

    values: Mapping[str, Any]
    ended: Literal["complete", "fail", "running"]
    value: float | None = None


def proposed_draw(
    settings: AdaptiveSettings,
    spaces: Mapping[str, Space],
    tried: Sequence[TriedDraw],
    seed: int,
) -> dict[str, Any]:
    """Values of the searched fields for the next draw.

    They follow from the seed and from what earlier draws reached. A draw outside of the spaces,
    as defaults may be, tells the sampler nothing.
    """
    with _quiet_optuna() as optuna:
        study = optuna.create_study(sampler=settings.made_sampler(seed), direction="minimize")
        distributions = {path: _distribution(space) for path, space in spaces.items()}
        for each in tried:
            parameters = {
                path: _parameter(space, each.values.get(path)) for path, space in spaces.items()
            }
            inside = all(
                value is not None and distributions[path]._contains(value)
                for path, value in parameters.items()
            )
            if inside:
                study.add_trial(
                    optuna.trial.create_trial(
                        state=optuna.trial.TrialState[each.ended.upper()],
                        value=each.value,
                        params=parameters,
                        distributions=distributions,
                    )
                )
        asked = study.ask(fixed_distributions=distributions)
        found = {path: asked.params[path] for path in spaces}
        choices = {path: each for path, each in spaces.items() if isinstance(each, ChoiceSpace)}
        return found | {path: each.values[found[path]] for path, each in choices.items()}


def _distribution(space: Space) -> Any:
    """Optuna's form of a space; a choice is the place of its value, which may be a list."""
    from optuna import distributions

    if isinstance(space, ChoiceSpace):
        return distributions.CategoricalDistribution(range(len(space.values)))
    if isinstance(space, UniformSpace):
        return distributions.FloatDistribution(space.low, space.high)
    if isinstance(space, LogUniformSpace):
        low, high = space.base**space.low, space.base**space.high
        if space.integer:
            return distributions.IntDistribution(max(1, int(low)), max(1, int(high)), log=True)
        return distributions.FloatDistribution(low, high, log=True)
    raise SettingError(f"adaptive cannot search a {type(space).__name__}.")


def _parameter(space: Space, value: Any) -> Any:
    """A value as Optuna holds it; None where it cannot."""
    if isinstance(space, ChoiceSpace):
        return space.values.index(value) if value in space.values else None
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


@contextmanager
def _quiet_optuna() -> Iterator[Any]:
    """Optuna without its lines about studies, and without warnings of what is experimental."""
    with naming_extra("optuna", "optuna", "adaptive"):
        import optuna
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield optuna
    finally:
        optuna.logging.set_verbosity(before)
