"""``eqrm figure`` writes what was asked for, marked at the right place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from eqrm.cli import figure

SIGNATURES = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


@pytest.mark.parametrize("ending", sorted(SIGNATURES))
@pytest.mark.parametrize("kind", figure.KINDS)
def test_a_figure_is_written_in_the_format_of_its_name(
    kind: str, ending: str, tmp_path: Path
) -> None:
    output = tmp_path / "new folder" / f"risks.{ending}"
    figure.figure(kind, output=output)
    assert output.read_bytes().startswith(SIGNATURES[ending])


def test_the_marked_quantile_is_scipys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure.figure(
        "risk-distribution", risks="0.1 0.2 0.6", bandwidth="0.05", output=tmp_path / "f.svg"
    )
    risks = np.array([0.1, 0.2, 0.6])
    expected = brentq(lambda q: norm.cdf((q - risks) / 0.05).mean() - 0.9, 0, 2)
    told = capsys.readouterr().out
    assert f"puts the 0.9-quantile of the risk of a new domain at {expected:.4g}" in told
    assert "an estimate, not a bound" in told


def test_risks_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "risks.txt"
    file.write_text("0.1\n0.2\n0.4, 0.8\n", encoding="utf-8")
    assert figure.read_risks(str(file)) == [0.1, 0.2, 0.4, 0.8]
