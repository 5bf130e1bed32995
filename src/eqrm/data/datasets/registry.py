"""Datasets by name, and where the files of published ones come from (catalogue.yaml)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqrm.checks import COUNT, FLAG, FRACTION, SEED, integer, optional
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.data.tables.table import Table
from eqrm.errors import SettingError, naming_torch
from eqrm.files.plain import read_as
from eqrm.files.yaml_text import read_yaml
from eqrm.registry import Place, Registry

if TYPE_CHECKING:
    from eqrm.data.domain_data import DomainData


def _images(*places: str) -> Place:
    return "eqrm.data.datasets.images:image_folder", {"folder": places}


def _molecules(*files: str, **rest: Any) -> Place:
    return "eqrm.data.datasets.molecules:molecules", {"file": files, **rest}


DATASETS: Registry[Callable[..., DomainData | Table]] = Registry(
    "dataset",
    {
        "colored-mnist": "eqrm.data.datasets.mnist:colored_mnist",
        "coloured-digits": "eqrm.data.datasets.tables:coloured_digits",
        "domainnet": _images("domain_net", "domainnet", "DomainNet"),
        "flights": "eqrm.data.datasets.tables:flights_table",
        "hiv": _molecules("molecules/hiv.csv.gz", "molecules/HIV.csv", tasks=("HIV_active",)),
        "image-folder": "eqrm.data.datasets.images:image_folder",
        "iwildcam": "eqrm.data.datasets.images:iwildcam",
        "molecules": "eqrm.data.datasets.molecules:molecules",
        "muv": _molecules("molecules/muv.csv.gz"),
        "officehome": _images("office_home", "officehome", "OfficeHomeDataset_10072016"),
        "ogb-molpcba": "eqrm.data.datasets.molecules:ogb_molpcba",
        "pacs": _images("PACS", "pacs/kfold", "pacs/PACS.zip", "pacs/pacs_128px.zip", "PACS.zip"),
        "rotated-mnist": "eqrm.data.datasets.mnist:rotated_mnist",
        "table": "eqrm.data.datasets.tables:table_of_file",
        "terraincognita": "eqrm.data.datasets.images:terra_incognita",
        "tox21": _molecules("molecules/tox21.csv.gz"),
        "vlcs": _images("VLCS", "vlcs"),
    },
    rules={
        "size": integer(1, 10_000),
        "examples_per_domain": optional(COUNT),
        "min_examples": COUNT,
        "bits": integer(1, 1_000_000),
        "label_noise": FRACTION,
        "seed": SEED,
        "stand_in": FLAG,
        "weather": FLAG,
    },
)
"""Name → the function that reads it: it takes the data root, and settings by keyword."""
BUILT_IN = ("coloured-digits", "flights")
"""Tables that need no file: ``eqrm train`` takes them by name."""


def dataset_settings(name: str) -> dict[str, Any]:
    """The settings of a dataset and their defaults."""
    return DATASETS.settings(name, leave_out=("root",))


def dataset_description(name: str) -> str:
    """The first sentence about how a dataset is read."""
    try:
        text = inspect.getdoc(DATASETS.load(name)) or ""
    except ModuleNotFoundError as error:
        return f"Needs {error.name}."
    return " ".join(text.split("\n\n")[0].replace("``", "").split())


def dataset(name: str, root: str | os.PathLike[str] | None = None, **settings: Any) -> DomainData:
    """A dataset by name, read from the data root: ``root``, or the environment's ``EQRM_DATA``.

    ``eqrm data list`` shows the names, ``eqrm data info NAME`` the settings of one and where its
    files come from. Tables are encoded with the means, scales and categories of the whole table,
    test domains included; to leave these out, fit a
    :class:`~eqrm.data.tables.preprocessor.TablePreprocessor` on a part of :func:`raw_dataset`.

    >>> dataset("flights")
    DomainData(327,346 examples, 365 domains)
    """
    with naming_torch(f"The dataset {name!r} as tensors"):
        found = raw_dataset(name, root, **settings)
        return TablePreprocessor.fit(found).encode(found) if isinstance(found, Table) else found


def raw_dataset(
    name: str, root: str | os.PathLike[str] | None = None, **settings: Any
) -> DomainData | Table:
    """The dataset of this name before anything is learned from it: a table is not encoded yet."""
    found: DomainData | Table = DATASETS.make(name, root, given=settings, leave_out=("root",))
    return found


@dataclass(frozen=True)
class Source:
    """A file to fetch: its mirrors, its place under the data root, and how to know it is right.

    ``md5`` is of the content, after uncompressing if ``file`` ends in .gz. An archive is unpacked
    into the folder ``unpack``; ``gives`` is something of its content, which shows that it was.
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

    ``places`` under the data root show that it is there (each is needed; ``|`` separates
    alternatives; a folder must not be empty), and ``files`` what such a folder must have in it.
    ``by_hand`` says what to do without a mirror, and ``datasets`` what is made of it, by default
    itself.
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
            paths = {place: root / place for place in places.split("|")}
            there = [
                p for p, at in paths.items() if at.is_file() or (at.is_dir() and any(at.iterdir()))
            ]
            if not there:
                lacking.append(places.replace("|", " or "))
            else:
                files = (f"{there[0]}/{file}" for file in self.files)
                lacking += [file for file in files if not (root / file).is_file()]
        return lacking


@cache
def catalogue() -> dict[str, Published]:
    """Name → what was published."""
    content = read_yaml(Path(__file__).with_name("catalogue.yaml"))
    return {
        name: read_as(Published, entry, f"catalogue: {name}") for name, entry in content.items()
    }


def published(name: str) -> tuple[str, Published]:
    """The entry behind a name; a dataset that is made of another finds the other."""
    made_of = {made: key for key, entry in catalogue().items() for made in (key, *entry.datasets)}
    known = Registry[str]("dataset", dict.fromkeys([*made_of, *DATASETS], "")).name_of(name)
    if known not in made_of:
        raise SettingError(
            f"{name!r} does not need to be fetched: it ships with eqrm, or reads your own files. "
            f"'eqrm data info {name}' says what it needs."
        )
    return made_of[known], catalogue()[made_of[known]]
