"""Make the text of one file of the record."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from plain_text import as_text, json_text, masked, shortened
from scenes import SCENES, Scene
from small_tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
PROGRESS = re.compile(r"\d+ of \d+ runs finished, .*(waiting|running|left)|\d+ s: ")
NOT_RESULTS = ("version", "cost", "timings")
"""Of ``results.json``: other on every machine."""
STUDY = "study-"
OFFLINE_STUDIES = (
    "linear-regression",
    "causal-recovery",
    "linear-sem",
    "frontiers",
    "quantile-selection",
    "domains-in-time",
    "flights-backtest",
    "nested-domains",
    "intervals",
    "policy",
    "control-coverage",
    "requirements",
)
"""Those that need no download."""
VARYING = {
    # One of several minima, or one in a flat valley; checks say how far it may be from the truth.
    "causal-recovery": (
        r"distance [\d.e-]+ at α = 0\.9, [\d.e-]+(?= at 1)"
        r'|(?<="VREx": "\()[^)]*|(?<="EQRM, α → 1": "\()[^)]*'
    ),
    "linear-sem": r'(?<="chosen": ")1-e\^-10+',  # levels whose errors are equal
}
"""What differs between processors in the results of a study, with the reason."""


def typed(command: str) -> tuple[int, str]:
    """Run ``eqrm ...`` in this process: its exit code, and what it printed."""
    from eqrm import cli

    printed, before, code = io.StringIO(), sys.argv, 0
    sys.argv = shlex.split(command)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        finally:
            sys.argv = before
    lines = (line for line in printed.getvalue().split("\n") if not PROGRESS.match(line))
    return code, "\n".join(lines).strip("\n")


def _filled_in(command: str) -> str:
    """The command with the names that its patterns in braces stand for."""

    def name(found: re.Match[str]) -> str:
        matching = sorted(glob.glob(found[1]))
        return Path(matching[0]).name if matching else found[0]

    return re.sub(r"\{([^}]*[*/][^}]*)\}", name, command)


def _files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.is_file()}


def scene_text(scene: Scene) -> str:
    """What the commands of a scene print and write, run in this folder."""
    for name in scene.tables:
        TABLES[name](Path(name))
    for name, text in scene.texts.items():
        Path(name).write_text(text, encoding="utf-8")
    for command in scene.prepare:
        _ended(command, 0, *typed(command))
    before, parts = _files(), []
    for place, command in enumerate(scene.commands):
        code, printed = typed(_filled_in(command))
        _ended(command, scene.codes.get(place, 0), code, printed)
        parts += [f"$ {command}", shortened(printed), *([f"exit code {code}"] if code else []), ""]
    written = sorted(_files() - before)
    for name in written:
        content = as_text(name, Path(name).read_bytes())
        if content is not None and _wanted(name, scene):
            parts += [f"== {name}", content, ""]
    return "\n".join([*parts, *(["== all files written", *written] if written else [])])


def _wanted(name: str, scene: Scene) -> bool:
    return any(fnmatch(name, each) for each in scene.files) and not any(
        fnmatch(name, each) for each in scene.without
    )


def _ended(command: str, expected: int, code: int, printed: str) -> None:
    if code != expected:
        raise SystemExit(
            f"'{command}' ended with exit code {code} instead of {expected}. If that is meant, "
            f"change it in scripts/record/scenes.py. It printed:\n{printed}"
        )


def study_text(name: str) -> str:
    """``results.json`` of the quick version of a study, run into this folder."""
    from studies.__main__ import main

    sys.argv = ["studies", name, "--quick", "--output", "."]
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            if stop.code == 2:
                raise
    found: dict[str, Any] = json.loads(Path("results.json").read_text(encoding="utf-8"))
    for check in found["checks"]:
        if "processor time" in check["claim"]:
            check |= {"holds": "TIME", "measured": "TIME"}
    kept = {key: value for key, value in found.items() if key not in NOT_RESULTS}
    text = json.dumps(kept, ensure_ascii=False)
    return json_text(re.sub(VARYING[name], "VARIES", text) if name in VARYING else text)


LONG = ("study-frontiers", "train-in-time", "study-quantile-selection", "study-policy")
"""What takes longest begins first."""


def entries() -> dict[str, Callable[[], str]]:
    """What makes each file of the record, by its name."""
    found = {f"{STUDY}{name}": partial(study_text, name) for name in OFFLINE_STUDIES}
    found |= {name: partial(scene_text, scene) for name, scene in SCENES.items()}
    return {name: found[name] for name in LONG} | found


def made(name: str) -> str:
    """The text of a file of the record, made in an empty folder."""
    import eqrm

    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="eqrm-record-") as folder:
        place = os.path.realpath(folder)
        os.chdir(place)
        try:
            text = entries()[name]()
        finally:
            os.chdir(before)
    hidden = {eqrm.__version__: "VERSION", f"{place}/": "", place: "FOLDER", str(ROOT): "CHECKOUT"}
    return masked(text, hidden) + "\n"
