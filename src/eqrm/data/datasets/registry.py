"""Datasets by name, so that a configuration file can ask for one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eqrm.checks import COUNT, FLAG, FRACTION, SEED, integer, optional
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.data.tables.table import Table
from eqrm.registry import Place, Registry

if TYPE_CHECKING:
    from eqrm.data.domain_data import DomainData


def _images(*places: str) -> Place:
    return "eqrm.data.datasets.image_folders:image_folder", {"folder": places}


def _molecules(*files: str, **rest: Any) -> Place:
    return "eqrm.data.datasets.molecules:molecules", {"file": files, **rest}


DATASETS: Registry[Callable[..., DomainData | Table]] = Registry(
    "dataset",
    {
        "colored-mnist": "eqrm.data.datasets.mnist:colored_mnist",
        "coloured-digits": "eqrm.data.datasets.coloured_digits:coloured_digits",
        "domainnet": _images("domain_net", "domainnet", "DomainNet"),
        "flights": "eqrm.data.datasets.flights:flights_table",
        "hiv": _molecules("molecules/hiv.csv.gz", "molecules/HIV.csv", tasks=("HIV_active",)),
        "image-folder": "eqrm.data.datasets.image_folders:image_folder",
        "iwildcam": "eqrm.data.datasets.wilds:iwildcam",
        "molecules": "eqrm.data.datasets.molecules:molecules",
        "muv": _molecules("molecules/muv.csv.gz"),
        "officehome": _images("office_home", "officehome", "OfficeHomeDataset_10072016"),
        "ogb-molpcba": "eqrm.data.datasets.ogb:ogb_molpcba",
        "pacs": _images("PACS", "pacs/kfold", "pacs/PACS.zip", "pacs/pacs_128px.zip", "PACS.zip"),
        "rotated-mnist": "eqrm.data.datasets.mnist:rotated_mnist",
        "table": "eqrm.data.datasets.table:table_of_file",
        "terraincognita": "eqrm.data.datasets.terra_incognita:terra_incognita",
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
        "parts_seed": SEED,
        "weather": FLAG,
    },
)
"""Name → the function that reads it: it takes the data root, and settings by keyword."""
BUILT_IN = ("coloured-digits", "flights")
"""Tables that need no file: ``eqrm train`` takes them by name."""


def dataset_settings(name: str) -> dict[str, Any]:
    """The settings of a dataset and their defaults.

    >>> dataset_settings("tox21")["acyclic"]
    'one-domain'
    """
    return DATASETS.settings(name, leave_out=("root",))


def dataset_description(name: str) -> str:
    """The first sentence about how a dataset is read.

    >>> dataset_description("rotated-mnist")
    "MNIST's 70,000 digits dealt out to domains, each turned to the left by its angle."
    """
    text = inspect.getdoc(DATASETS.load(name)) or ""
    return " ".join(text.split("\n\n")[0].replace("``", "").split())


def dataset(name: str, root: str | os.PathLike[str] | None = None, **settings: Any) -> DomainData:
    """A dataset by name, read from the data root: ``root``, or the environment's ``EQRM_DATA``.

    ``eqrm data list`` shows the names, ``eqrm data info NAME`` the settings of one and where its
    files come from. Upper and lower case, - and _ do not matter. An unknown name or setting is
    refused before anything is read.

    Tables (``table``, ``flights``, ``coloured-digits``) are encoded with the means, scales and
    categories of the whole table, test domains included. ``eqrm train`` and
    ``eqrm train-network`` use those of the training domains only; to do the same, fit a
    :class:`~eqrm.data.tables.preprocessor.TablePreprocessor` on a part of :func:`raw_dataset`.

    >>> flights = dataset("flights")
    >>> flights, flights.names[0]
    (DomainData(327,346 examples, 365 domains), '2013-01-01')
    >>> dataset("colored_mnits")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: Unknown dataset 'colored_mnits'. Did you mean 'colored-mnist'? ...
    """
    found = raw_dataset(name, root, **settings)
    return TablePreprocessor.fit(found).encode(found) if isinstance(found, Table) else found


def raw_dataset(
    name: str, root: str | os.PathLike[str] | None = None, **settings: Any
) -> DomainData | Table:
    """The dataset of this name before anything is learned from it: a table is not encoded yet.

    >>> raw_dataset("flights").categories
    ('hour', 'carrier', 'origin')
    """
    found: DomainData | Table = DATASETS.make(name, root, given=settings, leave_out=("root",))
    return found
