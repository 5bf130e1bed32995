"""Image files as batches of bytes: read when asked for, or all at once into memory."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.data.fetching.progress import progress
from eqrm.errors import DataFileError, MissingExtraError, SettingError

RESIDENT = ("auto", "always", "never")
RESIDENT_BYTES = 4 << 30


class ImageFiles:
    """Images decoded when they are asked for; ``images[rows]`` is (k, 3, size, size) bytes.

    Args:
        source: a folder, or a zip archive that is read without being unpacked.
        names: the files, relative to the folder or the names inside the archive.
        size: every image is scaled to size × size.
        threads: how many images are decoded at a time.
    """

    def __init__(
        self, source: Path, names: Sequence[str], size: int = 224, threads: int | None = None
    ) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise SettingError(f"size must be a whole number of pixels; {size!r} came.")
        self.source = source
        self.names = list(names)
        self.size = size
        self.threads = threads or min(8, os.cpu_count() or 1)
        self._image = _pillow()
        self._archive: tuple[int, zipfile.ZipFile] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, rows: Tensor) -> Tensor:
        wanted = [self.names[row] for row in rows.tolist()]
        if self.threads == 1 or len(wanted) < 4:
            return torch.stack([self._decoded(name) for name in wanted])
        with ThreadPoolExecutor(self.threads) as pool:
            return torch.stack(list(pool.map(self._decoded, wanted)))

    def in_memory(self) -> Tensor:
        """All images, (n, 3, size, size) bytes."""
        found = torch.empty(len(self), 3, self.size, self.size, dtype=torch.uint8)
        for part in progress(torch.arange(len(self)).split(256), "Reading images"):
            found[part[0] : part[-1] + 1] = self[part]
        return found

    @property
    def memory(self) -> int:
        """How many bytes all images take."""
        return len(self) * 3 * self.size**2

    def _content(self, name: str) -> bytes:
        if self.source.is_dir():
            return (self.source / name).read_bytes()
        if self._archive is None or self._archive[0] != os.getpid():
            self._archive = (os.getpid(), zipfile.ZipFile(self.source))
        return self._archive[1].read(name)

    def _decoded(self, name: str) -> Tensor:
        """One image; whatever is wrong with its file becomes an error that names it."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", self._image.DecompressionBombWarning)
                with self._image.open(io.BytesIO(self._content(name))) as file:
                    scaled = file.convert("RGB").resize(
                        (self.size, self.size), self._image.Resampling.BILINEAR
                    )
        except (
            OSError,  # Pillow's errors for what is no image or was cut off are OSErrors too
            SyntaxError,
            ValueError,
            KeyError,
            zipfile.BadZipFile,
            zlib.error,
            self._image.DecompressionBombError,
            self._image.DecompressionBombWarning,
        ) as error:
            raise DataFileError(
                f"The image {name} in {self.source} cannot be read ({error}). "
                "Replace it, or remove it."
            ) from None
        return torch.from_numpy(np.asarray(scaled).copy()).permute(2, 0, 1)


def resident_or_lazy(images: ImageFiles, resident: str) -> Tensor | ImageFiles:
    """All images in memory where they fit (``"auto"``: 4 GiB), else read when asked for."""
    if resident not in RESIDENT:
        raise SettingError(f"resident must be one of {', '.join(RESIDENT)}; {resident!r} came.")
    fits = images.memory <= min(RESIDENT_BYTES, _free_memory() // 2)
    if resident == "always" or (resident == "auto" and fits):
        return images.in_memory()
    return images


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2 * RESIDENT_BYTES


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("pillow", "images", "Reading images") from None
    return Image
