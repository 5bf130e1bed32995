"""Moments in a safetensors file: numbers, with the names as JSON in its header."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from eqrm.errors import DataFileError, DomainDataError

if TYPE_CHECKING:
    from eqrm.linear.moments.domain_moments import DomainMoments

FORMAT = "eqrm.DomainMoments/1"


def save(moments: DomainMoments, path: str | Path) -> None:
    """Write to a file beside the final one first, so that a stop leaves no half file."""
    path = Path(path)
    tensors = {
        "counts": moments.counts,
        "mean": moments.mean,
        "covariance": moments.covariance,
    }
    if moments.remainder is not None:
        tensors["remainder"] = moments.remainder
    header = {
        "names": list(moments.names),
        "features": list(moments.features),
        "target": moments.target,
    }
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    metadata = {"format": FORMAT, "moments": json.dumps(header)}
    try:
        save_file({key: value.contiguous() for key, value in tensors.items()}, unfinished, metadata)
        unfinished.replace(path)
    except (SafetensorError, OSError) as error:
        unfinished.unlink(missing_ok=True)
        raise DataFileError(f"Moments cannot be written to {str(path)!r}: {error}") from error


def load(path: str | Path) -> dict[str, Any]:
    """The fields of :class:`DomainMoments`."""
    if not Path(path).is_file():
        raise DomainDataError(f"There is no file {str(path)!r}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != FORMAT:
            raise DomainDataError(f"{str(path)!r} holds no moments ({FORMAT}).")
        header = json.loads(metadata["moments"])
        names, features = tuple(header["names"]), tuple(header["features"])
        target = header["target"]
    except (SafetensorError, KeyError, ValueError) as error:
        if isinstance(error, DomainDataError):
            raise
        raise DomainDataError(f"{str(path)!r} is damaged: {error}") from error
    known = {"counts", "mean", "covariance", "remainder"}
    if not known - {"remainder"} <= set(tensors) <= known:
        raise DomainDataError(f"{str(path)!r} is damaged: it holds {sorted(tensors)}.")
    fields = {name: value.to(torch.float64) for name, value in tensors.items()}
    return {"names": names, "features": features, "target": target, **fields}
