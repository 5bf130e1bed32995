"""The risks of all domains as smooth functions of parameters: what Newton's method needs of them.

Squared error gives quadratics (:mod:`eqrm.linear.solving.quadratics`); any other loss that can be
differentiated twice will do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class RisksAt(ABC):
    """The risks of m domains at one θ (p,): ``mean`` R̄ and ``spread`` R_e − R̄ (m,)."""

    mean: float
    spread: Array

    @property
    @abstractmethod
    def slopes(self) -> tuple[Array, Array]:
        """∇R̄ (p,) and ∇R_e − ∇R̄ (m, p)."""

    @abstractmethod
    def weighted_hessian(self, weights: Array) -> Array:
        """Σ g_e ∇²R_e for weights g (m,) that need not sum to 1."""


class RiskFunctions(ABC):
    """The risks of m domains in p parameters."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """p."""

    @abstractmethod
    def at(self, theta: Array) -> RisksAt:
        """The risks at θ, with derivatives when they are asked for."""
