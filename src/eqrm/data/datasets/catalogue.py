"""Published datasets: their sources, licences, and places under the data root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqrm.data.datasets.registry import DATASETS
from eqrm.errors import SettingError
from eqrm.files.yaml_text import read_yaml
from eqrm.registry import Registry


@dataclass(frozen=True)
class Source:
    """A file to fetch: its mirrors, its place under the data root, and how to know it is right.

    ``md5`` is of the content, after uncompressing if ``file`` ends in .gz. ``size`` is in bytes.
    With ``unpack`` the file is an archive, and this is the folder that its content goes to;
    ``gives`` is something of that content, which shows that it was unpacked.
    """

    urls: tuple[str, ...]
    file: str
    md5: str | None = None
    size: int | None = None
    unpack: str | None = None
    gives: str | None = None

    def done(self, root: Path) -> bool:
        """Whether it was fetched, and unpacked if it is an archive."""
        return (root / (self.gives or self.file)).exists()


@dataclass(frozen=True)
class Published:
    """One dataset as it was published.

    ``places`` are the files or folders under the data root that show that it is there (every
    one is needed, where ``|`` separates alternatives; a folder must not be empty), and ``files``
    what such a folder must have in it. ``by_hand`` says what to do where no mirror answers, or
    there is none. ``datasets`` names what is made of it; by default itself.
    """

    title: str
    size: str
    licence: str
    homepage: str
    places: tuple[str, ...]
    by_hand: str
    sources: tuple[Source, ...] = ()
    datasets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def found(self, root: Path) -> bool:
        """Whether all of it is under the data root."""
        return not self.lacking(root)

    def lacking(self, root: Path) -> list[str]:
        """What is not under the data root."""
        lacking = []
        for places in self.places:
            there = [place for place in places.split("|") if _has_content(root / place)]
            if not there:
                lacking.append(places.replace("|", " or "))
            else:
                files = (f"{there[0]}/{file}" for file in self.files)
                lacking += [file for file in files if not (root / file).is_file()]
        return lacking


def _has_content(path: Path) -> bool:
    """Whether there is a file, or a folder that is not empty."""
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _read() -> dict[str, Published]:
    content = read_yaml(Path(__file__).with_name("catalogue.yaml"))
    return {name: _published(entry) for name, entry in content.items()}


def _published(entry: dict[str, Any]) -> Published:
    sources = [Source(**_tuples(source, "urls")) for source in entry.pop("sources", [])]
    return Published(**_tuples(entry, "places", "files", "datasets"), sources=tuple(sources))


def _tuples(content: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: tuple(value) if key in names else value for key, value in content.items()}


CATALOGUE: dict[str, Published] = _read()
"""Name → what was published (catalogue.yaml)."""


def published(name: str) -> tuple[str, Published]:
    """The entry behind a name; a dataset that is made of another finds the other.

    >>> published("ColoredMNIST")[0]
    'mnist'
    """
    made_of = {made: key for key, entry in CATALOGUE.items() for made in (key, *entry.datasets)}
    known = Registry[str]("dataset", dict.fromkeys([*made_of, *DATASETS], "")).name_of(name)
    if known not in made_of:
        raise SettingError(
            f"{name!r} does not need to be fetched: it ships with eqrm, or reads your own files. "
            f"'eqrm data info {name}' says what it needs."
        )
    return made_of[known], CATALOGUE[made_of[known]]
