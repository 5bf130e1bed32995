"""Tiny images in folders domain/class, as the datasets of DomainBed have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("bird", "car")


def write_images(folder: Path, domains: Sequence[str], number: int) -> None:
    """So many random images of each domain, in two classes."""
    draw = np.random.default_rng(0)
    for domain in domains:
        for each in range(number):
            place = folder / domain / CLASSES[each % len(CLASSES)]
            place.mkdir(parents=True, exist_ok=True)
            pixels = draw.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / f"{each}.png")
