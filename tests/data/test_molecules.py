"""Molecules from tables of SMILES, by scaffold."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import torch

import eqrm
from eqrm.data.datasets.chemistry import parsed
from eqrm.errors import DataFileError, DomainDataError, EqrmWarning, SettingError

TABLE = """toxic,soluble,mol_id,smiles

1,0,a,Cc1ccccc1
0,,b,CCO
,1,c,C1CC
,,d,CCC
0,1,e,COc1ccccc1
1,1,f,C1CCCCC1
0,0,g,CN
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EQRM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv.gz"
    path.write_bytes(gzip.compress(TABLE.encode(), mtime=0))
    return path


def read(path: Path, **settings: Any) -> eqrm.data.DomainData:
    with pytest.warns(EqrmWarning):
        return eqrm.dataset("molecules", file=str(path), **settings)


def read_and_listen(path: Path) -> tuple[eqrm.data.DomainData, list[str]]:
    with pytest.warns(EqrmWarning) as said:
        data = eqrm.dataset("molecules", file=str(path))
    return data, [str(warning.message) for warning in said]


def test_domains_are_scaffolds_and_missing_labels_are_nan(table: Path) -> None:
    data = read(table)
    assert data.names == ("C1CCCCC1", "acyclic", "c1ccccc1")
    assert data.counts.tolist() == [1, 2, 2]
    expected = [[1, 0], [0, torch.nan], [0, 1], [1, 1], [0, 0]]
    torch.testing.assert_close(data.y, torch.tensor(expected), equal_nan=True)


def test_what_is_left_out_is_counted_and_can_be_refused(table: Path) -> None:
    _, said = read_and_listen(table)
    assert said == [
        "small.csv.gz: 1 of 7 SMILES cannot be read as molecules by RDKit (rows 3) "
        "and are left out.",
        "small.csv.gz: 1 of 7 SMILES have no label at all (rows 4) and are left out.",
    ]
    with pytest.raises(DataFileError, match=r"1 of 7 SMILES cannot be read.*row"):
        eqrm.dataset("molecules", file=str(table), unparseable="refuse")


def test_molecules_without_rings_can_be_domains_of_their_own_or_left_out(table: Path) -> None:
    assert read(table, acyclic="own-domains").names == ("C1CCCCC1", "CCO", "CN", "c1ccccc1")
    assert read(table, acyclic="leave-out").names == ("C1CCCCC1", "c1ccccc1")


def test_small_domains_can_be_left_out(table: Path) -> None:
    assert read(table, min_examples=2).names == ("acyclic", "c1ccccc1")
    with pytest.raises(SettingError, match="No domain has 3 examples"), pytest.warns(EqrmWarning):
        eqrm.dataset("molecules", file=str(table), min_examples=3)


def test_fingerprints_are_rdkits(table: Path) -> None:
    from rdkit.Chem import rdFingerprintGenerator

    data = read(table, inputs="fingerprints", bits=256, tasks=["toxic"])
    found = data.rows(torch.tensor([0])).x
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=256)
    wanted = list(generator.GetFingerprint(parsed("Cc1ccccc1")))
    assert found.dtype == torch.float32
    assert found[0].int().tolist() == wanted
    assert data.y.shape[1] == 1


def test_a_damaged_cache_is_made_again(table: Path, own_cache: Path) -> None:
    first = read(table)
    (kept,) = own_cache.iterdir()
    content = bytearray(kept.read_bytes())
    content[-5] ^= 1  # one bit of a tensor
    kept.write_bytes(content)
    again, said = read_and_listen(table)
    assert any("It is rebuilt" in words for words in said)
    rows = torch.arange(len(first))
    assert torch.equal(first.rows(rows).x.edge_index, again.rows(rows).x.edge_index)
    kept.write_bytes(b"\x80\x04cos\nsystem\n(S'echo'\ntR.")
    _, said = read_and_listen(table)
    assert any("It is rebuilt" in words for words in said)
    assert [path.name for path in own_cache.iterdir()] == [kept.name]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(TABLE.encode(), mtime=0)[:-12], "truncated or damaged"),
        (b"no gzip at all", "truncated or damaged"),
        (gzip.compress(b"\xff\xfe\x00", mtime=0), "not UTF-8 text"),
        (
            gzip.compress(b"smiles,toxic\nCCO,maybe\n", mtime=0),
            "'toxic' must hold numbers, but holds 'maybe'",
        ),
        (
            gzip.compress(b"SMILES,toxic\nCCO,1\n", mtime=0),
            "no column 'smiles'. Did you mean 'SMILES'",
        ),
        (gzip.compress(b"smiles,toxic\n", mtime=0), "contains no molecules"),
        (gzip.compress(b"", mtime=0), "no column 'smiles'"),
    ],
)
def test_a_damaged_or_foreign_table_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "odd.csv.gz"
    path.write_bytes(content)
    with pytest.raises((DataFileError, DomainDataError), match=words):
        eqrm.dataset("molecules", file=str(path))


@pytest.mark.filterwarnings("ignore::eqrm.errors.EqrmWarning")
def test_scaffolds_are_drawn_into_parts(table: Path) -> None:
    def read(**shares: float) -> dict[str, tuple[str, ...]]:
        settings = {"file": str(table), "acyclic": "own-domains", "parts": shares}
        data = eqrm.dataset("molecules", **settings)
        assert sorted(name for part in data.parts.values() for name in part) == sorted(data.names)
        return dict(data.parts)

    parts = read(val=0.25, test=0.5)
    assert {name: len(part) for name, part in parts.items()} == {"train": 1, "val": 1, "test": 2}
    assert read(val=0.25, test=0.5) == parts
    with pytest.raises(SettingError, match="parts has no part 'valid'"):
        eqrm.dataset("molecules", file=str(table), parts={"valid": 0.1})
    with pytest.raises(SettingError, match="the share of test must be a number strictly between"):
        eqrm.dataset("molecules", file=str(table), parts={"test": 1.5})
