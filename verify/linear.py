"""Linear models at full size: moments, worlds, the exact solver, its speed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from verify.registry import ROOT, Options, Result, check, package_environment, passed

import eqrm
from eqrm import Level, LinearQRM
from eqrm.linear import DomainMoments, LinearERM
from linear.solver_worlds import lowest_by_lbfgs, paper_world, random_world

PAPER_SIZE = """
import json, resource, time
import numpy as np
from studies.linear_worlds import ExampleWorld, example_domains
start = time.perf_counter()
moments = ExampleWorld().sample_moments(example_domains(1000), 200_000, workers=2)
seconds, cpu = time.perf_counter() - start, time.process_time()
exact = ExampleWorld().population(example_domains(1000))
spread = np.sqrt(exact.covariance.diagonal(axis1=1, axis2=2))
error = np.abs(moments.covariance - exact.covariance) / (spread[:, :, None] * spread[:, None])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
found = {"seconds": seconds, "cpu": cpu, "bytes": peak}
print(json.dumps({**found, "error": float(error.max()) * 200_000**0.5}))
"""
Value = Callable[[torch.Tensor], torch.Tensor]
LEVELS = [0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999]
DEEP = [Level(log_tail=-100), Level(log_tail=-1000)]
LAWS = {"kde": eqrm.KDE, "gaussian": eqrm.Gaussian, "empirical": eqrm.Empirical}


@check("linear.sampling", "1000 domains × 200,000 samples drawn and reduced to moments")
def paper_size(options: Options) -> Result:
    finished = subprocess.run(
        [sys.executable, "-c", PAPER_SIZE],
        cwd=ROOT,
        env=package_environment(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(finished.stdout)
    return passed(
        # Two threads; beside other programs they wait, and their own work is what counts.
        min(found["seconds"], found["cpu"] / 2.0) <= 50
        and found["bytes"] <= 1e9
        and found["error"] < 10,
        f"{found['seconds']:.1f} s ({found['cpu']:.1f} s of processor time), "
        f"peak memory {found['bytes'] / 1e6:.0f} MB; worst error of a covariance "
        f"{found['error']:.1f}/√n",
        **found,
    )


@check("linear.closed-form", "population moments: β2 = 2/(2 + Q) to 1e-8, β → (1, 0) monotonically")
def closed_form(options: Options) -> Result:
    worst, solved, monotone, unbounded = 0.0, 0, True, 0
    for seed in range(3):
        squares, moments = paper_world(1000, seed)
        for name, law in LAWS.items():
            effects = []
            for level in (*LEVELS, *DEEP):
                quantile = float(law(squares).quantile(level))
                if 2.0 + quantile <= 0.0:
                    unbounded += 1
                    continue
                beta = LinearQRM(level, name).fit(moments).coef_
                effect = 2.0 / (2.0 + quantile)
                worst = max(worst, float(np.abs(beta - [1.0 - effect, effect]).max()))
                effects.append(float(beta[1]))
                solved += 1
            monotone &= all(b <= a + 1e-12 for a, b in pairwise(effects))
    _, moments = paper_world(1000)
    last = LinearQRM(Level(log_tail=-1e30)).fit(moments).coef_
    away = float(np.abs(last - [1.0, 0.0]).max())
    return passed(
        worst <= 1e-8 and monotone and away < 1e-12,
        f"{solved} solves, largest error {worst:.1e}; monotone: {monotone}; at log(1-α) = -1e30 "
        f"{away:.1e} from the causal coefficients; {unbounded} settings with 2 + Q <= 0 left out",
    )


@dataclass
class Agreement:
    """How Newton's ends compare with those of L-BFGS."""

    solved: int = 0
    apart: list[str] = field(default_factory=list)
    worst: float = 0.0
    moved: float = 0.0

    def add(self, case: str, moments: DomainMoments, start: np.ndarray, objective: Value) -> None:
        name, level = case.split(" ")
        model = LinearQRM(level, name, starts=[start.tolist()]).fit(moments)
        other = lowest_by_lbfgs(objective, moments, start)
        gap = model.value_ / other - 1.0
        self.solved += model.converged_
        if abs(gap) <= 1e-6:
            self.worst = max(self.worst, abs(gap))
            return
        self.apart.append(f"{case} {gap:+.1e}")
        end = np.append(model.coef_, model.intercept_)
        again = lowest_by_lbfgs(objective, moments, end)
        self.moved = max(self.moved, abs(model.value_ / again - 1.0))


def compare_with_lbfgs(random_starts: bool) -> Agreement:
    found = Agreement()
    for seed in range(20):
        moments = random_world(60, 5, seed=seed)
        erm = LinearERM().fit(moments)
        start = np.append(erm.coef_, erm.intercept_)
        if random_starts:
            start = np.random.default_rng(seed).standard_normal(6)
        for name in ("kde", "gaussian"):
            for level in ("0.5", "0.9", "0.99", "1-e^-1000"):

                def objective(risks: torch.Tensor, law=LAWS[name], level=level) -> torch.Tensor:
                    return law(risks).quantile(level)

                found.add(f"{name} {level}", moments, start, objective)
    return found


@check("linear.newton", "Newton and L-BFGS from one start end at the same value")
def newton(options: Options) -> Result:
    near, far = compare_with_lbfgs(random_starts=False), compare_with_lbfgs(random_starts=True)
    both_solved = near.solved == far.solved == 160
    return passed(
        not near.apart and both_solved and far.moved < 1e-9,
        f"from the least mean risk {160 - len(near.apart)} of 160 values agree, to "
        f"{near.worst:.1e}; from random starts {160 - len(far.apart)} of 160 (to "
        f"{far.worst:.1e}), the others are different minima of one objective "
        f"({', '.join(far.apart) or 'none'}; L-BFGS moves Newton's by {far.moved:.0e})",
    )
