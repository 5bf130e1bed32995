"""Molecules as a table: descriptors of molecules that everybody knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="descriptors need RDKit: pip install 'eqrm[molecules]'")

from studies.molecules.descriptors import DESCRIPTORS, descriptor_table

from eqrm.errors import DataFileError, EqrmWarning

SMILES = ["c1ccccc1", "Cc1ccccc1", "CCO", "CC", "c1ccncc1", "nothing"]
LABELS = ["1", "0", "0", "1", "", "1"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQRM_CACHE", str(tmp_path / "cache"))
    rows = [f"{label},{smiles}" for label, smiles in zip(LABELS, SMILES, strict=True)]
    (tmp_path / "few.csv").write_text("\n".join(["active,smiles", *rows]) + "\n")
    return tmp_path


def test_columns_are_descriptors_and_domains_are_scaffolds(root: Path) -> None:
    with pytest.warns(EqrmWarning) as told:
        table = descriptor_table(root, file="few.csv", task="active")
    assert "1 of 6 SMILES cannot be read as molecules" in str(told[0].message)
    assert "1 of 6 SMILES have no label" in str(told[1].message)
    assert list(table.columns) == list(DESCRIPTORS)
    assert table.domains.tolist() == ["c1ccccc1", "c1ccccc1", "acyclic", "acyclic"]
    assert table.target.tolist() == [1.0, 0.0, 0.0, 1.0]
    np.testing.assert_allclose(table.columns["weight"], [78.11, 92.14, 46.07, 30.07], atol=0.01)
    assert table.columns["aromatic_rings"].tolist() == [1, 1, 0, 0]
    assert table.columns["donors"].tolist() == [0, 0, 1, 0]


def test_a_file_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(DataFileError, match=r"other\.csv is not in"):
        descriptor_table(root, file="other.csv")
