"""The search for definite matrices, on spans whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from studies.causal.proofs import definite_combination


def symmetric(generator: np.random.Generator, k: int) -> np.ndarray:
    matrix = generator.standard_normal((k, k))
    return matrix + matrix.T


@pytest.mark.parametrize("seed", range(20))
def test_a_definite_matrix_hidden_in_a_span_is_found(seed: int) -> None:
    generator = np.random.default_rng(seed)
    k, r = 2 + seed % 6, 1 + seed % 4
    root = generator.standard_normal((k, k))
    hidden = root @ root.T + 0.1 * np.eye(k)
    directions = np.stack([symmetric(generator, k) for _ in range(r)])
    weights = generator.standard_normal(r)
    base = hidden - np.tensordot(weights, directions, 1)
    found = definite_combination(base, directions)
    assert found is not None
    assert np.linalg.eigvalsh(base + np.tensordot(found, directions, 1))[0] > 0


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_claimed_where_a_vector_forbids_it(seed: int) -> None:
    # With vᵀAv < 0 for the base and 0 for all directions no combination is definite.
    generator = np.random.default_rng(seed)
    k, r = 2 + seed % 6, 1 + seed % 4
    v = generator.standard_normal(k)
    v /= np.linalg.norm(v)

    def with_value(value: float) -> np.ndarray:
        matrix = symmetric(generator, k)
        return matrix + (value - v @ matrix @ v) * np.outer(v, v)

    base, directions = with_value(-0.1), np.stack([with_value(0.0) for _ in range(r)])
    assert definite_combination(base, directions) is None


def test_without_directions_the_base_decides() -> None:
    nothing = np.zeros((0, 2, 2))
    assert definite_combination(np.eye(2), nothing) is not None
    assert definite_combination(np.diag([1.0, -1.0]), nothing) is None
