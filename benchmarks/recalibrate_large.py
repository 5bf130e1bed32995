"""``eqrm recalibrate`` on ten million rows, beside a minimisation by scipy.

    python benchmarks/recalibrate_large.py [--quick]

A Parquet file of ten million rows in 10,000 domains is generated (100 MB, not timed): the domain,
a label 0 or 1 and a probability, which is too sure and shifted differently in each domain. Then,
each in a process of its own that is timed from start to end, with its peak memory and the
processor time of all its threads:

- **eqrm, half**: the command as it is, which fits on half of the domains and judges the others;
- **eqrm, all**: the command with all domains but two to fit on;
- **scipy, all**: the same rows read by pandas, and L-BFGS-B of scipy on log-losses of torch with
  the gradient of autograd, from three starts. Its best value is the independent optimum.

The value of either correction is computed again from all rows with numpy alone: the mean log-loss
of each domain, and the root of the smoothed distribution function of these, by bisection.
``make verify`` demands at most 60 s and 2 GB for the command, and a value within 1e-4 of the
optimum. A broken bound is measured a second time, for other programs may use the same cores.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import numpy as np
from evaluate_large import COMMAND, THREADS, Limit, Run, best_of_two, large_folder, timed, told
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from tables import aligned, begun

ROWS, DOMAINS, ALPHA, HELD_OUT = 10_000_000, 10_000, 0.9, 2
LIMIT = Limit(60.0, 2.0)
WITHIN = 1e-4
HALF, ALL, SCIPY = "eqrm, half", "eqrm, all", "scipy, all"

MINIMISED = """
import json, sys
import numpy as np, pandas as pd, torch
from scipy.optimize import minimize
from torch.nn.functional import softplus
import eqrm
frame = pd.read_parquet(sys.argv[1])
frame = frame[frame.domain < int(sys.argv[2])]
p, domains = frame.p.to_numpy(), torch.from_numpy(frame.domain.to_numpy().astype(np.int64))
scores = torch.from_numpy(np.log(p) - np.log1p(-p))
signs = torch.from_numpy(1.0 - 2.0 * frame.label.to_numpy())
objective, count = eqrm.EQRM(float(sys.argv[3])), int(sys.argv[2])
def value(theta):
    theta = torch.tensor(theta, requires_grad=True)
    found = objective(softplus(signs * (theta[0] + theta[1] * scores)), domains, count)
    found.backward()
    return float(found.detach()), theta.grad.numpy()
