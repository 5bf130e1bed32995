"""linear-sem at a small size: the chain against its equations, limits against scipy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize
from studies.linear_sem.chain import Chain
from studies.linear_sem.checks import check_sem
from studies.linear_sem.experiment import SemFindings, run_tasks
from studies.linear_sem.run import draw_errors, errors_table
from studies.linear_sem.settings import (
    METHODS,
    SCALES,
    SIZES,
    TASKS,
    SemTask,
    expected_limit,
)

pytestmark = pytest.mark.xdist_group("linear-sem")  # what is prepared once serves all tests

ONCE = replace(SIZES["quick"], repetitions=1)


@pytest.fixture(scope="module")
def findings() -> SemFindings:
    return run_tasks(ONCE, seed=0, progress=lambda share, what: None)


def test_every_check_holds_in_one_repetition(findings: SemFindings) -> None:
    assert [str(check) for check in check_sem(findings, ONCE) if not check.holds] == []


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_chain_obeys_its_structural_equations(task: SemTask) -> None:
    chain = Chain.draw(task, np.random.default_rng(5))
    rows, scale = 300_000, 2.0
    generator = np.random.default_rng(6)
    h, nx, ny, nz = generator.standard_normal((4, rows, 5))
    x = scale * h @ chain.hidden_to_x + scale * nx
    y = x + scale * h @ chain.hidden_to_y + (scale if task.heteroskedastic else 1.0) * ny
    z = y + scale * h @ chain.hidden_to_z + (1.0 if task.heteroskedastic else scale) * nz
    features = np.concatenate([x, z], axis=1) @ chain.rotation
    values = np.column_stack([features, y.sum(axis=1)])
    covariance = values.T @ values / rows
    exact = chain.population([scale]).covariance[0]
    size = np.sqrt(np.diag(exact))
    assert np.abs((covariance - exact) / np.outer(size, size)).max() < 0.01


def test_samples_have_the_population_moments() -> None:
    generator = np.random.default_rng(7)
    chain = Chain.draw(SemTask(hidden=True, heteroskedastic=False, scrambled=True), generator)
    sampled, exact = chain.sample(200_000, generator), chain.population()
    assert sampled.names == exact.names == ("0.2", "2.0", "5.0")
    size = np.sqrt(exact.covariance.diagonal(axis1=1, axis2=2))
    off = (sampled.covariance - exact.covariance) / (size[:, None] * size[:, :, None])
    assert np.abs(off).max() < 0.015


def test_the_causal_predictor_has_no_error_and_a_known_risk() -> None:
    task = SemTask(hidden=False, heteroskedastic=True, scrambled=True)
    chain = Chain.draw(task, np.random.default_rng(8))
    causal = chain.rotation.T @ chain.causal
    assert chain.errors(causal) == pytest.approx((0.0, 0.0), abs=1e-24)
    assert chain.errors(0 * causal) == pytest.approx((1.0, 0.0), abs=1e-24)
    risks = chain.population().risks(causal)
    assert risks.tolist() == pytest.approx([5 * scale**2 for scale in SCALES])


@pytest.mark.parametrize("heteroskedastic", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_closed_form_is_what_scipy_finds(method: str, heteroskedastic: bool) -> None:
    """Minimise mean risk plus a large penalty over (a, b), from the formulas of the risks."""
    e2 = np.array(SCALES) ** 2
    noise_y, noise_z = (e2, 1.0) if heteroskedastic else (1.0, e2)

    def objective(point: np.ndarray) -> float:
        a, b = point
        risks = 2 * e2 * (a + b - 1) ** 2 + (b - 1) ** 2 * noise_y + b**2 * noise_z
        slopes = 2 * e2 * (a + b) * (a + b - 1) + b * (b - 1) * noise_y + b**2 * noise_z
        penalty = {"ERM": 0.0, "IRM": np.mean(slopes**2)}.get(method, risks.var())
        return float(risks.mean() + 1e7 * penalty)

    starts = [(0.1, 0.9), (0.9, 0.1), (0.5, 0.5)]
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    ends = [optimize.minimize(objective, s, method="Nelder-Mead", options=options) for s in starts]
    best = min(ends, key=lambda end: end.fun)
    assert best.x == pytest.approx(expected_limit(method, heteroskedastic), abs=0.03)


def with_errors(findings: SemFindings, task: str, method: str, value: float) -> SemFindings:
    errors = findings.errors.clone()
    index = [each.name for each in TASKS].index(task)
    errors[index, METHODS.index(method)] = value
    return replace(findings, errors=errors)


BREAKS: dict[str, Callable[[SemFindings], SemFindings]] = {
    "FOU: error": lambda f: with_errors(f, "FOU", "EQRM", 1.0),
    "FEU: error": lambda f: with_errors(f, "FEU", "IRM", 0.5),
    "POU: error": lambda f: with_errors(f, "POU", "VREx", 1.0),
    "PEU: error": lambda f: with_errors(f, "PEU", "EQRM", 0.01),
    "FOU: EQRM and VREx": lambda f: with_errors(f, "FOU", "EQRM", 1.0),
    "FEU: EQRM and VREx": lambda f: with_errors(f, "FEU", "EQRM", 0.1),
    "POU: EQRM and VREx": lambda f: with_errors(f, "POU", "EQRM", 1.0),
    "PEU: EQRM and VREx": lambda f: with_errors(f, "PEU", "EQRM", 0.1),
    "scrambling": lambda f: with_errors(f, "POS", "IRM", 0.3),
    **{
        f"{method}, fully observed, {kind}": lambda f: replace(f, limits=f.limits + 0.03)
        for method in METHODS
        for kind in ("homoskedastic", "heteroskedastic")
    },
}


@pytest.mark.parametrize("claim", BREAKS)
def test_each_check_fails_when_its_numbers_are_wrong(claim: str, findings: SemFindings) -> None:
    broken = check_sem(BREAKS[claim](findings), ONCE)
    (check,) = [check for check in broken if check.claim.startswith(claim)]
    assert not check.holds


def test_no_check_is_left_out_of_the_test_above(findings: SemFindings) -> None:
    assert len(check_sem(findings, ONCE)) == len(BREAKS)


def test_the_table_and_the_figure_show_the_same_errors(findings: SemFindings) -> None:
    two = torch.cat([findings.errors, 1.1 * findings.errors], dim=2)  # for standard errors
    findings = replace(findings, errors=two)
    rows = errors_table(findings).rows
    assert len(rows) == len(TASKS) * len(METHODS)
    top = draw_errors(findings).axes[0]
    heights = [bar.get_height() for container in top.containers[1::2] for bar in container.patches]
    by_method = [row[2] for method in METHODS for row in rows if row[1] == method]
    assert heights == pytest.approx(by_method)
    assert bool(torch.isfinite(findings.errors).all())
