"""How often a requirement holds in enough new domains, at the setting that the package gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from eqrm import Evaluation
from eqrm.domains import SEPARATOR, DomainKey
from eqrm.evaluation import Certificate
from eqrm.evaluation.controlling.control import OfGrid
from eqrm.evaluation.controlling.operating_point import Asked
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.inference.true_risk import rank_and_miss
from eqrm.evaluation.measuring.requirement import LOSS, NEVER
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.risks import MeasuredRisks
from studies.control_coverage.settings import (
    ALPHA,
    CONFIDENCE,
    NESTED,
    Cell,
    ControlSettings,
)
from studies.control_coverage.worlds import WORLDS, Places, grid_means
from studies.domains_in_time.worlds import Generator, Vector, moving_maximum

AT_A_TIME = 1_000_000
"""Rows that are drawn together."""
SETTINGS = np.linspace(0.0, 1.5, 31)


@dataclass(frozen=True, eq=False)
class Pool:
    """Domains of a law: what each of P needs by its rows, by model (K, P), and truly needs.

    ``rows`` are those of all domains by model, where one of several is chosen.
    """

    needed: Vector
    truth: Vector
    rows: Sequence[RowsOfPredictions] = ()


@dataclass(frozen=True)
class Held:
    """What became of a cell: the share of worlds in which enough new domains met the requirement.

    It is to be ``wanted`` or more; worlds that are ``refused`` state nothing, and count as held.
    ``mean`` is the mean over worlds of the share of new domains that did, ``theory`` that of the
    order statistic where there is one. ``ties`` is the mean share of domains that need the very
    setting, ``refused`` the share of worlds without one.
    """

    cell: Cell
    worlds: int
    wanted: float
    success: float
    mean: float
    theory: float | None
    ties: float
    refused: float


def generator_of(cell: Cell, seed: int, domains: int = 0) -> Generator:
    """One for every pool, and for the worlds of every cell."""
    key = f"{cell.name} {cell.require} {cell.rows}"
    return np.random.default_rng([seed, domains, *key.encode()])


UNNAMED = MeasuredRisks((), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


def pool_of(cell: Cell, effects: Vector, generator: Generator) -> Pool:
    """What domains with these effects need for the requirement, with rows drawn from them."""
    how, parts, rows = cell.requirement, [], list[RowsOfPredictions]()
    limits = [how.limit] if how.kind == LOSS else [how.allowed]
    miss = rank_and_miss(cell.domains, ALPHA, CONFIDENCE)[1] if cell.true else 0.0
    step = len(effects) if cell.models > 1 else max(AT_A_TIME // max(cell.rows, 100), 1)
    for start in range(0, len(effects), step):
        here = effects[start : start + step]
        if how.kind == LOSS:
            means = grid_means(generator, here, cell.rows, SETTINGS)
            grid = OfGrid(settings=SETTINGS, means=means, risks=UNNAMED)
            parts.append(grid.needing(how, limits, miss))
            continue
        drawn = WORLDS[cell.kind].drawn(generator, here, cell.rows, cell.models)
        rows = [drawn.rows(model) for model in range(cell.models)]
        parts.append(np.vstack([how.needed(each, len(here), limits, miss) for each in rows]))
    needed, world = np.hstack(parts), WORLDS.get(cell.kind)
    if world is None or world.truth is None:
        return Pool(needed, needed, rows if cell.models > 1 else ())
    return Pool(needed, world.truth(effects, how.allowed)[None])


@dataclass(frozen=True, eq=False)
class Calibration:
    """The ``places`` in the pool that a world measures, and who they are.

    ``own`` are those domains that would be new ones of another world.
    """

    places: Places
    own: Places
    found: Evaluation


def simulated_cell(cell: Cell, settings: ControlSettings, seed: int) -> Held:
    """Draw a pool, then worlds from it: each is judged on all domains that it did not measure."""
    slow = cell.models > 1 or cell.form == NESTED or cell.dependence
    worlds = settings.slow if slow else settings.worlds
    making, drawing = generator_of(cell, seed), generator_of(cell, seed, cell.domains)
    if cell.dependence:
        high = moving_maximum(making, worlds, cell.domains, cell.dependence)
        pool, new = pool_of(cell, ndtri(high).ravel(), making), np.arange(high.size)
        return counted(cell, pool, new, in_time(high.shape), settings)
    if cell.form == NESTED:
        groups = making.normal(size=settings.pool)
        sizes = (1.0 + 5.0 * ndtr(groups)).astype(np.int64)  # the worse a group, the larger
        effects = 0.7 * np.repeat(groups, sizes) + 0.7 * making.normal(size=sizes.sum())
        pool, first = pool_of(cell, effects, making), np.cumsum(sizes) - sizes
        return counted(cell, pool, first, nested(cell, first, sizes, drawing, worlds), settings)
    pool = independent_pool(cell if cell.true else replace(cell, domains=0), settings.pool, seed)
    new = np.arange(settings.pool)
    return counted(cell, pool, new, independent(cell, len(new), drawing, worlds), settings)


@lru_cache(maxsize=1)
def independent_pool(cell: Cell, size: int, seed: int) -> Pool:
    """The pool of cells that differ in the number of domains only."""
    making = generator_of(cell, seed)
    return pool_of(cell, making.normal(size=size), making)


def independent(cell: Cell, size: int, drawing: Generator, worlds: int) -> Iterator[Calibration]:
    """Domains of the pool, without replacement."""
    found = known_as(tuple(map(str, range(cell.domains))))
    for _ in range(worlds):
        places = drawing.choice(size, cell.domains, replace=False)
        yield Calibration(places, places, found)


def in_time(shape: tuple[int, ...]) -> Iterator[Calibration]:
    """Sequences of dependent domains, one after the other in the pool."""
    worlds, domains = shape
    names, order = tuple(map(str, range(domains))), DomainOrder(np.arange(domains))
    found = known_as(names, order=order)
    for number in range(worlds):
        places = np.arange(number * domains, (number + 1) * domains)
        yield Calibration(places, places, found)


def nested(
    cell: Cell, first: Places, sizes: Places, drawing: Generator, worlds: int
) -> Iterator[Calibration]:
    """All members of groups; the first member of each other group is a new one."""
    for _ in range(worlds):
        groups = drawing.choice(len(first), cell.domains, replace=False)
        places = np.concatenate([np.arange(first[g], first[g] + sizes[g]) for g in groups])
        names = tuple(f"{g}{SEPARATOR}{i}" for g in groups for i in range(sizes[g]))
        yield Calibration(places, first[groups], known_as(names, nesting=DomainKey.UNNAMED))


def known_as(
    names: tuple[str, ...], nesting: DomainKey | None = None, order: DomainOrder | None = None
) -> Evaluation:
    """An evaluation that says who domains are, of which nothing is measured."""
    empty = np.full(len(names), np.nan)
    risks = MeasuredRisks(names, np.ones(len(names), dtype=np.int64), empty, empty)
    return Evaluation({"model": risks}, "what is needed", None, nesting=nesting, order=order)


def counted(
    cell: Cell, pool: Pool, new: Places, worlds: Iterator[Calibration], settings: ControlSettings
) -> Held:
    """Bound what is needed in every world, and count the domains ``new`` that it serves."""
    asked = Asked(ALPHA, CONFIDENCE, cell.true, cell.dependence or None).of_one(cell.models)
    truths = np.sort(pool.truth[:, new], axis=1)
    shares, ties, refused, rank = [], [], 0, 0
    for world in worlds:
        bounds = [asked.bound(each[world.places], world.found) for each in pool.needed]
        found = [float(each.bound) for each in bounds]
        rank = bounds[0].rank if isinstance(bounds[0], Certificate) else 0
        if max(found) >= NEVER:
            refused += 1
            continue
        best = _best(cell, pool, world, found)
        setting, truth = found[best], truths[best]
        below = np.searchsorted(truth, setting, "right")
        ties.append((below - np.searchsorted(truth, setting, "left")) / len(truth))
        measured = (pool.truth[best][world.own] <= setting).sum()
        shares.append((below - measured) / (len(truth) - len(world.own)))
    reached, tried = np.array(shares), len(shares) + refused
    return Held(
        cell=cell,
        worlds=tried,
        wanted=settings.wanted(tried),
        success=float(((reached >= ALPHA).sum() + refused) / tried),
        mean=float(reached.mean()) if shares else np.nan,
        theory=rank / (cell.domains + 1.0) if cell.plain else None,
        ties=float(np.mean(ties)) if shares else np.nan,
        refused=refused / tried,
    )


def _best(cell: Cell, pool: Pool, world: Calibration, settings: list[float]) -> int:
    """The model that keeps most in the domains that were measured."""
    if len(settings) == 1:
        return 0
    how, m, n = cell.requirement, cell.domains, cell.rows
    kept, places = [], (world.places[:, None] * n + np.arange(n)).ravel()
    for rows, setting in zip(pool.rows, settings, strict=True):
        ids = np.repeat(np.arange(m, dtype=np.int32), n)
        here = RowsOfPredictions(ids, rows.label[places], rows.prediction[places])
        kept.append(float(np.nanmean(how.kept(here, m, setting))))
    return int(np.argmax(kept) if how.how.more else np.argmin(kept))
