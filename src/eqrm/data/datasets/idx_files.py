"""MNIST's own file format: a few numbers that give the shape, then the bytes."""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eqrm.data.tables.published_csv import refusing_damage
from eqrm.errors import DataFileError

_BYTES = 0x08


def read_idx(path: Path, md5: str | None = None) -> Tensor:
    """The bytes of an idx file, plain or .gz, as a uint8 tensor of the shape it states.

    ``md5`` is the checksum of the uncompressed file; another one is refused.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> read_idx(file)
    tensor([7, 2, 1], dtype=torch.uint8)
    """
    with refusing_damage(path):
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _BYTES:
        raise DataFileError(f"{path} is no idx file of bytes, as MNIST comes in.")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if dimensions == 0 or len(content) < start:
        raise DataFileError(f"{path} is damaged: it does not state its shape.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataFileError(
            f"{path} states {math.prod(shape):,} bytes of data but holds "
            f"{len(content) - start:,}. It is damaged or was cut off: fetch it again."
        )
    if md5 is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise DataFileError(
            f"{path} is not the published file: its checksum is another. Fetch it again."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).copy()).reshape(shape)