ends = [
    minimize(value, np.array(start), jac=True, method="L-BFGS-B", options={"gtol": 1e-9})
    for start in ([0.0, 1.0], [0.0, 0.3], [-1.0, 0.6])
]
best = min(ends, key=lambda end: end.fun)
print(json.dumps({"shift": best.x[0], "scale": best.x[1]}), file=open(sys.argv[4], "w"))
"""


def generate(path: Path, rows: int, domains: int) -> None:
    """Pseudo-random rows, the same each time; normal scores by Box and Muller."""

    def normal(one: str, two: str) -> str:
        first, second = (f"((hash({each}) % 1000003) + 1) / 1000004.0" for each in (one, two))
        return f"sqrt(-2 * ln({first})) * cos(2 * pi() * {second})"

    connection = duckdb.connect(config={"threads": THREADS, "memory_limit": "1GB"})
    connection.execute(
        f"""
        COPY (
            SELECT d::INTEGER AS domain, 1 / (1 + exp(-score)) AS p,
                (chance < 1 / (1 + exp(1 - 0.7 * score - own)))::TINYINT AS label
            FROM (
                SELECT d, score, chance, {normal("d * 5 + 3", "d * 11 + 7")} AS own FROM (
                    SELECT hash(i) % {domains} AS d,
                        2 * {normal("i * 3 + 1", "i * 7 + 2")} AS score,
                        (hash(i * 13 + 5) % 1000003) / 1000003.0 AS chance
                    FROM range({rows}) AS t(i)
                )
            )
        ) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 1000000)
        """
    )
    connection.close()


def recalibration(path: Path, name: str, rows: int, test_last: float) -> Run:
    """The command; domains are numbers, so the last share of them is held out."""
    options = ["--domain", "domain", "--target", "label", "--prediction", "p"]
    options += ["--alpha", str(ALPHA), "--test-last", str(test_last)]
    options += ["--threads", str(THREADS), "--save", str(path.parent / f"{name}.json")]
    return best_of_two(
        lambda: timed(name, rows, LIMIT, COMMAND, "recalibrate", str(path), *options)
    )


def smoothed_quantile(risks: NDArray[np.float64]) -> float:
    """The quantile of a normal kernel density estimate with the rule for normal laws."""
    width = risks.std(ddof=1) * (4.0 / (3.0 * len(risks))) ** 0.2
    low, high = risks.min() - 10.0 * width, risks.max() + 10.0 * width
    return float(brentq(lambda q: ndtr((q - risks) / width).mean() - ALPHA, low, high, xtol=1e-14))


def value_of(path: Path, correction: Path, domains: int) -> float:
    """The objective of a correction over all rows of the first domains."""
    own = json.loads(correction.read_text())
    sums, counts = np.zeros(domains), np.zeros(domains)
    connection = duckdb.connect(config={"threads": THREADS})
    found = connection.execute(
        "SELECT domain, label, p FROM read_parquet($file) WHERE domain < $domains",
        {"file": str(path), "domains": domains},
    )
    while len(part := found.fetch_df_chunk(100)) > 0:
        p, ids = part.p.to_numpy(), part.domain.to_numpy()
        logits = own["shift"] + own["scale"] * (np.log(p) - np.log1p(-p))
        losses = np.logaddexp(0.0, np.where(part.label == 1, -logits, logits))
        sums += np.bincount(ids, losses, domains)
        counts += np.bincount(ids, minlength=domains)
    return smoothed_quantile(sums / counts)


def measure(folder: Path, rows: int, domains: int) -> tuple[list[Run], dict[str, float]]:
    """All runs, and the values that they reached on the same rows."""
    path = folder / "measured.parquet"
    generate(path, rows, domains)
    most = domains - HELD_OUT
    runs = [
        recalibration(path, HALF, rows, 0.5),
        recalibration(path, ALL, rows, HELD_OUT / domains),
    ]
    saved = folder / f"{SCIPY}.json"
    arguments = [str(path), str(most), str(ALPHA), str(saved)]
    runs.append(timed(SCIPY, rows, None, MINIMISED, *arguments))
    values = {name: value_of(path, folder / f"{name}.json", most) for name in (ALL, SCIPY)}
    return runs, values


def print_runs(runs: list[Run]) -> None:
    """A line per run, with its time as a ratio to scipy's."""
    reference = next(run for run in runs if run.name == SCIPY)
    cells = [
        [
            run.name,
            f"{run.rows:,}",
            f"{run.seconds:.1f}",
            f"{run.cpu_seconds:.1f}",
            f"{run.gigabytes:.2f}",
            f"{run.seconds / reference.seconds:.2f}",
            "" if run.limit is None else "pass" if run.passed else "FAIL",
        ]
        for run in runs
    ]
    print(aligned(["", "rows", "s", "CPU s", "GB", "/ scipy", ""], cells))


def main(arguments: list[str]) -> int:
    """Generate, measure, compare; 1 if a limit is broken."""
    share = 10 if begun(arguments, __doc__, "a tenth of the rows and domains") else 1
    with large_folder() as folder:
        runs, values = measure(folder, ROWS // share, DOMAINS // share)
    print_runs(runs)
    excess = values[ALL] - values[SCIPY]
    passed = excess <= WITHIN and all(run.passed for run in runs)
    print(
        f"{told(runs)}; objective on all rows: eqrm {values[ALL]:.9f}, scipy {values[SCIPY]:.9f} "
        f"({excess:+.1e}): {'pass' if passed else 'FAIL'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
