"""Public names that load on first use: what a package lists in its ``__init__.pyi``."""

from __future__ import annotations

from collections.abc import Callable

import lazy_loader

from eqrm.errors import naming_torch


def attach(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package."""
    load, directory, names = lazy_loader.attach_stub(package, file)

    def get(name: str) -> object:
        with naming_torch(f"{package}.{name}"):
            return load(name)

    return get, directory, names
