"""docs/sweeps.md: its plan is the example, which runs and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eqrm.files.yaml_text import read_yaml
from eqrm.sweeps import sweep_status
from eqrm.sweeps.plan import PlannedDataset, PlannedObjective, SweepPlan
from eqrm.sweeps.planned_runs import planned_sweep
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from sweeps.small_plans import HereEngine

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "sweeps.md").read_text(encoding="utf-8")
PLAN = REPOSITORY / "examples" / "sweeps" / "coloured_digits.yaml"


@pytest.mark.full
def test_the_example_runs_and_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"```yaml\n{PLAN.read_text(encoding='utf-8')}```" in PAGE
    monkeypatch.chdir(tmp_path)
    folder = SweepFolder("sweeps/coloured_digits")
    planned = planned_sweep(read_yaml(PLAN), str(PLAN))
    run_sweep(planned, folder, HereEngine(folder))
    assert f"```\n{sweep_status(folder.path).to_text()}\n```" in PAGE
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    exec(code.group(1), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(planned.runs) == 24
    assert lines[24] == "24 of 24 runs finished"
    assert len(lines) == 24 + 1 + 3
    assert lines[0].startswith("eqrm .9 0 0 {'source-")


def test_the_page_names_every_field_of_a_plan() -> None:
    kinds = (SweepPlan, PlannedDataset, PlannedObjective)
    fields = {name for kind in kinds for name in kind.__dataclass_fields__}
    assert {name for name in fields if f"`{name}`" not in PAGE} == set()
