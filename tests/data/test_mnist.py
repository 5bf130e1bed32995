"""ColoredMNIST, RotatedMNIST, and the files they are read from."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage

import eqrm
from eqrm.data.datasets import mnist as digits_module
from eqrm.data.datasets.mnist import MNIST_MD5, digits, read_idx, rotated
from eqrm.errors import DataFileError, EqrmWarning, SettingError

pytestmark = [
    pytest.mark.xdist_group("stand-in of MNIST"),
    pytest.mark.usefixtures("stand_in_made_once"),
]


@pytest.fixture(scope="module")
def stand_in(stand_in_made_once: None) -> digits_module.Digits:
    with pytest.warns(EqrmWarning, match="not MNIST"):
        return digits(None, True)


@pytest.fixture
def generated(
    stand_in: digits_module.Digits, monkeypatch: pytest.MonkeyPatch
) -> digits_module.Digits:
    """The stand-in, made once for all tests."""
    monkeypatch.setattr("eqrm.data.datasets.mnist.digits", lambda root, wanted: stand_in)
    return stand_in


def idx_bytes(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def agreement(x: torch.Tensor, y: torch.Tensor) -> float:
    """How often the colour agrees with the label."""
    return float((x.sum((2, 3)).argmax(1) == y).float().mean())


def test_colours_disagree_with_labels_as_often_as_the_domain_says(generated: Any) -> None:
    data = eqrm.dataset("ColoredMNIST", flips=[0.1, 0.2, 0.35], test_flips=[0.9])
    assert data.names == ("0.1", "0.2", "0.35", "0.9")
    assert data.counts.tolist() == [16667, 16667, 16666, 10000]
    assert data.parts == {"train": ("0.1", "0.2", "0.35"), "test": ("0.9",)}
    for number, flip in enumerate((0.1, 0.2, 0.35, 0.9)):
        rows = data.domains == number
        error = np.sqrt(flip * (1 - flip) / int(rows.sum()))
        assert agreement(data.x[rows], data.y[rows]) == pytest.approx(1 - flip, abs=5 * error)


def test_the_seed_decides_digits_and_colours(generated: Any) -> None:
    same, again, other = (
        eqrm.dataset("colored-mnist", seed=seed, examples_per_domain=100) for seed in (1, 1, 2)
    )
    assert same.counts.tolist() == [100, 100, 100]
    assert torch.equal(same.x, again.x)
    assert not torch.equal(same.x, other.x)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"flips": [1.1]}, r"from 0 to 1, got 1\.1"),
        ({"size": 20}, "28 .* or 14"),
        ({"split": "tset"}, "Did you mean 'test'"),
        ({"stand_in": "yes"}, "stand_in must be"),
        ({"flip": [0.1]}, "no setting 'flip'. Did you mean 'flips'"),
    ],
)
def test_wrong_settings_are_refused_in_words(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        eqrm.dataset("colored-mnist", **{"split": "train", **settings})


def test_a_turn_by_a_right_angle_moves_pixels_and_any_other_agrees_with_scipy() -> None:
    images = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    smooth = torch.from_numpy(ndimage.gaussian_filter(images.numpy(), (0, 0, 3, 3)))
    smooth[..., :6], smooth[..., -6:], smooth[..., :6, :], smooth[..., -6:, :] = 0, 0, 0, 0
    torch.testing.assert_close(rotated(smooth, 90), torch.rot90(smooth, 1, (2, 3)))
    assert torch.equal(rotated(smooth, 0), smooth)
    inner = smooth.clone()
    theirs = ndimage.rotate(inner.numpy(), 30, axes=(3, 2), reshape=False, order=3)
    difference = (rotated(inner, 30) - torch.from_numpy(theirs)).abs()
    assert float(difference[..., 8:20, 8:20].max()) < 0.02


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GIF89a....", "not an idx file"),
        (bytes([0, 0, 8, 3, 0, 0]), "states"),
        (
            idx_bytes(np.zeros((2, 3), np.uint8))[:-1],
            r"holds 5 bytes of data, .* states \(\[2, 3\]\)",
        ),
        (
            idx_bytes(np.zeros((2, 3), np.uint8)) + b"x",
            r"holds 7 bytes of data, .* states \(\[2, 3\]\)",
        ),
        (b"\x1f\x8b" + bytes(50), "truncated"),
        (b"\x80\x04\x95" + bytes(90), "not an idx file"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=words):
        read_idx(path)


def test_an_idx_file_is_read_plain_and_compressed(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (4, 3, 2), dtype=np.uint8)
    for name, content in (("a", idx_bytes(array)), ("b.gz", gzip.compress(idx_bytes(array)))):
        (tmp_path / name).write_bytes(content)
        assert np.array_equal(read_idx(tmp_path / name).numpy(), array)


def test_digits_that_are_not_mnists_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    for name in MNIST_MD5:
        array = np.zeros((5, 28, 28) if "images" in name else 5, np.uint8)
        (tmp_path / "mnist" / name).write_bytes(idx_bytes(array))
    with pytest.raises(DataFileError, match="its checksum differs"):
        eqrm.dataset("colored-mnist", tmp_path)


def test_without_mnist_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"eqrm data get mnist.*stand_in=True"):
        eqrm.dataset("colored-mnist", tmp_path)


def test_a_stand_in_says_that_it_is_one(tmp_path: Path) -> None:
    with pytest.warns(EqrmWarning, match="not MNIST but a stand-in"):
        data = eqrm.dataset("rotated-mnist", tmp_path, stand_in=True, examples_per_domain=5)
    assert len(data) == 30
