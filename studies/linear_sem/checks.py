"""The claims about the linear-SEM tasks, by number."""

from __future__ import annotations

import torch

from studies.linear_sem.experiment import SemFindings
from studies.linear_sem.settings import (
    APPENDIX,
    CLOSED_FORM,
    METHODS,
    ROTATION,
    TASKS,
    SemSettings,
    SemTask,
    expected_limit,
)
from studies.outcome import Check


def check_sem(findings: SemFindings, settings: SemSettings) -> list[Check]:
    """Every check."""
    unscrambled = [task for task in TASKS if not task.scrambled]
    return [
        *_check_limits(findings, settings),
        *(_check_task(findings, task) for task in unscrambled),
        *(_check_kinship(findings, task) for task in unscrambled),
        _check_rotation(findings, settings),
    ]


def _check_limits(findings: SemFindings, settings: SemSettings) -> list[Check]:
    """Fully observed tasks with population moments end where the closed form says."""
    checks = []
    for kind, name in enumerate(("homoskedastic", "heteroskedastic")):
        for m, method in enumerate(METHODS):
            cause, effect = findings.limits[kind, m].tolist()
            wanted = expected_limit(method, heteroskedastic=bool(kind))
            off = max(abs(cause - wanted[0]), abs(effect - wanted[1])) + findings.limit_spread
            checks.append(
                Check(
                    f"{method}, fully observed, {name}, population moments",
                    off < settings.near,
                    f"coefficients {cause:.4f} (X), {abs(effect):.4f} (Z)",
                    f"{wanted[0]:.4f}, {wanted[1]:.4f} to {settings.near}",
                    CLOSED_FORM,
                )
            )
    return checks


def _check_task(findings: SemFindings, task: SemTask) -> Check:
    """Heteroskedastic: only IRM is near the causal predictor. Homoskedastic: all are."""
    means = {method: findings.mean(task, method)[0] for method in METHODS}
    measured = ", ".join(f"{method} {mean:.4f}" for method, mean in means.items())
    if task.heteroskedastic:
        holds = means["IRM"] < 0.2 * min(means["ERM"], means["VREx"], means["EQRM"])
        needed = "IRM below a fifth of all others"
    else:
        holds = max(means.values()) < 0.1
        needed = "all below 0.1, a tenth of what ignoring X or using Z instead costs"
    return Check(
        f"{task.name}: error of the causal coefficients", holds, measured, needed, APPENDIX
    )


def _check_kinship(findings: SemFindings, task: SemTask) -> Check:
    """EQRM and VREx seek the same thing and end close to each other."""
    eqrm, vrex = findings.mean(task, "EQRM")[0], findings.mean(task, "VREx")[0]
    return Check(
        f"{task.name}: EQRM and VREx, which both equalise risks, agree",
        abs(eqrm - vrex) < 0.25 * max(eqrm, vrex) + 1e-3,
        f"{eqrm:.4f} and {vrex:.4f}",
        "within a quarter of the larger",
        APPENDIX,
    )


def _check_rotation(findings: SemFindings, settings: SemSettings) -> Check:
    """Scrambled tasks have the errors of unscrambled ones, once the rotation is undone."""
    plain = [t for t, task in enumerate(TASKS) if not task.scrambled]
    rotated = [t for t, task in enumerate(TASKS) if task.scrambled]
    largest = float((findings.errors[plain] - findings.errors[rotated]).abs().max())
    return Check(
        "scrambling the features changes nothing",
        largest < settings.same and bool(torch.isfinite(findings.errors).all()),
        f"errors differ by {largest:.1e} at most",
        f"below {settings.same:g}",
        ROTATION,
    )
