"""Linear structural causal models: exact moments and samples of any domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eqrm.checks import NON_NEGATIVE_INTEGER, POSITIVE_INTEGER, is_number
from eqrm.errors import SettingError
from eqrm.linear import DomainMoments
from eqrm.linear.running_moments import MomentAccumulator, RunningMoments
from eqrm.text import did_you_mean
from studies.causal.scm.interventions import Assignment, Intervention, as_domain
from studies.causal.scm.laws import Law, NoiseLaw

Floats = NDArray[np.float64]
Domains = Mapping[str, Sequence[Intervention]]

ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True, eq=False)
class LinearSCM:
    """A linear structural causal model (the paper, appendix A.1) with a target.

    ``equations`` gives each variable its parents and coefficients, in any order. ``noise`` is a
    law of scipy.stats per variable, or a number for the standard deviation of a normal one; 1
    where nothing is said. ``features`` are the variables a predictor sees: all but the target,
    unless some are hidden. ``domains`` in the methods are named sequences of interventions.

    The paper's example, X1 → Y → X2, observed and with X1 fixed to 10:

    >>> from studies.causal import Do
    >>> scm = LinearSCM({"X1": {}, "Y": {"X1": 1.0}, "X2": {"Y": 1.0}}, "Y", {"Y": 2**0.5})
    >>> moments = scm.population({"observed": [], "fixed": [Do("X1", 10.0)]})
    >>> moments.mean
    tensor([[ 0.,  0.,  0.],
            [10., 10., 10.]], dtype=torch.float64)
    >>> scm.causal_coefficients
    tensor([1., 0.], dtype=torch.float64)
    """

    equations: Mapping[str, Mapping[str, float]]
    target: str
    noise: Mapping[str, Law | float] | None = field(default_factory=lambda: None)
    features: Sequence[str] | None = field(default_factory=lambda: None)

    def __post_init__(self) -> None:
        self._check_equations()
        self._known(self.target, f"The target is {self.target!r}")
        if self.noise is not None and not isinstance(self.noise, Mapping):
            raise SettingError(
                "noise must be a distribution or a number for each variable, as in "
                f"{{{self.target!r}: 2.0}}, got {self.noise!r}."
            )
        for name in self.noise or {}:
            self._known(name, f"There is a noise for {name!r}")
        _ = self._noises
        for name in self.features or ():
            self._known(name, f"There is a feature {name!r}")
        features = tuple(self._all_features() if self.features is None else self.features)
        object.__setattr__(self, "features", features)
        if len({*features, self.target}) < len(features) + 1:
            raise SettingError("Features must differ from each other and from the target.")
        if not features:
            raise SettingError("At least one feature besides the target is needed.")
        _ = self.order

    def _check_equations(self) -> None:
        if not isinstance(self.equations, Mapping):
            raise SettingError("equations must be a mapping, as in {'X': {}, 'Y': {'X': 1.0}}.")
        for child, parents in self.equations.items():
            if not isinstance(parents, Mapping):
                raise SettingError(
                    f"The equation of {child!r} must give each parent its coefficient, as in "
                    f"{{'X': 1.0}}, got {parents!r}."
                )
            for parent, coefficient in parents.items():
                self._known(parent, f"The equation of {child!r} uses {parent!r}")
                if not is_number(coefficient):
                    raise SettingError(
                        f"The coefficient of {parent!r} in the equation of {child!r} must be a "
                        f"finite number, got {coefficient!r}."
                    )

    def _known(self, name: str, what: str) -> None:
        if name not in self.equations:
            raise SettingError(
                f"{what}, which has no equation. {did_you_mean(name, self.equations)}"
            )

    def _all_features(self) -> list[str]:
        return [name for name in self.equations if name != self.target]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The variables, causes before effects; a cycle is refused."""
        try:
            return tuple(
                TopologicalSorter({k: list(v) for k, v in self.equations.items()}).static_order()
            )
        except CycleError as error:
            cycle = " → ".join(error.args[1])
            raise SettingError(f"The graph must have no cycle, got {cycle}.") from None

    @cached_property
    def _noises(self) -> dict[str, NoiseLaw]:
        given = self.noise or {}
        return {name: NoiseLaw.of(given.get(name, 1.0), name) for name in self.equations}

    def descendants(self, variable: str) -> tuple[str, ...]:
        """The variables that ``variable`` has an effect on, causes before effects."""
        self._known(variable, f"Descendants were asked of {variable!r}")
        found = {variable}
        for name in self.order:
            if found & set(self.equations[name]):
                found.add(name)
        return tuple(name for name in self.order if name in found and name != variable)

    @property
    def effects(self) -> tuple[str, ...]:
        """The features that the target has an effect on: DE(Y) of appendix A.2.3."""
        below = self.descendants(self.target)
        return tuple(name for name in self._columns[:-1] if name in below)

    @property
    def causal_coefficients(self) -> torch.Tensor:
        """β of Y = βᵀX + N (d,): the target's own equation."""
        parents = self.equations[self.target]
        hidden = [name for name in parents if name not in self._columns]
        if hidden:
            raise SettingError(
                f"The target's parent {hidden[0]!r} is hidden: the causal predictor cannot be "
                "written in the features."
            )
        values = [parents.get(name, 0.0) for name in self._columns[:-1]]
        return torch.tensor(values, dtype=torch.float64)

    @property
    def _columns(self) -> tuple[str, ...]:
        return (*(self.features or ()), self.target)

    def assignments(self, domain: Iterable[Intervention] = ()) -> dict[str, Assignment]:
        """The equations of a domain, causes before effects."""
        result = {
            name: Assignment(dict(self.equations[name]), self._noises[name]) for name in self.order
        }
        for each in as_domain(domain):
            if not isinstance(each, Intervention):
                raise SettingError(f"A domain is a sequence of interventions, got {each!r}.")
            self._known(each.variable, f"There is an intervention on {each.variable!r}")
            each.apply(result[each.variable])
        return result

    def population(self, domains: Domains) -> DomainMoments:
        """The exact moments of every domain.

        With the structural equations X = AX + U, the mean is (I − A)⁻¹E[U] and the covariance
        (I − A)⁻¹Var[U](I − A)⁻ᵀ.
        """
        domains = _named(domains)
        size, position = len(self.order), {name: j for j, name in enumerate(self.order)}
        matrix = np.zeros((len(domains), size, size))
        first, spread = np.zeros((len(domains), size)), np.zeros((len(domains), size))
        for e, domain in enumerate(domains.values()):
            for j, assignment in enumerate(self.assignments(domain).values()):
                for parent, coefficient in assignment.parents.items():
                    matrix[e, j, position[parent]] = assignment.gain * coefficient
                first[e, j], spread[e, j] = assignment.mean, assignment.variance
        identity = torch.eye(size, dtype=torch.float64)
        total = torch.linalg.solve_triangular(
            identity - torch.from_numpy(matrix),
            identity.expand(len(domains), -1, -1),
            upper=False,
            unitriangular=True,
        )
        total = total[:, [position[name] for name in self._columns]]
        root = total * torch.from_numpy(spread).sqrt().unsqueeze(1)
        return DomainMoments.population(
            (total @ torch.from_numpy(first).unsqueeze(-1)).squeeze(-1),
            root @ root.mT,
            names=list(domains),
            features=self.features,
            target=self.target,
        )

    def stream(
        self, domains: Domains, rows: int, seed: int = 0
    ) -> Iterator[tuple[Floats, Floats, str]]:
        """Samples (X, y, name of the domain) in blocks, one domain after the other.

        A block has at most 32,768 rows, and nothing else is held. Domain number e is the same
        for the same seed, whatever the other domains are.

        >>> scm = LinearSCM({"X": {}, "Y": {"X": 2.0}}, "Y")
        >>> [(X.shape, name) for X, y, name in scm.stream({"a": [], "b": []}, rows=5)]
        [((5, 1), 'a'), ((5, 1), 'b')]
        """
        for index, (name, domain) in enumerate(_named(domains).items()):
            for block in self._blocks(domain, rows, seed, index):
                yield block[:, :-1], block[:, -1], name

    def sample(
        self, rows: int, domain: Iterable[Intervention] = (), seed: int = 0, index: int = 0
    ) -> tuple[Floats, Floats]:
        """X (rows, d) and y (rows,) of one domain, as :meth:`stream` gives for number ``index``."""
        blocks = np.concatenate(list(self._blocks(domain, rows, seed, index)))
        return blocks[:, :-1], blocks[:, -1]

    def sample_moments(
        self, domains: Domains, rows: int, seed: int = 0, workers: int = 2
    ) -> DomainMoments:
        """The moments of what :meth:`stream` gives, with ``workers`` threads.

        The same to the last bit for any number of workers.
        """
        domains = _named(domains)
        names, workers = list(domains), POSITIVE_INTEGER.check(workers, "workers")

        def reduce(index: int) -> RunningMoments:
            result: RunningMoments | None = None
            for block in self._blocks(domains[names[index]], rows, seed, index):
                # A copy: a view of the first row would keep its whole block in memory.
                pivot = block[0].copy() if result is None else result.pivot
                part = RunningMoments.of(block, pivot)
                if result is None:
                    result = part
                else:
                    result.add(part)
            if result is None:
                raise SettingError("At least one row is needed, got none.")
            return result

        with ThreadPoolExecutor(max_workers=workers) as pool:
            parts = list(pool.map(reduce, range(len(names))))
        accumulator = MomentAccumulator(self.features, self.target)
        accumulator.parts = dict(zip(names, parts, strict=True))
        return DomainMoments.of_accumulator(accumulator, names)

    def _blocks(
        self, domain: Iterable[Intervention], rows: int, seed: int, index: int
    ) -> Iterator[Floats]:
        """Blocks (≤ 32,768, d + 1) of a domain, the target last."""
        POSITIVE_INTEGER.check(rows, "rows")
        NON_NEGATIVE_INTEGER.check(seed, "seed")
        assignments = self.assignments(domain)
        sequence = np.random.SeedSequence(seed, spawn_key=(1, index))
        generator = np.random.Generator(np.random.SFC64(sequence))
        for start in range(0, rows, ROWS_AT_ONCE):
            values = _draw(assignments, generator, min(ROWS_AT_ONCE, rows - start))
            yield np.stack([values[name] for name in self._columns]).T


def _draw(
    assignments: Mapping[str, Assignment], generator: np.random.Generator, rows: int
) -> dict[str, Floats]:
    values: dict[str, Floats] = {}
    for name, each in assignments.items():
        # The noise is drawn even where `do` hides it: other variables keep theirs.
        value = each.noise.draw(generator, rows)
        value *= each.gain * each.factor
        value += each.shift
        for parent, coefficient in each.parents.items():
            value += (each.gain * coefficient) * values[parent]
        values[name] = value
    return values


def _named(domains: Any) -> Domains:
    if isinstance(domains, Mapping):
        if not domains:
            raise SettingError("At least one domain is needed.")
        return domains
    raise SettingError(
        "Domains must be named, as in {'observed': [], 'fixed': [Do('X1', 10.0)]}, or be drawn by "
        f"DomainLaw(...).draw(...), got {type(domains).__name__}."
    )
