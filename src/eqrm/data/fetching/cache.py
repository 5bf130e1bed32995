"""Long computations: a progress bar, and results kept in the user's cache folder.

Cached files are archives of tensors (:mod:`eqrm.files.archive`), so reading one cannot run code,
and one that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from eqrm.errors import DataFileError, EqrmError, EqrmWarning
from eqrm.files.archive import read_archive, write_archive

FORMAT = "eqrm cache 1"
T = TypeVar("T")


@dataclass(frozen=True)
class Stored:
    """Tensors by name, and lists of strings by name."""

    tensors: dict[str, Tensor]
    texts: dict[str, list[str]] = field(default_factory=dict)


def cache_folder() -> Path:
    """``EQRM_CACHE``, or ``eqrm`` in the user's cache folder."""
    if os.environ.get("EQRM_CACHE"):
        return Path(os.environ["EQRM_CACHE"]).expanduser()
    user = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(user).expanduser() / "eqrm"


def file_key(path: Path, *parts: str) -> str:
    """A key that changes when the content of a file or any of the parts does."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    digest.update(json.dumps(parts).encode())
    return digest.hexdigest()[:32]


def cached(name: str, key: str, make: Callable[[], Stored]) -> Stored:
    """The result of ``make()``, from the cache if it was computed before.

    If the folder cannot be written, the result is returned and not kept.

    >>> import tempfile, torch
    >>> os.environ["EQRM_CACHE"] = tempfile.mkdtemp()
    >>> kept = cached("squares", "1", lambda: Stored({"x": torch.arange(3) ** 2}))
    >>> cached("squares", "1", lambda: Stored({})).tensors["x"]
    tensor([0, 1, 4])
    """
    path = cache_folder() / f"{name}-{key}.safetensors"
    if path.is_file():
        try:
            found = read_archive(path, FORMAT, "a cached dataset")
            return Stored(found.tensors, found.content)
        except DataFileError:
            warnings.warn(
                f"{path} is damaged or from another version. It is rebuilt.",
                EqrmWarning,
                stacklevel=3,
            )
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_archive(path, FORMAT, made.texts, made.tensors)
    except (OSError, EqrmError):
        pass
    return made


def progress(items: Sequence[T], words: str) -> Iterable[T]:
    """Iterate over the items with a progress bar on standard error, if that is a terminal.

    >>> list(progress([1, 2], "Counting"))
    [1, 2]
    """
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, words, console=Console(stderr=True), transient=True)
