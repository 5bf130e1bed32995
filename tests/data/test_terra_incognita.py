"""TerraIncognita from its official download, and from folders made of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import eqrm
from eqrm.errors import DataFileError


def write_download(root: Path) -> Path:
    """Images beside their annotations; the colour says the location and the class."""
    folder = root / "terra_incognita"
    (folder / "eccv_18_all_images_sm").mkdir(parents=True)
    categories = [{"id": 1, "name": "bird"}, {"id": 2, "name": "cat"}, {"id": 3, "name": "car"}]
    images, annotations = [], []
    for number, (location, category) in enumerate(
        [(38, 1), (38, 2), (46, 1), (100, 2), (43, 2), (7, 1), (38, 3)]
    ):
        name = f"{number}.jpg"
        colour = np.full((10, 10, 3), 0, np.uint8)
        colour[..., 0], colour[..., 1] = 2 * location, 80 * category
        Image.fromarray(colour).save(folder / "eccv_18_all_images_sm" / name, quality=95)
        images.append({"id": f"i{number}", "file_name": name, "location": location})
        annotations.append({"image_id": f"i{number}", "category_id": category})
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "caltech_images_20210113.json").write_text(json.dumps(content))
    return folder


def test_the_four_locations_and_ten_classes_are_taken(tmp_path: Path) -> None:
    write_download(tmp_path)
    data = eqrm.dataset("TerraIncognita", tmp_path, size=8)
    assert data.names == ("location_100", "location_38", "location_43", "location_46")
    assert data.counts.tolist() == [1, 2, 1, 1]
    assert [data.target_names[y] for y in data.y] == ["bird", "cat", "bird", "cat", "cat"]
    colours = data.x.float().mean((2, 3))
    locations = torch.tensor([float(data.names[i].split("_")[1]) for i in data.domains])
    torch.testing.assert_close(colours[:, 0], 2 * locations, atol=3.0, rtol=0.0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "not the annotation file"),
        ('{"categories": [], "annotations": [], "images": []}', "names no image"),
    ],
)
def test_other_annotations_are_refused(tmp_path: Path, content: str, words: str) -> None:
    (write_download(tmp_path) / "caltech_images_20210113.json").write_text(content)
    with pytest.raises(DataFileError, match=words):
        eqrm.dataset("terraincognita", tmp_path)


def test_a_file_name_that_leads_out_is_refused(tmp_path: Path) -> None:
    path = write_download(tmp_path) / "caltech_images_20210113.json"
    path.write_text(path.read_text().replace('"0.jpg"', '"../../0.jpg"'))
    with pytest.raises(DataFileError, match="is outside of the folder"):
        eqrm.dataset("terraincognita", tmp_path)
