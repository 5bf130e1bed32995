"""Augmentation: each operation against an independent truth, the law of the draws, exact resume."""

from __future__ import annotations

import colorsys
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor, nn
from torch.nn import functional

from eqrm.data import DomainData
from eqrm.data.augmentation import (
    Augmentation,
    AugmentationDraws,
    augmented,
    brightened,
    contrasted,
    cropped,
    grey_of,
    hue_shifted,
    saturated,
)
from eqrm.errors import DomainDataError, SettingError
from eqrm.predictors import Predictor
from eqrm.training import Phase, Trainer, TrainingSettings

BYTE = 1 / 255


def pictures(number: int = 6, height: int = 17, width: int = 23, seed: int = 0) -> Tensor:
    """Smooth colours with noise, in bytes: what an image decoder gives."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(number, 3, 4, 4, generator=generator)
    smooth = functional.interpolate(coarse, (height, width), mode="bilinear")
    noisy = smooth + 0.1 * torch.rand(number, 3, height, width, generator=generator)
    return (255 * noisy.clamp(0, 1)).round().to(torch.uint8)


def factors(*values: float) -> Tensor:
    return torch.tensor(values)[:, None, None, None]


def as_pil(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def test_a_crop_is_the_cut_scaled_bilinearly_and_mirrored() -> None:
    images = pictures() / 255
    crops = torch.tensor(
        [
            [0, 0, 17, 23],
            [2, 5, 11, 9],
            [16, 22, 1, 1],
            [0, 3, 17, 20],
            [4, 0, 13, 23],
            [1, 1, 15, 21],
        ]
    )
    flipped = torch.tensor([False, True, False, True, False, True])
    found = cropped(images, crops, flipped)
    for image, crop, mirror, made in zip(images, crops.tolist(), flipped, found, strict=True):
        top, left, height, width = crop
        cut = image[None, :, top : top + height, left : left + width]
        expected = functional.interpolate(cut, (17, 23), mode="bilinear", align_corners=False)[0]
        expected = expected.flip(-1) if mirror else expected
        assert torch.allclose(made, expected, atol=2e-5)
    assert torch.allclose(found[0], images[0], atol=1e-6)


@pytest.mark.parametrize(
    ("ours", "enhancer"),
    [
        (brightened, ImageEnhance.Brightness),
        (contrasted, ImageEnhance.Contrast),
        (saturated, ImageEnhance.Color),
    ],
)
def test_brightness_contrast_and_saturation_are_pillows_up_to_its_rounding(
    ours: Any, enhancer: Any
) -> None:
    images = pictures()
    values = [0.7, 0.85, 1.0, 1.1, 1.3, 0.0]
    found = ours(images / 255, factors(*values))
    for image, value, made in zip(images, values, found, strict=True):
        expected = np.asarray(enhancer(as_pil(image)).enhance(value)) / 255
        assert np.abs(made.permute(1, 2, 0).numpy() - expected).max() <= 1.6 * BYTE
        if value == 1.0:
            assert torch.allclose(made, image / 255, atol=1e-6)


def test_a_hue_shift_is_that_of_every_pixel_in_hsv() -> None:
    images = pictures(4, 5, 5) / 255
    images[3, :, 0] = 0.4  # grey pixels have no hue
    images[3, :, 1] = 0.0
    turns = [-0.3, 0.3, 0.11, 0.25]
    found = hue_shifted(images.double(), factors(*turns).double())
    for image, turn, made in zip(images.double(), turns, found, strict=True):
        for y in range(5):
            for x in range(5):
                hue, saturation, value = colorsys.rgb_to_hsv(*image[:, y, x].tolist())
                turn_of = float(torch.tensor(turn))  # as rounded to float32 above
                expected = colorsys.hsv_to_rgb((hue + turn_of) % 1.0, saturation, value)
                assert made[:, y, x].tolist() == pytest.approx(expected, abs=1e-9)


def test_the_order_of_the_jitter_is_each_images_own() -> None:
    images = pictures(3) / 255
    changes = (brightened, contrasted, saturated, hue_shifted)
    orders = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
    chosen = torch.tensor([[1.3, 0.7, 1.2, 0.1], [0.8, 1.3, 0.7, -0.3], [1.1, 1.2, 1.3, 0.2]])
    whole = torch.tensor([[0, 0, 17, 23]]).repeat(3, 1)
    never = torch.zeros(3, dtype=torch.bool)
    grey = torch.tensor([False, False, True])
    found = augmented(images, AugmentationDraws(whole, never, chosen, orders, grey))
    for place in range(3):
        image = images[place : place + 1]
        for kind in orders[place].tolist():
            image = changes[kind](image, factors(float(chosen[place, kind])))
        image = grey_of(image).expand_as(image) if grey[place] else image
        assert torch.allclose(found[place], image[0], atol=1e-5)


def one_crop(height: int, width: int, generator: random.Random) -> tuple[int, int, int, int]:
    """A random resized crop as it is defined: ten attempts, then the middle."""
    for _ in range(10):
        area = height * width * generator.uniform(0.7, 1)
        ratio = math.exp(generator.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return generator.randint(0, height - h), generator.randint(0, width - w), h, w
    return 0, 0, height, width


def test_crops_follow_the_law_of_the_random_resized_crop() -> None:
    number, generator = 20_000, random.Random(0)
    draws = Augmentation().draws(np.arange(number), 28, 28, seed=1, step=2)
    expected = np.array([one_crop(28, 28, generator) for _ in range(number)])
    found = draws.crops.numpy()
    assert (found[:, :2] >= 0).all()
    assert (found[:, :2] + found[:, 2:] <= 28).all()
    for moment in (lambda c: c, lambda c: c**2, lambda c: c[:, [0]] * c[:, [2]]):
        ours, theirs = moment(found.astype(float)), moment(expected.astype(float))
        error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / number)
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4.5 * error).all()


def test_flips_factors_orders_and_grey_follow_their_laws() -> None:
    number = 20_000
    draws = Augmentation().draws(np.arange(number), 8, 8, seed=3, step=0)
    assert abs(float(draws.flipped.double().mean()) - 0.5) < 4 * 0.5 / math.sqrt(number)
    assert abs(float(draws.grey.double().mean()) - 0.1) < 4 * 0.3 / math.sqrt(number)
    centred = (draws.factors - torch.tensor([1.0, 1.0, 1.0, 0.0])) / 0.3
    assert float(centred.abs().max()) <= 1 + 1e-5
    assert (centred.mean(dim=0).abs() < 4 / math.sqrt(3 * number)).all()
    assert torch.allclose(centred.var(dim=0), torch.full((4,), 1 / 3), atol=0.01)
    assert float(torch.corrcoef(centred.T).fill_diagonal_(0).abs().max()) < 4 / math.sqrt(number)
    codes = (draws.order * torch.tensor([64, 16, 4, 1])).sum(dim=1)
    _, counts = codes.unique(return_counts=True)
    assert len(counts) == 24
    statistic = float(((counts - number / 24) ** 2 / (number / 24)).sum())
    assert statistic < 23 + 5 * math.sqrt(46)


def test_an_image_changes_by_seed_step_and_row_alone() -> None:
    images, rows = pictures(5) / 255, torch.tensor([8, 3, 5, 0, 3])
    augment = Augmentation()
    whole = augment(images, rows, seed=4, step=9)
    part = augment(images[2:4].clone(), rows[2:4], seed=4, step=9)
    assert torch.allclose(whole[2:4], part, atol=1e-6)
    for other in ({"seed": 5, "step": 9}, {"seed": 4, "step": 10}):
        assert not torch.equal(augment(images, rows, **other), whole)
    nothing = Augmentation(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert float((nothing(images, rows, 0, 0) - images).abs().mean()) < 0.1


def test_inputs_that_are_not_colour_images_are_refused() -> None:
    chosen = TrainingSettings(device="cpu", augment=Augmentation())
    y, domains = torch.tensor([0, 1]), torch.tensor([0, 1])
    for x, what in (
        (torch.zeros(2, 5), r"one example has shape \(5,\)"),
        (torch.zeros(2, 1, 8, 8), r"three channels"),
        (torch.full((2, 3, 8, 8), -1.5), "numbers from -1.5 to -1.5"),
    ):
        data = DomainData(x, y, domains, ("a", "b"))
        network = Predictor(nn.Flatten(), nn.LazyLinear(2))
        network(x)
        with pytest.raises(DomainDataError, match=what):
            Trainer(network, data, [Phase("erm", 1)], settings=chosen)
    with pytest.raises(SettingError, match=r"hue must be a number from 0 to 0.5, got 0.6"):
        Augmentation(hue=0.6)
