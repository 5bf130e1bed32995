"""The linear worlds of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import lognorm

from eqrm.errors import SettingError
from studies.causal import DomainLaw, Intervention, LinearSCM, Noise

Domain = tuple[Intervention, ...]
FIGURE_PARENTS = {
    "X1": (),
    "X2": (),
    "X3": ("X1", "X2"),
    "X8": ("X1",),
    "Y": ("X1", "X3"),
    "X5": ("Y",),
    "X6": ("X1", "Y"),
    "X7": ("X5", "X6"),
}


def example_world(sigma1: float = 1.0, sigma_y: float = 2.0**0.5, sigma2: float = 1.0) -> LinearSCM:
    """X1 ← N1, Y ← X1 + NY, X2 ← Y + N2 (the example of appendix A.1, used in §6.1 and G.1).

    >>> example_world().effects
    ('X2',)
    """
    return LinearSCM(
        {"X1": {}, "X2": {"Y": 1.0}, "Y": {"X1": 1.0}},
        target="Y",
        noise={"X1": sigma1, "Y": sigma_y, "X2": sigma2},
    )


def example_domains() -> DomainLaw:
    """σ2 ~ LogNormal(0, √0.5) in every domain: the training domains of §6.1."""
    return DomainLaw((Noise("X2", std=lognorm(0.5**0.5)),))


def figure_world(seed: int | None = None) -> LinearSCM:
    """The DAG of the figure in appendix A.2.3, with X1 … X8 (it has no X4).

    All coefficients and noises are 1; with a ``seed``, coefficients are drawn from ±[0.5, 1.5]
    and standard deviations from [0.5, 1.5].

    >>> figure_world().effects
    ('X5', 'X6', 'X7')
    """
    names = list(FIGURE_PARENTS)
    if seed is None:
        return LinearSCM({k: dict.fromkeys(v, 1.0) for k, v in FIGURE_PARENTS.items()}, "Y")
    generator = np.random.default_rng(seed)
    equations = {
        name: {
            parent: float(generator.choice([-1, 1]) * generator.uniform(0.5, 1.5))
            for parent in parents
        }
        for name, parents in FIGURE_PARENTS.items()
    }
    return LinearSCM(equations, "Y", {name: float(generator.uniform(0.5, 1.5)) for name in names})


def random_world(num_features: int, seed: int, edge_probability: float = 0.5) -> LinearSCM:
    """A random DAG over X1 … Xd and Y in random order.

    Coefficients come from ±[0.5, 1.5], standard deviations of the noises from [0.5, 1.5].

    >>> random_world(4, seed=1).target
    'Y'
    """
    generator = np.random.default_rng(seed)
    names = [*(f"X{j + 1}" for j in range(num_features)), "Y"]
    order = [names[j] for j in generator.permutation(len(names))]
    equations: dict[str, dict[str, float]] = {name: {} for name in names}
    for j, child in enumerate(order):
        for parent in order[:j]:
            sign, size = generator.choice([-1, 1]), generator.uniform(0.5, 1.5)
            if generator.uniform() < edge_probability:
                equations[child][parent] = float(sign * size)
    return LinearSCM(equations, "Y", {name: float(generator.uniform(0.5, 1.5)) for name in names})


def two_effects() -> LinearSCM:
    """Y ← N, X1 ← Y + N1, X2 ← Y + N2, unit variances.

    With `do` on each of X1 and X2 the causal predictor is not the only one with minimal,
    invariant risk, against case 2 of the paper's appendix A.2.3.
    """
    return LinearSCM({"X1": {"Y": 1.0}, "X2": {"Y": 1.0}, "Y": {}}, "Y")


def changing_sigmas(**sigmas: Sequence[float]) -> dict[str, Domain]:
    """Domains of :func:`example_world` in which some noises change: appendix G.1.2.

    One standard deviation per domain for each changing variable.

    >>> changing_sigmas(X1=[1.0, 2.0], Y=[1.0, 3.0])["1"]
    (Noise(variable='X1', ... std=2.0, ...), Noise(variable='Y', ... std=3.0, ...))
    """
    lengths = {np.size(values) if np.ndim(values) == 1 else -1 for values in sigmas.values()}
    if len(lengths) != 1 or -1 in lengths:
        raise SettingError(
            "Give each changing variable one standard deviation per domain, as in "
            "changing_sigmas(X1=[1.0, 2.0], Y=[1.0, 3.0])."
        )
    return {
        str(e): tuple(Noise(name, std=float(values[e])) for name, values in sigmas.items())
        for e in range(lengths.pop())
    }
