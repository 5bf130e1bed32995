"""Datasets by name, so that a configuration file can ask for one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from eqrm.data.domain_data import DomainData
from eqrm.errors import SettingError, did_you_mean


@dataclass(frozen=True)
class Entry:
    """The function that reads a dataset, and the settings that its name stands for.

    The function takes the data root, and settings by keyword.
    """

    module: str
    attribute: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


def _images(*places: str) -> Entry:
    return Entry("eqrm.data.datasets.image_folders", "image_folder", {"folder": places})


DATASETS: dict[str, Entry] = {
    "colored-mnist": Entry("eqrm.data.datasets.mnist", "colored_mnist"),
    "domainnet": _images("domain_net", "domainnet", "DomainNet"),
    "flights": Entry("eqrm.data.datasets.table", "flights"),
    "hiv": Entry(
        "eqrm.data.datasets.molecules",
        "molecules",
        {"file": ("molecules/hiv.csv.gz", "molecules/HIV.csv"), "tasks": ("HIV_active",)},
    ),
    "image-folder": Entry("eqrm.data.datasets.image_folders", "image_folder"),
    "iwildcam": Entry("eqrm.data.datasets.wilds", "iwildcam"),
    "molecules": Entry("eqrm.data.datasets.molecules", "molecules"),
    "muv": Entry("eqrm.data.datasets.molecules", "molecules", {"file": "molecules/muv.csv.gz"}),
    "officehome": _images("office_home", "officehome", "OfficeHomeDataset_10072016"),
    "ogb-molpcba": Entry("eqrm.data.datasets.ogb", "ogb_molpcba"),
    "pacs": _images("PACS", "pacs/kfold", "pacs/PACS.zip", "pacs/pacs_128px.zip", "PACS.zip"),
    "rotated-mnist": Entry("eqrm.data.datasets.mnist", "rotated_mnist"),
    "table": Entry("eqrm.data.datasets.table", "table"),
    "terraincognita": Entry("eqrm.data.datasets.terra_incognita", "terra_incognita"),
    "tox21": Entry("eqrm.data.datasets.molecules", "molecules", {"file": "molecules/tox21.csv.gz"}),
    "vlcs": _images("VLCS", "vlcs"),
}
"""Name → where it is. Modules load when a dataset of theirs is asked for."""


def dataset_settings(name: str) -> dict[str, Any]:
    """The settings of a dataset and their defaults.

    >>> dataset_settings("tox21")["acyclic"]
    'one-domain'
    """
    entry = _entry(name)
    parameters = inspect.signature(_function(entry)).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in entry.fixed
    }


def dataset_description(name: str) -> str:
    """The first sentence about how a dataset is read.

    >>> dataset_description("rotated-mnist")
    "MNIST's 70,000 digits dealt out to domains, each turned to the left by its angle."
    """
    text = inspect.getdoc(_function(_entry(name))) or ""
    return " ".join(text.split("\n\n")[0].replace("``", "").split())


def _entry(name: str) -> Entry:
    return DATASETS[registered_name(name)]


def registered_name(name: str) -> str:
    """The name that a dataset is registered by; upper and lower case, - and _ do not matter.

    >>> registered_name("ColoredMNIST")
    'colored-mnist'
    """
    plain = {key.replace("-", ""): key for key in DATASETS}
    key = str(name).lower().replace("-", "").replace("_", "")
    if key not in plain:
        raise SettingError(f"There is no dataset {name!r}. {did_you_mean(name, DATASETS)}")
    return plain[key]


def _function(entry: Entry) -> Callable[..., DomainData]:
    found: Callable[..., DomainData] = getattr(import_module(entry.module), entry.attribute)
    return found


def dataset(name: str, root: str | os.PathLike[str] | None = None, **settings: Any) -> DomainData:
    """A dataset by name, read from the data root: ``root``, or the environment's ``EQRM_DATA``.

    ``eqrm data list`` shows the names, ``eqrm data info NAME`` the settings of one and where its
    files come from. Upper and lower case, - and _ do not matter. An unknown name or setting is
    refused before anything is read.

    >>> flights = dataset("flights")
    >>> flights, flights.names[0]
    (DomainData(327,346 examples, 365 domains), '2013-01-01')
    >>> dataset("colored_mnits")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: There is no dataset 'colored_mnits'. Did you mean 'colored-mnist'? ...
    """
    entry = _entry(name)
    allowed = dataset_settings(name)
    for key in settings:
        if key not in allowed:
            raise SettingError(
                f"The dataset {name!r} has no setting {key!r}. {did_you_mean(key, allowed)}"
            )
    missing = [
        key
        for key, default in allowed.items()
        if default is inspect.Parameter.empty and key not in settings
    ]
    if missing:
        raise SettingError(f"The dataset {name!r} needs the setting {missing[0]!r}.")
    return _function(entry)(root, **{**entry.fixed, **settings})
