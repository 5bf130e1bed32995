"""Tensors with plain data in one file: what is written is read, and the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eqrm.errors import DataFileError
from eqrm.files.archive import read_archive, write_archive

TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(1, dtype=torch.int64)}


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    # safetensors alone writes its metadata in six orders.
    written = set()
    for number in range(40):
        path = tmp_path / f"{number}.safetensors"
        write_archive(path, "numbers 1", {"step": 3}, TENSORS)
        written.add(path.read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize(
    "text",
    ["", 'quo"te\\', "\x00\x01\x1f\x7f\b\f\n\r\t", "ünïcödé 𝛼 😀 \u2028 \ufeff", "/</script>"],
)
def test_any_text_comes_back(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kept.safetensors"
    write_archive(path, "numbers 1", {text: [text]}, {**TENSORS, text or "empty": torch.ones(2)})
    found = read_archive(path, "numbers 1", "a file of numbers")
    assert found.content == {text: [text]}
    for name, tensor in TENSORS.items():
        assert torch.equal(found.tensors[name], tensor)
    assert torch.equal(found.tensors[text or "empty"], torch.ones(2))


@pytest.mark.parametrize(
    ("format", "words"),
    [("numbers 2", "written by another version of eqrm; this version reads 'numbers 2'"),
     ("letters 1", "is not a file of numbers")],
)  # fmt: skip
def test_another_format_is_refused_by_name(tmp_path: Path, format: str, words: str) -> None:
    path = tmp_path / "kept.safetensors"
    write_archive(path, "numbers 1", {}, TENSORS)
    with pytest.raises(DataFileError, match=words):
        read_archive(path, format, "a file of numbers")
