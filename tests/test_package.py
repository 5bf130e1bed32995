"""The package as a whole: what importing it costs, what it exposes, what is documented."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib.metadata import metadata, version
from pathlib import Path

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


def test_importing_eqrm_loads_no_heavy_package() -> None:
    heavy = {"torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib", "rich", "typer"}
    assert loaded_after("import eqrm") & heavy == set()


def test_using_a_distribution_loads_no_optional_package() -> None:
    optional = {"matplotlib", "pandas", "pyarrow", "duckdb", "xgboost", "lightgbm", "ray"}
    loaded = loaded_after("import eqrm; eqrm.KDE")
    assert "torch" in loaded
    assert loaded & optional == set()


@pytest.mark.parametrize("name", eqrm.__all__)
def test_every_public_name_loads_and_has_a_docstring(name: str) -> None:
    assert (getattr(eqrm, name).__doc__ or "").strip()


def public_methods() -> list[str]:
    """``Class.method`` for every public method and property of the public classes."""
    classes = [getattr(eqrm, name) for name in eqrm.__all__ if name != "errors"]
    return sorted(
        f"{cls.__name__}.{name}"
        for cls in classes
        if inspect.isclass(cls)
        for name in dir(cls)
        if not name.startswith("_") and name not in getattr(cls, "__dataclass_fields__", ())
    )


@pytest.mark.parametrize("path", public_methods())
def test_every_public_method_has_a_docstring_of_its_own_or_inherited(path: str) -> None:
    cls, _, name = path.partition(".")
    member = inspect.getattr_static(getattr(eqrm, cls), name)
    assert (inspect.getdoc(getattr(member, "func", member)) or "").strip()


def test_dir_lists_public_names_before_they_are_loaded() -> None:
    program = "import eqrm; print(*dir(eqrm))"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert set(eqrm.__all__) <= set(run.stdout.split())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Kde'"):
        _ = eqrm.Kde  # type: ignore[attr-defined]


def test_the_version_is_the_installed_distributions() -> None:
    assert eqrm.__version__ == version("eqrm")


def test_the_citation_file_names_the_same_version() -> None:
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {eqrm.__version__}\n" in citation


@pytest.mark.parametrize("name", eqrm.__all__)
def test_every_public_name_has_a_section_in_the_reference(name: str) -> None:
    reference = (REPOSITORY / "docs" / "reference.md").read_text(encoding="utf-8")
    assert f"\n## {name}\n" in reference


def test_pages_install_extras_that_exist_from_the_repository() -> None:
    known = set(metadata("eqrm").get_all("Provides-Extra") or ())
    named = set()
    for page in [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]:
        for where, names in re.findall(
            r"pip install [^`\n]*?'([^'\[]*)\[([^\]]+)\]'", page.read_text(encoding="utf-8")
        ):
            assert where == ".", f"{page.name} installs {where}[{names}]"
            named |= set(names.split(","))
    assert {"boosting", "plots", "tables"} <= named <= known
