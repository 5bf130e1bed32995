"""The notebooks run: their cells here, and by a kernel of Jupyter where one is installed."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def _cells(path: Path) -> list[str]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def _run(source: str, names: dict[str, object]) -> object:
    """What the last line of a cell gives, as a notebook would show it."""
    *lines, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        lines, last = [*lines, last], ast.Expr(ast.Constant(None))
    exec(compile(ast.Module(lines, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_there_are_two_notebooks_without_stored_output() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["judge_a_model", "train_for_a_level"]
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells)


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_shows_something(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    shown = [_run(source, names) for source in _cells(path)]
    pyplot.close("all")
    tables = [each for each in shown if hasattr(each, "_repr_html_")]
    assert len(tables) >= 2
    assert all("<table" in each._repr_html_() or "<p>" in each._repr_html_() for each in tables)
    if path.stem == "train_for_a_level":
        assert any(each is True for each in shown)  # loaded models predict the same
