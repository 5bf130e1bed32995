"""``eqrm control`` on ten million rows and three models, beside pandas; and on more than fits.

    python benchmarks/control_large.py [--quick]

A Parquet file of ten million rows in 1,000 domains is generated (not timed): the domain, a label 0
or 1 and the probabilities of three models, which are surer and oftener wrong in harder domains.
Then, each in a process of its own that is timed from start to end, with its peak memory:

- **eqrm**: the command, for 'wrong <= 5%' in 9 of 10 new domains, choosing among the models;
- **pandas**: the same settings from a sort of all rows by domain and confidence, and scipy's
  binomial distribution. The settings must be equal to the last bit;
- **eqrm, three files**: the file listed three times, each listing with its own domains: 90 million
  predictions, which are read domain by domain.

``make verify`` requires at most 20 s and 1.5 GB for ten million rows, and 1.5 GB for thirty
million (control.large-files). A bound that is exceeded is measured a second time.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import duckdb
from evaluate_large import (
    COMMAND,
    THREADS,
    Limit,
    Run,
    best_of_two,
    large_folder,
    print_runs,
    timed,
    told,
)
from tables import begun

from eqrm.evaluation import OperatingPoint

ROWS, DOMAINS, COPIES = 10_000_000, 1_000, 3
MODELS = {"a": 0.3, "b": 0.5, "c": 0.8}
LIMIT, LARGER = Limit(20.0, 1.5), Limit(300.0, 1.5)

PANDAS = """
import json, sys
import numpy as np, pandas as pd
from scipy.stats import binom
frame, settings = pd.read_parquet(sys.argv[1]), {}
for name in sys.argv[3:]:
    p = frame[name].to_numpy()
    wrong = (p >= 0.5) != (frame.label.to_numpy() == 1)
    score = np.where(wrong, np.maximum(p, 1 - p), -np.inf)
    ordered = pd.DataFrame({"domain": frame.domain, "score": score}).sort_values(
        ["domain", "score"], ascending=[True, False])
    sizes = ordered.groupby("domain").size().to_numpy()
    first = np.cumsum(sizes) - sizes + np.floor(0.05 * sizes + 1e-9).astype(int)
    needed = np.sort(np.maximum(ordered.score.to_numpy()[first], 0.0))
    rank = int(binom.ppf(1 - 0.05 / len(sys.argv[3:]), len(needed), 0.9)) + 1
    settings[name] = float(needed[rank - 1]) + 1e-6  # so much more cautious, as control is
json.dump(settings, open(sys.argv[2], "w"))
"""


def generate(path: Path, rows: int) -> None:
    """Pseudo-random rows, the same each time."""
    own = f"0.05 + 0.35 * (hash(i) % {DOMAINS}) / {DOMAINS}"  # the share that is predicted wrongly
    columns = ", ".join(
        f"abs((label != (hash(i * 7 + {place}) % 1000003 < 1000003 * {hard} * wrong))::INTEGER"
        f" - 0.5 * pow((hash(i * 11 + {place}) % 1000003) / 1000003, 2)) AS {name}"
        for place, (name, hard) in enumerate(MODELS.items())
    )
    connection = duckdb.connect(config={"threads": THREADS, "memory_limit": "2GB"})
    connection.execute(
        f"""
        COPY (
            SELECT (hash(i) % {DOMAINS})::INTEGER AS domain, label::TINYINT AS label, {columns}
            FROM (SELECT i, hash(i * 3 + 1) % 100 < 40 AS label, {own} AS wrong
                  FROM range({rows}) AS t(i))
        ) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 1000000)
        """
    )
    connection.close()


def control(path: Path, rows: int, limit: Limit, *domain: str) -> Run:
    """The command."""
    options = ["--target", "label", "--require", "wrong <= 5%", "--threads", str(THREADS)]
    options += ["--save", str(path.parent / "point.json")]
    for name in MODELS:
        options += ["--prediction", name]
    for column in domain or ("domain",):
        options += ["--domain", column]
    name = f"eqrm{', three files' if domain else ''}"
    return best_of_two(lambda: timed(name, rows, limit, COMMAND, "control", str(path), *options))


def main(arguments: list[str]) -> int:
    """Generate, measure, compare; 1 if a limit is broken or a setting differs."""
    rows = ROWS // 20 if begun(arguments, __doc__, "a twentieth of the rows") else ROWS
    with large_folder() as folder:
        path = folder / "measured.parquet"
        generate(path, rows)
        (folder / "more").mkdir()
        for copy in range(COPIES):
            os.link(path, folder / "more" / f"part-{copy}.parquet")
        runs = [control(path, rows, LIMIT)]
        point = OperatingPoint.load(folder / "point.json")
        saved = folder / "pandas.json"
        runs.append(timed("pandas", rows, None, PANDAS, str(path), str(saved), *MODELS))
        wanted = json.loads(saved.read_text())
        runs.append(control(folder / "more", COPIES * rows, LARGER, "filename", "domain"))
    print_runs(runs)
    same = {name: each.setting for name, each in point.models.items()} == wanted
    passed = same and all(run.passed for run in runs)
    settings = ", ".join(f"{name} {setting:.4f}" for name, setting in wanted.items())
    print(
        f"{told(runs)}; settings ({settings}) {'equal' if same else 'DIFFER FROM'} those of "
        f"pandas: {'pass' if passed else 'FAIL'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
