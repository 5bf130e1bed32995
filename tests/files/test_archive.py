"""Tensors with plain data in one file: what is written is read, and the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eqrm.errors import DataFileError
from eqrm.files.archive import flatten, read_archive, unflatten, write_archive

TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(1, dtype=torch.int64)}
ARRAYS = {name: tensor.numpy() for name, tensor in TENSORS.items()}
ARRAYS |= {"none": np.empty((0, 3)), "number": np.array(2.5), "bits": np.array([True, False])}
ARRAYS |= {"turned": np.arange(6, dtype=np.uint8).reshape(2, 3).T, "half": np.ones(2, np.float16)}


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
        np.testing.assert_array_equal(found.tensors[name], tensor.numpy(), strict=True)
    assert (found.tensors[text or "empty"] == 1.0).all()


def test_arrays_give_the_file_that_tensors_give_and_are_read_as_either(tmp_path: Path) -> None:
    files = [tmp_path / "arrays.safetensors", tmp_path / "tensors.safetensors"]
    tensors = {name: torch.from_numpy(array.copy()) for name, array in ARRAYS.items()}
    mixed = {**tensors, "number": ARRAYS["number"]}
    for file, numbers in zip(files, (ARRAYS, mixed), strict=True):
        write_archive(file, "numbers 1", {}, numbers)
    assert files[0].read_bytes() == files[1].read_bytes()
    arrays = read_archive(files[1], "numbers 1", "a file of numbers").tensors
    read = read_archive(files[0], "numbers 1", "a file of numbers", tensors=True).tensors
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
        assert torch.equal(read[name], tensors[name])


def test_types_that_numpy_lacks_are_read_as_tensors_only(tmp_path: Path) -> None:
    path, half = tmp_path / "kept.safetensors", torch.ones(2, dtype=torch.bfloat16)
    write_archive(path, "numbers 1", {}, {"half": half})
    found = read_archive(path, "numbers 1", "a file of numbers", tensors=True)
    assert torch.equal(found.tensors["half"], half)
    with pytest.raises(DataFileError, match="is not a file of numbers, or it is damaged"):
        read_archive(path, "numbers 1", "a file of numbers")


def test_a_nested_value_comes_back_from_its_description() -> None:
    value = {"a": np.arange(3, dtype=np.uint32), 2: (np.ones((2, 1)), [TENSORS["b"], None, "x"])}
    described, numbers = flatten(value)
    found = unflatten(described, numbers)
    np.testing.assert_array_equal(found["a"], value["a"], strict=True)
    np.testing.assert_array_equal(found[2][0], np.ones((2, 1)), strict=True)
    assert torch.equal(found[2][1][0], TENSORS["b"])
    assert found[2][1][1:] == [None, "x"]
    assert bytes(unflatten(*flatten(b"any"))) == b"any"
    with pytest.raises(TypeError, match="state/0 is a ndarray, which a file cannot hold"):
        flatten([np.array(["texts"])])
    with pytest.raises(ValueError, match="cannot be read"):
        unflatten(["array", ["float64", 3.0]], {})


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
