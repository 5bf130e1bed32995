"""Who installs the package alone gets no study."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WHEEL = """[tool.hatch.build.targets.wheel]
packages = ["src/eqrm"]

[tool.hatch.build.targets.wheel.hooks.custom]  # hatch_build.py

"""


def test_the_wheel_is_made_of_the_package_alone() -> None:
    settings = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert WHEEL in settings
    tables = re.findall(r"^\[(tool\.hatch\.build[\w.]*)\]", settings, re.MULTILINE)
    assert [name.removeprefix("tool.hatch.build.targets.") for name in tables] == [
        "wheel",
        "wheel.hooks.custom",
        "sdist",
    ]
    # All that the hook adds is the compiled part, which is in the package.
    hook = (REPOSITORY / "hatch_build.py").read_text(encoding="utf-8")
    assert re.findall(r'build_data\["(\w+)"\]', hook) == ["pure_python", "tag", "artifacts"]
    assert 'FOLDER, LIBRARY = Path("src/eqrm/' in hook


def test_no_file_of_the_package_is_a_study() -> None:
    package = REPOSITORY / "src" / "eqrm"
    files = list(package.rglob("*.py"))
    assert len(files) > 100
    assert not [path for path in package.rglob("*") if path.is_symlink()]
    importing = re.compile(r"^\s*(from|import) studies\b", re.MULTILINE)
    assert [path for path in files if importing.search(path.read_text(encoding="utf-8"))] == []
