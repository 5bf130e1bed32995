"""Without an optional package the rest works, and the error names the extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import eqrm
from eqrm.errors import MissingExtraError
from eqrm.evaluation.presenting import plots


def test_drawing_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    kde = eqrm.KDE(torch.tensor([0.1, 0.2, 0.4]))
    with pytest.raises(MissingExtraError, match=r"pip install 'eqrm\[plots\]'"):
        plots.draw_risk_distribution(kde, eqrm.Level(0.9))


ABSENT = ("matplotlib", "pandas", "duckdb", "pyarrow")


class _Absent:
    """Imports as if these packages were not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_the_flights_are_trained_on_without_any_optional_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from eqrm import cli
    from eqrm.data.datasets import tables

    table = eqrm.data.load_flights()
    few = table.in_domains(table.domain_names[:12])
    monkeypatch.setattr(tables, "load_flights", lambda weather: few)
    for name in [name for name in sys.modules if name.partition(".")[0] in ABSENT]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Absent(), *sys.meta_path])
    arguments = ["train", "flights", "--model", "linear", "--measure", "mean"]
    arguments += ["--output", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["eqrm", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert "Use: logistic, " in printed
    assert not list(tmp_path.rglob("*.svg"))
