"""One name and one default per concept: docs/words.md against all public signatures."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import runpy
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import eqrm
from architecture.test_layout import REPOSITORY
from cli.commands import run
from eqrm import cli
from eqrm.errors import OPTIONS
from eqrm.sweeps.plan import SweepPlan
from eqrm.sweeps.table_runs import TableRunConfig
from eqrm.tabular.plan import TrainingPlan
from eqrm.text import nearest
from eqrm.training.runs.config import RunConfig

PAGE = REPOSITORY / "docs" / "words.md"
COMMANDS = REPOSITORY / "docs" / "reference" / "commands.md"


def table() -> Iterator[tuple[str, str, set[str]]]:
    """Word, default (empty: none or various), and the words that are not used for it."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            yield cells[0].strip("`"), cells[2].strip("`"), set(re.findall(r"`(\w+)`", cells[3]))


def exceptions() -> dict[tuple[str, str], str]:
    """Where the page says that another default is meant, and which."""
    text = PAGE.read_text(encoding="utf-8").split("## Other defaults")[1]
    found = re.findall(r"^- `(\w+)=(.+?)` in ((?:`[\w.]+`(?:, | and )?)+)", text, flags=re.M)
    return {
        (place, word): default
        for word, default, places in found
        for place in re.findall(r"`([\w.]+)`", places)
    }


def packages() -> list[Any]:
    """All packages with public names."""
    source = Path(eqrm.__file__).parent
    folders = sorted(path.parent.relative_to(source.parent) for path in source.rglob("*.pyi"))
    return [importlib.import_module(".".join(folder.parts)) for folder in folders]


def signatures() -> Iterator[tuple[str, inspect.Parameter]]:
    """Every parameter that a user may give; results are made by the package, not by users."""
    seen: set[int] = set()
    for package in packages():
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.ismodule(value) or not callable(value) or id(value) in seen:
                continue
            seen.add(id(value))
            made = dataclasses.is_dataclass(value) and value.__dataclass_params__.frozen  # type: ignore[attr-defined]
            parts = [] if inspect.isclass(value) and made else [(name, value)]
            if inspect.isclass(value):
                parts += [
                    (f"{name}.{method}", getattr(value, method))
                    for method in dir(value)
                    if not method.startswith("_")
                ]
            for where, each in parts:
                if not callable(each) or not str(getattr(each, "__module__", "")).startswith(
                    "eqrm"
                ):
                    continue
                try:
                    found = inspect.signature(each).parameters.values()
                except (TypeError, ValueError):
                    continue
                yield from ((where, parameter) for parameter in found)


def configured() -> Iterator[tuple[str, inspect.Parameter]]:
    """Every field of the configuration of a run, of a table's and of a sweep."""
    waiting, seen = [RunConfig, TableRunConfig, SweepPlan], set()
    while waiting:
        kind = waiting.pop()
        seen.add(kind)
        fields = inspect.signature(kind).parameters.values()
        yield from ((kind.__name__, field) for field in fields)
        hints = typing.get_type_hints(kind).values()
        parts = [part for hint in hints for part in (hint, *typing.get_args(hint))]
        waiting += [p for p in parts if dataclasses.is_dataclass(p) and p not in seen]


def test_no_public_signature_or_configuration_has_a_second_name_or_default() -> None:
    words, allowed = list(table()), exceptions()
    assert len(words) >= 15
    wrong, used = [], set()
    for where, parameter in (*signatures(), *configured()):
        for word, default, others in words:
            if parameter.name in others:
                wrong.append(f"{where}: {parameter.name} instead of {word}")
            if parameter.name != word or parameter.default is parameter.empty or not default:
                continue
            known = allowed.get((where.split(".")[0], word))
            if repr(parameter.default).strip("'") == default:
                continue
            if known is not None and repr(parameter.default) == known:
                used.add((where.split(".")[0], word))
            else:
                wrong.append(f"{where}: {word} is {parameter.default!r}, not {default}")
    assert sorted(set(wrong)) == []
    assert used == set(allowed), "exceptions of docs/words.md that are none"


def test_no_option_of_a_command_has_a_second_name() -> None:
    others = {f"--{each}" for _, _, named in table() for each in named}
    found = set(re.findall(r"--[\w-]+", COMMANDS.read_text(encoding="utf-8")))
    assert found & {each.replace("_", "-") for each in others} == set()


def test_a_word_that_is_not_used_leads_to_the_one_that_is() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    choices = [list(inspect.signature(each).parameters) for each in (eqrm.train, eqrm.evaluate)]
    choices += [[o for p in each.params for o in p.opts] for each in commands.values()]
    choices.append(list(inspect.signature(eqrm.QRMClassifier).parameters))
    for word, _, others in table():
        for known in choices:
            for each in {word, f"--{word}", f"--{OPTIONS.get(word, word)}"} & {*known}:
                assert all(each in nearest(other, known) for other in others), (word, others)


@pytest.mark.parametrize("typed", ["label", "groups", "probability", "random-state", "predictor"])
def test_a_command_suggests_the_option_that_is_meant(
    capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    meant = {"label": "target", "groups": "domain", "probability": "alpha", "predictor": "model"}
    _, _, error = run(capsys, "train", "x.csv", f"--{typed}", "x")
    assert f"--{meant.get(typed, 'seed')}" in error


def test_train_lists_the_fields_of_its_plan_with_their_defaults() -> None:
    listed = inspect.signature(eqrm.train).parameters
    for each in dataclasses.fields(TrainingPlan):
        assert each.name in listed, each.name
        if each.name not in ("alpha", "domain"):  # () there, for "none was given"
            assert listed[each.name].default == each.default, each.name


def test_the_commonest_calls_run_as_they_are_typed(tmp_path: Path) -> None:
    program = runpy.run_path(str(REPOSITORY / "examples" / "typed_calls.py"))
    assert len(program["answers"](tmp_path / "trained")) == 3
