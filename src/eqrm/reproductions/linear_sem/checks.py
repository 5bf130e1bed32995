"""The claims about the linear-SEM tasks, by number."""

from __future__ import annotations

import torch

from eqrm.reproductions.base import Check
from eqrm.reproductions.linear_sem.expected import APPENDIX, CLOSED_FORM, ROTATION, limit
from eqrm.reproductions.linear_sem.experiment import Findings
from eqrm.reproductions.linear_sem.settings import METHODS, TASKS, Settings, Task


def check_all(findings: Findings, settings: Settings) -> list[Check]:
    """Every check."""
    unscrambled = [task for task in TASKS if not task.scrambled]
    return [
        *check_limits(findings, settings),
        *(check_task(findings, task) for task in unscrambled),
        *(check_kinship(findings, task) for task in unscrambled),
        check_rotation(findings, settings),
    ]


def check_limits(findings: Findings, settings: Settings) -> list[Check]:
    """Fully observed tasks with population moments end where the closed form says."""
    checks = []
    for kind, name in enumerate(("homoskedastic", "heteroskedastic")):
        for m, method in enumerate(METHODS):
            cause, effect = findings.limits[kind, m].tolist()
            wanted = limit(method, heteroskedastic=bool(kind))
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


def check_task(findings: Findings, task: Task) -> Check:
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


def check_kinship(findings: Findings, task: Task) -> Check:
    """EQRM and VREx seek the same thing and end close to each other."""
    eqrm, vrex = findings.mean(task, "EQRM")[0], findings.mean(task, "VREx")[0]
    return Check(
        f"{task.name}: EQRM and VREx, which both equalise risks, agree",
        abs(eqrm - vrex) < 0.25 * max(eqrm, vrex) + 1e-3,
        f"{eqrm:.4f} and {vrex:.4f}",
        "within a quarter of the larger",
        APPENDIX,
    )


def check_rotation(findings: Findings, settings: Settings) -> Check:
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
