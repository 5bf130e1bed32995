"""docs/adding-an-objective.md: done step by step, in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "adding-an-objective.md").read_text(encoding="utf-8")
DONE = """
from pathlib import Path
from eqrm.files.yaml_text import read_yaml
from eqrm.sweeps.planned_runs import planned_sweep
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.records import read_records
from eqrm.sweeps.tables.formats import to_text
from eqrm.sweeps.tables.tabulating import sweep_tables
from sweeps.small_plans import HereEngine

folder = SweepFolder("sweep")
planned = planned_sweep(read_yaml(Path("plan.yaml")), "plan.yaml")
result = run_sweep(planned, folder, HereEngine(folder))
assert not result.failures, result.failures
records = read_records(folder.path)
tilts = {r.settings.get("objective.hyperparameters.tilt") for r in records}
print(len(records), len(tilts - {None}))
print(to_text(sweep_tables(records)))
"""


def block(kind: str, after: str) -> str:
    """The first block of code after some words of the page."""
    found = re.search(rf"```{kind}\n(.*?)```", PAGE[PAGE.index(after) :], re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.full
def test_a_dataset_and_an_objective_are_one_file_and_one_row_each(tmp_path: Path) -> None:
    source = tmp_path / "src" / "eqrm"
    shutil.copytree(REPOSITORY / "src" / "eqrm", source)
    for file, registry, start in (
        ("data/datasets/turned_moons.py", "data/datasets/registry.py", '    "dataset",\n    {\n'),
        ("objectives/tilted.py", "objectives/registry.py", '    "objective",\n    {\n'),
    ):
        (source / file).write_text(block("python", f"One file, `src/eqrm/{file}`"), "utf-8")
        text = (source / registry).read_text(encoding="utf-8")
        assert text.count(start) == 1
        row = block("python", f"in `src/eqrm/{registry}`")
        (source / registry).write_text(text.replace(start, start + row), encoding="utf-8")
    (tmp_path / "plan.yaml").write_text(block("yaml", "## The sweep"), encoding="utf-8")
    # The copy is not what coverage measures: its files would count as package files never run.
    unmeasured = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    paths = os.pathsep.join([str(tmp_path / "src"), str(REPOSITORY / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", DONE],
        env={**unmeasured, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "9 3"  # three draws of the tilt, the default among them
    for name in ("erm", "tilted", "linear"):
        assert re.search(rf"^{name} +\d", done.stdout, re.MULTILINE)
