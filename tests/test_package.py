"""The package as a whole: what importing it costs, what it exposes, what is documented."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cached_property
from importlib import import_module
from importlib.metadata import metadata, version
from pathlib import Path
from types import ModuleType

import pytest

import eqrm

REPOSITORY = Path(__file__).resolve().parent.parent


def loaded_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    program = f"import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


@pytest.mark.unmeasured
def test_importing_eqrm_or_its_commands_loads_no_heavy_package() -> None:
    heavy = {"torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib"}
    assert loaded_after("import eqrm") & {*heavy, "rich", "typer"} == set()
    assert loaded_after("import eqrm.cli") & heavy == set()


@pytest.mark.unmeasured
def test_using_a_distribution_loads_no_optional_package() -> None:
    optional = {"torch", "matplotlib", "pandas", "pyarrow", "duckdb", "xgboost", "lightgbm", "ray"}
    loaded = loaded_after("import eqrm; eqrm.KDE")
    assert "numpy" in loaded
    assert loaded & optional == set()


def public_packages() -> list[ModuleType]:
    found = [eqrm, *(getattr(eqrm, name) for name in eqrm.__all__)]
    return [value for value in found if inspect.ismodule(value)]


def test_every_public_name_and_method_loads_and_has_a_docstring() -> None:
    """Methods inherited from torch or scikit-learn are theirs to describe."""
    named = {
        f"{package.__name__}.{name}": getattr(package, name)
        for package in public_packages()
        for name in getattr(package, "__all__", ())
    }
    members = {
        f"{name}.{member}": inspect.getattr_static(value, member)
        for name, value in named.items()
        if inspect.isclass(value)
        for owner in value.__mro__
        if owner.__module__.startswith("eqrm.")
        for member in vars(owner)
        if not member.startswith("_") and member not in getattr(value, "__dataclass_fields__", ())
    }
    described = {name: value for name, value in {**named, **members}.items() if _tells(value)}
    assert len(described) > 300
    bare = [n for n, v in described.items() if not (inspect.getdoc(getattr(v, "func", v)) or "")]
    assert bare == []


def _tells(value: object) -> bool:
    kinds = (property, classmethod, staticmethod, cached_property)
    return inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, kinds)


def test_at_most_150_names_are_public_and_each_is_in_a_guide_or_an_example() -> None:
    assert len(eqrm.__all__) <= 46
    names = {name for package in public_packages() for name in getattr(package, "__all__", ())}
    assert 100 < len(names) <= 150
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    for folder in ("docs", "docs/tutorials"):  # not docs/reference, which is made of the names
        pages += [page for page in (REPOSITORY / folder).glob("*.md") if page.stem != "reference"]
    pages += [path for path in (REPOSITORY / "examples").rglob("*.*") if path.suffix != ".pyc"]
    words = {word for page in pages for word in re.findall(r"\w+", page.read_text("utf-8"))}
    assert sorted(names - words) == []


def test_of_the_names_that_tests_import_at_most_800_are_private() -> None:
    """Each import counts, as often as it is written."""
    public = {package.__name__: {*getattr(package, "__all__", ())} for package in public_packages()}
    public["eqrm.errors"] = {
        name for name in vars(eqrm.errors) if name.endswith(("Error", "Warning"))
    }
    private = [
        f"{node.module}.{name.name}"
        for path in (REPOSITORY / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "eqrm"
        for name in node.names
        if name.name not in public.get(node.module or "", ())
    ]
    assert 0 < len(private) <= 800


@pytest.mark.parametrize("package", ["data", "distributions", "evaluation", "objectives"])
def test_a_name_that_is_public_further_down_says_where_it_is(package: str) -> None:
    further = {*import_module(f"eqrm.{package}").__all__} - {*eqrm.__all__}
    assert further
    for name in further:
        with pytest.raises(AttributeError, match=rf"Use eqrm\.\w+\.{name}\.$") as caught:
            getattr(eqrm, name)
        place = str(caught.value).split(".")[-3]
        assert hasattr(getattr(eqrm, place), name)


def test_the_version_is_the_installed_distributions() -> None:
    assert eqrm.__version__ == version("eqrm")


def test_the_citation_file_names_the_same_version() -> None:
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {eqrm.__version__}\n" in citation


def test_pages_install_extras_that_exist_from_the_repository() -> None:
    known = set(metadata("eqrm").get_all("Provides-Extra") or ())
    named = set()
    for page in [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]:
        for where, names in re.findall(
            r"pip install [^`\n]*?'([^'\[]*)\[([^\]]+)\]'", page.read_text(encoding="utf-8")
        ):
            assert where == ".", f"{page.name} installs {where}[{names}]"
            named |= set(names.split(","))
    assert {"boosting", "plots"} <= named <= known
