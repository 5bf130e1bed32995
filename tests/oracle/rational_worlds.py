"""Linear SCMs in rational arithmetic: the truth about interventions by `do`.

A `do` on X_j changes the excess risk by a product of two linear factors, so that the points of
equal risk are a union of 2^d affine sets, one for each choice of factors. All of it is solved
here exactly, with none of the package's code.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Vector = list[Fraction]
Matrix = list[Vector]
Equations = Mapping[str, Mapping[str, Fraction]]


@dataclass(frozen=True)
class RationalWorld:
    """Equations and standard deviations in dyadic numbers, which floats hold exactly."""

    equations: dict[str, dict[str, Fraction]]
    stds: dict[str, Fraction]

    @property
    def features(self) -> list[str]:
        return [name for name in self.equations if name != "Y"]


def random_dyadic_world(num_features: int, seed: int) -> RationalWorld:
    """A random DAG in which Y comes early, so that it has effects."""
    generator = random.Random(seed)
    names = [f"X{j + 1}" for j in range(num_features)]
    order = generator.sample(names, num_features)
    order.insert(generator.randrange(0, (num_features + 1) // 2 + 1), "Y")
    sizes = [Fraction(n, 4) for n in (-6, -5, -4, -3, -2, 2, 3, 4, 5, 6)]
    equations: dict[str, dict[str, Fraction]] = {name: {} for name in [*names, "Y"]}
    for j, child in enumerate(order):
        for parent in order[:j]:
            if generator.random() < 0.6:
                equations[child][parent] = generator.choice(sizes)
    stds = {name: Fraction(generator.randrange(2, 7), 4) for name in equations}
    return RationalWorld(equations, stds)


def weighted_dag(parents: Mapping[str, Sequence[str]], seed: int) -> RationalWorld:
    """A given DAG with random dyadic coefficients and noises."""
    generator = random.Random(seed)
    sizes = [Fraction(n, 4) for n in (-6, -5, -4, -3, -2, 2, 3, 4, 5, 6)]
    equations = {
        child: {parent: generator.choice(sizes) for parent in above}
        for child, above in parents.items()
    }
    return RationalWorld(equations, {k: Fraction(generator.randrange(2, 7), 4) for k in parents})


def totals(equations: Equations, source: str) -> dict[str, Fraction]:
    """The total effect of a variable on every variable: sums over directed paths."""
    known: dict[str, Fraction] = {}

    def total(goal: str) -> Fraction:
        if goal not in known:
            above = equations[goal].items()
            known[goal] = Fraction(int(goal == source)) + (
                Fraction(0)
                if goal == source
                else sum((c * total(p) for p, c in above), Fraction(0))
            )
        return known[goal]

    return {name: total(name) for name in equations}


def excess_risk(world: RationalWorld, done: str | None, square: Fraction) -> tuple[Matrix, Vector]:
    """A = E[XXᵀ] and b = E[NX] under `do`, with ``square`` the square of the value set."""
    equations = dict(world.equations)
    if done is not None:
        equations[done] = {}
    squares = {name: std**2 for name, std in world.stds.items()}
    if done is not None:
        squares[done] = square
    effects = {name: totals(equations, name) for name in equations}
    X = world.features
    A = [
        [
            sum((effects[n][i] * effects[n][j] * squares[n] for n in equations), Fraction(0))
            for j in X
        ]
        for i in X
    ]
    b = [effects["Y"][i] * squares["Y"] for i in X]
    return A, b


def do_is_enough(world: RationalWorld, variables: Sequence[str], square: Fraction) -> bool:
    """Whether x = 0 is the only solution of Assumption (v) with do(X_j = √square), j in turn."""
    A, b = excess_risk(world, None, square)
    choices = []
    for name in variables:
        A_done, b_done = excess_risk(world, name, square)
        effect = totals(world.equations, name)
        tau = [effect[other] for other in world.features]
        factor, constant = second_factor(A_done, b_done, A, b, tau, world.features.index(name))
        choices.append([(tau, Fraction(0)), (factor, constant)])
    for rows in itertools.product(*choices):
        solution = solve_affine([row for row, _ in rows], [-c for _, c in rows], len(b))
        if solution is None:
            continue
        x, value = lowest(A, b, *solution)
        if value < 0 or (value == 0 and any(x)):
            return False
    return True


def second_factor(
    A1: Matrix, b1: Vector, A0: Matrix, b0: Vector, tau: Vector, p: int
) -> tuple[Vector, Fraction]:
    """(ℓ, ℓ0) with xᵀ(A1−A0)x + 2(b1−b0)ᵀx = (τᵀx)(ℓᵀx + ℓ0); raises if it is not a product."""
    n = len(tau)
    G = [[A1[i][j] - A0[i][j] for j in range(n)] for i in range(n)]
    first = G[p][p] / tau[p]
    factor = [(2 * G[p][i] - first * tau[i]) / tau[p] for i in range(n)]
    constant = 2 * (b1[p] - b0[p]) / tau[p]
    for i, j in itertools.product(range(n), repeat=2):
        if 2 * G[i][j] != tau[i] * factor[j] + tau[j] * factor[i]:
            raise ArithmeticError("the difference of risks is not a product")
    if any(2 * (b1[i] - b0[i]) != constant * tau[i] for i in range(n)):
        raise ArithmeticError("the difference of risks is not a product")
    return factor, constant


def solve_affine(rows: Matrix, right: Vector, n: int) -> tuple[Vector, Matrix] | None:
    """A point and directions of {x : rows·x = right}, or None if it is empty."""
    system = [[*row, value] for row, value in zip(rows, right, strict=True)]
    pivots: list[int] = []
    for column in range(n):
        done = len(pivots)
        pivot = next((r for r in range(done, len(system)) if system[r][column] != 0), None)
        if pivot is None:
            continue
        system[done], system[pivot] = system[pivot], system[done]
        system[done] = [value / system[done][column] for value in system[done]]
        for r in range(len(system)):
            if r != done and system[r][column] != 0:
                times = system[r][column]
                system[r] = [a - times * c for a, c in zip(system[r], system[done], strict=True)]
        pivots.append(column)
    if any(row[n] != 0 for row in system[len(pivots) :]):
        return None
    point = [Fraction(0)] * n
    for r, column in enumerate(pivots):
        point[column] = system[r][n]
    directions = []
    for free in (column for column in range(n) if column not in pivots):
        direction = [Fraction(int(column == free)) for column in range(n)]
        for r, column in enumerate(pivots):
            direction[column] = -system[r][free]
        directions.append(direction)
    return point, directions


def lowest(A: Matrix, b: Vector, point: Vector, directions: Matrix) -> tuple[Vector, Fraction]:
    """The minimum of xᵀAx + 2bᵀx over point + span(directions), A positive definite."""
    n = len(b)

    def dot(u: Vector, v: Vector) -> Fraction:
        return sum((p * q for p, q in zip(u, v, strict=True)), Fraction(0))

    def times(v: Vector) -> Vector:
        return [dot(row, v) for row in A]

    slope = [s + c for s, c in zip(times(point), b, strict=True)]
    pushed = [times(direction) for direction in directions]
    rows = [[dot(u, v) for v in pushed] for u in directions]
    solution = solve_affine(rows, [-dot(u, slope) for u in directions], len(directions))
    if solution is None or solution[1]:
        raise ArithmeticError("the covariance is singular")
    x = list(point)
    for weight, direction in zip(solution[0], directions, strict=True):
        x = [x[i] + weight * direction[i] for i in range(n)]
    return x, dot(x, times(x)) + 2 * dot(b, x)
