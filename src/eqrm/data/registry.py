"""Datasets by name, so that a configuration file can ask for one."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from eqrm.data.domains import DomainData
from eqrm.errors import SettingError, did_you_mean

DATASETS: dict[str, tuple[str, str]] = {}
"""Name → (module, function). The function takes the data root and settings by keyword."""


def dataset_function(name: str) -> Callable[..., DomainData]:
    """The function behind a name; upper and lower case, - and _ do not matter."""
    key = name.lower().replace("_", "-")
    if key not in DATASETS:
        raise SettingError(f"There is no dataset {name!r}. {did_you_mean(name, DATASETS)}")
    module, attribute = DATASETS[key]
    found: Callable[..., DomainData] = getattr(import_module(module), attribute)
    return found


def dataset_settings(name: str) -> dict[str, Any]:
    """The settings of a dataset and their defaults."""
    parameters = inspect.signature(dataset_function(name)).parameters
    return {
        key: parameter.default
        for key, parameter in parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def dataset(name: str, root: str | os.PathLike[str] | None = None, **settings: Any) -> DomainData:
    """A dataset by name, read from the data root (see :func:`eqrm.data.data_root`).

    >>> dataset("colored_mnits")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: There is no dataset 'colored_mnits'. ...
    """
    function = dataset_function(name)
    allowed = dataset_settings(name)
    for key in settings:
        if key not in allowed:
            raise SettingError(
                f"The dataset {name!r} has no setting {key!r}. {did_you_mean(key, allowed)}"
            )
    return function(root, **settings)
