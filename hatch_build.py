"""Builds the C part of eqrm where that is possible; without it eqrm is complete, but slower.

Run by hatchling whenever eqrm is installed or packed; ``python hatch_build.py`` builds in place.
It needs a compiler and nothing else: exp and erfc are its own (kernels.h). It uses nothing of
Python, so that one wheel serves every version of Python on a platform. ``EQRM_PURE=1`` leaves it
out, for a wheel that serves every platform.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # not needed to build in place
    BuildHookInterface = object

FOLDER, LIBRARY = Path("src/eqrm/distributions/kde"), "libeqrm.so"


def build(source: Path, library: Path) -> str | None:
    """Compile ``source`` into ``library``; returns the reason when that does not work."""
    compiler = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory() as scratch:
        compiled, linked = Path(scratch, "native.o"), Path(scratch, LIBRARY)
        # -ffast-math lets the compiler make vectors of sums. It must not be given when linking:
        # that would change how the whole process treats very small numbers.
        compiling = [compiler, "-O3", "-ffast-math", "-fPIC", "-c", str(source), "-o", compiled]
        linking = [compiler, "-shared", compiled, "-o", linked, "-lm"]
        for command in (compiling, linking):
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except FileNotFoundError:
                return f"no C compiler {compiler!r} was found"
            except subprocess.CalledProcessError as error:
                return f"{compiler} said: {error.stderr.strip()[-300:]}"
        temporary = library.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(linked.read_bytes())
        temporary.replace(library)
    return None


class NativePart(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Adds the library to the wheel, which is then for this platform only."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is put together."""
        if build_in_place(Path(self.root)):
            build_data["pure_python"] = False
            build_data["tag"] = wheel_tag(sysconfig.get_platform())
            build_data["artifacts"].append(str(FOLDER / LIBRARY))


def wheel_tag(platform: str) -> str:
    """For any Python 3, without its binary interface, on a platform.

    >>> wheel_tag("linux-x86_64"), wheel_tag("macosx-11.0-arm64")
    ('py3-none-linux_x86_64', 'py3-none-macosx_11_0_arm64')
    """
    return f"py3-none-{platform.replace('-', '_').replace('.', '_')}"


def build_in_place(root: Path) -> bool:
    """Build the library next to its source, or say why not."""
    if os.environ.get("EQRM_PURE") == "1":
        print("eqrm: built without its C part (EQRM_PURE is 1)", file=sys.stderr)
        return False
    library = root / FOLDER / LIBRARY
    library.unlink(missing_ok=True)
    refused = build(root / FOLDER / "native.c", library)
    if refused is not None:
        print(f"eqrm: built without its C part ({refused})", file=sys.stderr)
    return refused is None


if __name__ == "__main__":
    sys.exit(not build_in_place(Path(__file__).parent))
