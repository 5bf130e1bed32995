"""Without an optional package the rest works, and the error names the extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import eqrm
from eqrm.errors import MissingExtraError
from eqrm.evaluation import plots, risk_curves


def test_drawing_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    kde = eqrm.KDE(torch.tensor([0.1, 0.2, 0.4]))
    curve = risk_curves.smooth_curve(kde, "KDE", risk_curves.shared_grid(kde))
    with pytest.raises(MissingExtraError, match=r"pip install 'eqrm\[plots\]'"):
        plots.draw_risk_distribution(curve)


def test_the_demo_runs_without_matplotlib(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from eqrm.cli.demo import demo

    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    demo(alpha=["0.9"], seed=0, output=tmp_path)
    printed = capsys.readouterr().out
    assert "α = 0.9" in printed
    assert "No figure" in printed
    assert list(tmp_path.iterdir()) == []
