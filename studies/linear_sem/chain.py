"""The chain H → (X, Y, Z), X → Y → Z of the IRM paper's §5.1, sampled and in population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm.linear import DomainMoments
from studies.linear_sem.settings import FEATURES, SCALES, SemTask

Floats = NDArray[np.float64]
HALF = FEATURES // 2


@dataclass(frozen=True, eq=False)
class Chain:
    """X = H·W_hx + N_x, Y = X + H·W_hy + N_y, Z = Y + H·W_hz + N_z, each of five columns.

    The features are (X, Z)·rotation, the target is the sum of Y. With scale e, H and N_x have
    standard deviation e; N_y has e and N_z 1 in heteroskedastic tasks, the other way round in
    homoskedastic ones. Fully observed tasks have W_hx = I and W_hy = W_hz = 0; in the others
    the entries are N(0, 1)/10, as in the published code.
    """

    task: SemTask
    hidden_to_x: Floats
    hidden_to_y: Floats
    hidden_to_z: Floats
    rotation: Floats

    @classmethod
    def draw(cls, task: SemTask, generator: np.random.Generator) -> Chain:
        """A chain with random weights and a random rotation where the task has them."""
        weights = generator.standard_normal((3, HALF, HALF)) / FEATURES
        rotation, _ = np.linalg.qr(generator.standard_normal((FEATURES, FEATURES)))
        if not task.hidden:
            weights = np.stack([np.eye(HALF), np.zeros((HALF, HALF)), np.zeros((HALF, HALF))])
        if not task.scrambled:
            rotation = np.eye(FEATURES)
        return cls(task, weights[0], weights[1], weights[2], rotation)

    @property
    def causal(self) -> Floats:
        """The causal coefficients (10,), before the rotation: 1 for X, 0 for Z."""
        return np.concatenate([np.ones(HALF), np.zeros(HALF)])

    def scales(self, scale: float) -> Floats:
        """Standard deviations (20,) of (H, N_x, N_y, N_z)."""
        y, z = (scale, 1.0) if self.task.heteroskedastic else (1.0, scale)
        return np.repeat([scale, scale, y, z], HALF)

    @property
    def mixing(self) -> Floats:
        """The matrix (20, 11) that takes noises to features and target."""
        zero, one = np.zeros((HALF, HALF)), np.eye(HALF)
        x = np.concatenate([self.hidden_to_x, one, zero, zero])
        y = x + np.concatenate([self.hidden_to_y, zero, one, zero])
        z = y + np.concatenate([self.hidden_to_z, zero, zero, one])
        features = np.concatenate([x, z], axis=1) @ self.rotation
        return np.concatenate([features, y.sum(axis=1, keepdims=True)], axis=1)

    def sample(self, rows: int, generator: np.random.Generator) -> DomainMoments:
        """The moments of ``rows`` samples in each of the three domains."""
        batches = []
        for scale in SCALES:
            noise = generator.standard_normal((rows, 4 * HALF)) * self.scales(scale)
            values = noise @ self.mixing
            batches.append((values[:, :-1], values[:, -1], str(scale)))
        return DomainMoments.from_batches(batches)

    def population(self, scales: Sequence[float] = SCALES) -> DomainMoments:
        """The exact moments of the three domains."""
        roots = [self.scales(scale)[:, None] * self.mixing for scale in scales]
        return DomainMoments.population(
            np.zeros((len(scales), FEATURES + 1)),
            np.stack([root.T @ root for root in roots]),
            names=[str(scale) for scale in scales],
        )

    def errors(self, coefficients: Floats) -> tuple[float, float]:
        """Mean squared error of the causal and of the other coefficients, rotation undone."""
        squares = (self.rotation @ coefficients - self.causal) ** 2
        return float(squares[:HALF].mean()), float(squares[HALF:].mean())
