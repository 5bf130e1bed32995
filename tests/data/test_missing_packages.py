"""Without an optional package the error names the extra to install."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import eqrm
from data.wilds_layout import write_iwildcam, write_ogb_molpcba
from eqrm.data.datasets.chemistry import murcko_scaffold, rdkit
from eqrm.errors import MissingExtraError


@pytest.fixture(autouse=True)
def forget_rdkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("EQRM_CACHE", str(tmp_path / "cache"))
    yield
    rdkit.cache_clear()


def test_molecules_without_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("rdkit", "rdkit.rdBase", "rdkit.Chem"):
        monkeypatch.setitem(sys.modules, module, None)
    rdkit.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install 'eqrm\[molecules\]'"):
        murcko_scaffold("CCO")


def test_images_without_pillow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_iwildcam(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eqrm\[images\]'"):
        eqrm.dataset("iwildcam", tmp_path)


def test_graphs_are_read_without_torch_geometric(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_ogb_molpcba(tmp_path)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    assert len(eqrm.dataset("ogb-molpcba", tmp_path)) == 11
