"""The settings of :class:`eqrm.data.DomainBatches`, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.data.hashed_draws import Integers
from eqrm.errors import DomainDataError, SettingError, counted, did_you_mean

UNITS = ("domains", "examples")


@dataclass(frozen=True)
class SamplerSettings:
    """What :class:`eqrm.data.DomainBatches` was made with."""

    domains_per_batch: int | None
    examples_per_domain: int | None
    over: str
    repeat_domains: bool
    repeat_examples: bool
    seed: int
    rank: int
    world_size: int
    across: str


def checked_settings(counts: Integers, **given: Any) -> SamplerSettings:
    """The settings, or an error in words. ``counts`` (m,) are the domains' sizes.

    >>> checked_settings(
    ...     np.array([3, 4]),
    ...     domains_per_batch=5,
    ...     examples_per_domain=1,
    ...     over="domains",
    ...     repeat_domains=False,
    ...     repeat_examples=False,
    ...     seed=0,
    ...     rank=0,
    ...     world_size=1,
    ...     across="domains",
    ... )
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: domains_per_batch is 5, but the data has 2 domains. ...
    """
    settings = SamplerSettings(**given)
    if len(counts) == 0:
        raise DomainDataError("There are no examples to draw from: at least one is needed.")
    if (counts == 0).any():
        raise DomainDataError(
            "Every domain from 0 to the largest number must have an example; "
            f"domain {int(np.argmin(counts))} has none."
        )
    _check_whole_numbers(settings)
    for name, value in (("over", settings.over), ("across", settings.across)):
        if value not in UNITS:
            raise SettingError(f"{name} cannot be {value!r}. {did_you_mean(value, UNITS)}")
    _check_sizes(settings, counts)
    _check_shares(settings, counts)
    return settings


def _check_whole_numbers(settings: SamplerSettings) -> None:
    lowest = {"domains_per_batch": 1, "examples_per_domain": 1, "seed": 0, "rank": 0}
    for name, low in {**lowest, "world_size": 1}.items():
        value = getattr(settings, name)
        if value is None and name in ("domains_per_batch", "examples_per_domain"):
            continue
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < low:
            raise SettingError(f"{name} must be a whole number of at least {low}; {value!r} came.")
    if settings.rank >= settings.world_size:
        raise SettingError(
            f"rank {settings.rank} of {settings.world_size} processes: ranks count from 0 to "
            f"{settings.world_size - 1}."
        )


def _check_sizes(settings: SamplerSettings, counts: Integers) -> None:
    d, k = settings.domains_per_batch, settings.examples_per_domain
    if d is not None and d > len(counts) and not settings.repeat_domains:
        raise SettingError(
            f"domains_per_batch is {d}, but the data has {counted(len(counts), 'domain')}. "
            "Lower it, leave it out to take all, or set repeat_domains."
        )
    if k is not None and k > int(counts.max()) and not settings.repeat_examples:
        raise SettingError(
            f"examples_per_domain is {k}, but the largest domain has "
            f"{counted(int(counts.max()), 'example')}. "
            "Lower it, leave it out to take whole domains, or set repeat_examples."
        )
    if d is None and settings.repeat_domains:
        raise SettingError(
            "repeat_domains needs domains_per_batch: without it a batch holds every domain once."
        )
    if k is None and settings.repeat_examples:
        raise SettingError(
            "repeat_examples needs examples_per_domain: without it a batch holds whole domains."
        )


def _check_shares(settings: SamplerSettings, counts: Integers) -> None:
    """Every process must get something in every batch."""
    d = len(counts) if settings.domains_per_batch is None else settings.domains_per_batch
    if settings.across == "domains" and d < settings.world_size:
        raise SettingError(
            f"A batch of {counted(d, 'domain')} cannot be shared by {settings.world_size} "
            "processes, whole domains each. Take more domains per batch, fewer processes, or "
            'across="examples".'
        )
    fewest = _fewest_examples(settings, counts, d)
    if settings.across == "examples" and fewest < settings.world_size:
        raise SettingError(
            f"A batch may hold only {counted(fewest, 'example')}, too few for "
            f"{settings.world_size} processes. Take larger batches or fewer processes."
        )


def _fewest_examples(settings: SamplerSettings, counts: Integers, d: int) -> int:
    k = settings.examples_per_domain
    if k is not None and settings.repeat_examples:
        return d * k
    sizes = np.sort(counts if k is None else np.minimum(counts, k))
    return d * int(sizes[0]) if settings.repeat_domains else int(sizes[:d].sum())
