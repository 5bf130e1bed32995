"""YAML that PyYAML stumbles over is refused, and soon."""

from __future__ import annotations

import pytest

from eqrm.errors import DataFileError
from eqrm.files.yaml_text import parse_settings, parse_yaml


@pytest.mark.parametrize("value", ["!!bool abc", "!!map [1, 2]", "9" * 5000])
def test_values_that_are_not_of_their_tag(value: str) -> None:
    with pytest.raises(DataFileError, match=r"a\.yaml is not valid YAML: "):
        parse_yaml(f"steps: 1\nseed: {value}", "a.yaml")
    with pytest.raises(DataFileError, match="The value of set seed is not valid YAML"):
        parse_settings([f"seed={value}"])


def _tenfold(first: str, form: str, levels: int = 9) -> str:
    lines = [f"a0: &a0 {first}"]
    for level in range(1, levels + 1):
        tenfold = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {form.format(tenfold)}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_tenfold("[x]", "[{}]"), id="lists"),
        pytest.param(_tenfold("{x: 1}", "{{<<: [{}]}}"), id="merges"),
        pytest.param(_tenfold("x" * 100_000, "[{}]", levels=3), id="a long text"),
        pytest.param(_tenfold("[x]", "[{}]", levels=50), id="more than can be counted"),
    ],
)
def test_few_lines_that_stand_for_too_many_values(text: str) -> None:
    with pytest.raises(DataFileError, match=r"a\.yaml stands for more than 1,000,000 values"):
        parse_yaml(text, "a.yaml")


def test_aliases_and_merges_within_the_limit() -> None:
    found = parse_yaml("a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, y: 2}", "a.yaml")
    assert found == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}], "c": {"x": 1, "y": 2}}
    parse_yaml(_tenfold("[x]", "[{}]", levels=5), "a.yaml")


@pytest.mark.parametrize("text", ["&a [*a]", "a: &b {c: *b}"])
def test_aliases_inside_of_what_they_name(text: str) -> None:
    with pytest.raises(DataFileError, match=r"line 1 .* an alias is inside of what it names"):
        parse_yaml(text, "a.yaml")


@pytest.mark.parametrize("text", ["{[1]: a, [1]: b}", "{{a: 1}: b}"])
def test_keys_that_cannot_be_keys(text: str) -> None:
    with pytest.raises(DataFileError, match="line 1 is not valid YAML: found unhashable key"):
        parse_yaml(text, "a.yaml")
