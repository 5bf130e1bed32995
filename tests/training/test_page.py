"""docs/training.md: its configuration names every field, its example is the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from eqrm.files.yaml_text import parse_yaml
from eqrm.training.runs.config import RunConfig

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training.md"


def test_the_configuration_on_the_page_names_every_field() -> None:
    text = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    shown = parse_yaml(text.group(1), "the page")
    config = RunConfig.read(shown)
    assert fields(config.plain()) <= fields(shown) | {("phases", "list")}


def fields(content: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The paths of all fields; the first phase stands for all of them."""
    if not isinstance(content, dict) or path[-1:] in (("settings",), ("hyperparameters",)):
        return {path}
    found: set[tuple[str, ...]] = set()
    for name, value in content.items():
        inside = value[0] if name == "phases" else value
        found |= fields(inside, (*path, name))
    return found


def test_the_flights_example_on_the_page_is_the_file() -> None:
    example = PAGE.parents[1] / "examples" / "flights.yaml"
    assert RunConfig.from_file(example).data.dataset == "flights"
    assert yaml.safe_load(RunConfig.from_file(example).to_yaml())["steps"] == 1000
