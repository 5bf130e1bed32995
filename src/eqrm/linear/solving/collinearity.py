"""Constant columns and linear dependence, said in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SMALL = 1e-12


def describe_problems(
    mean: Tensor, covariance: Tensor, features: Sequence[str], target: str
) -> list[str]:
    """One sentence per constant column and per set of linearly dependent features.

    ``mean`` (E, d+1) and ``covariance`` (E, d+1, d+1) are per domain, the target last. The
    question is asked of all domains together, each with the same weight.
    """
    between = mean - mean.mean(dim=0)
    pooled = covariance.mean(dim=0) + between.T @ between / len(mean)
    variances = pooled.diagonal()
    # A constant column far from 0 is left with the variance of its rounding.
    floor = (8 * torch.finfo(torch.float64).eps * mean.abs().amax(dim=0)) ** 2
    constant = variances <= floor
    problems = [
        f"Feature {name!r} is constant: leave it out, the intercept stands for it."
        for name, flag in zip(features, constant.tolist(), strict=False)
        if flag
    ]
    if bool(constant[-1]):
        problems.append(f"The target {target!r} is constant: there is nothing to predict.")
    moving = [j for j in range(len(features)) if not bool(constant[j])]
    return problems + _dependences(pooled[moving][:, moving], [features[j] for j in moving])


def _dependences(pooled: Tensor, names: Sequence[str]) -> list[str]:
    if len(names) < 2:
        return []
    scale = pooled.diagonal().rsqrt()
    values, vectors = torch.linalg.eigh(pooled * scale[:, None] * scale)
    directions = vectors[:, values < SMALL * len(names)]
    return [_sentence([names[j] for j in group]) for group in _groups(directions)]


def _groups(directions: Tensor) -> list[list[int]]:
    """Sets of features that the null directions tie together: connected blocks of VVᵀ."""
    linked = (directions @ directions.T).abs() > 1e-6
    left = [j for j in range(len(linked)) if bool(linked[j, j])]
    groups = []
    while left:
        group, frontier = {left[0]}, [left[0]]
        while frontier:
            row = linked[frontier.pop()]
            new = [j for j in left if bool(row[j]) and j not in group]
            group.update(new)
            frontier.extend(new)
        groups.append(sorted(group))
        left = [j for j in left if j not in group]
    return groups


def _sentence(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    listed = ", ".join(quoted[:-1]) + f" and {quoted[-1]}"
    return f"Features {listed} are linearly dependent: leave one of them out."
