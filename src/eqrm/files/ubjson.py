"""UBJSON, the binary JSON that XGBoost writes: read without trust, written byte for byte.

Arrays of one type are numpy's. What is read is bounded by the bytes that are there: a count
that is larger than what follows is refused before anything is allocated.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
"""Marker → the type of its numbers, which are big-endian."""
MARKERS = {np.dtype(kind).newbyteorder("="): marker for marker, kind in NUMBERS.items()}
CONSTANTS = {"Z": None, "T": True, "F": False}
DEEPEST = 32


def read_ubjson(content: bytes) -> Any:
    """Plain data and arrays; ``ValueError`` for anything that is not UBJSON to its last byte.

    >>> read_ubjson(write_ubjson({"steps": np.arange(3), "name": "tree"}))
    {'steps': array([0, 1, 2]), 'name': 'tree'}
    """
    reader = _Reader(content)
    found = reader.value(reader.marker(), 0)
    if reader.at != len(content):
        raise ValueError("there is more after the end of its UBJSON")
    return found


def write_ubjson(content: Any) -> bytes:
    """The bytes that XGBoost writes for the same content."""
    if isinstance(content, dict):
        pairs = (_counted(key.encode()) + write_ubjson(value) for key, value in content.items())
        return b"{" + b"".join(pairs) + b"}"
    if isinstance(content, list):
        return b"[#" + _counted(b"", len(content)) + b"".join(map(write_ubjson, content))
    if isinstance(content, np.ndarray):
        marker = MARKERS[content.dtype.newbyteorder("=")]
        numbers = content.astype(NUMBERS[marker]).tobytes()
        return f"[${marker}#".encode() + _counted(numbers, len(content))
    if isinstance(content, str):
        return b"S" + _counted(content.encode())
    if isinstance(content, float):
        return b"d" + struct.pack(">f", content)
    marker = next(
        m
        for m, size in (("i", 7), ("I", 15), ("l", 31), ("L", 63))
        if -(1 << size) <= content < 1 << size
    )
    return marker.encode() + np.array(content, NUMBERS[marker]).tobytes()


def _counted(content: bytes, count: int | None = None) -> bytes:
    return b"L" + struct.pack(">q", len(content) if count is None else count) + content


class _Reader:
    """Goes through bytes once."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.content) - self.at:
            raise ValueError("its UBJSON ends too early")
        self.at += count
        return self.content[self.at - count : self.at]

    def marker(self) -> str:
        return self.take(1).decode("latin-1")

    def number(self, marker: str) -> Any:
        if marker not in NUMBERS:
            raise ValueError(f"its UBJSON has the unknown marker {marker!r}")
        kind = np.dtype(NUMBERS[marker])
        return np.frombuffer(self.take(kind.itemsize), kind)[0].item()

    def count(self) -> int:
        found = self.number(self.marker())
        if not isinstance(found, int) or found < 0:
            raise ValueError("its UBJSON has a count that is not one")
        return found

    def text(self) -> str:
        return self.take(self.count()).decode("utf-8")

    def value(self, marker: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("its UBJSON is nested too deeply")
        holders = {"{": self.object, "[": self.array}
        if marker in holders:
            return holders[marker](depth)
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        return self.text() if marker == "S" else self.number(marker)

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.content[self.at : self.at + 1] != b"}":
            key = self.text()
            if key in found:
                raise ValueError(f"its UBJSON has {key!r} twice")
            found[key] = self.value(self.marker(), depth + 1)
        self.at += 1
        return found

    def array(self, depth: int) -> Any:
        marker = self.marker()
        if marker == "$":
            kind = np.dtype(NUMBERS.get(self.marker(), ">u1"))
            self.take(1)  # the marker of a count
            return np.frombuffer(self.take(kind.itemsize * self.count()), kind).astype(
                kind.newbyteorder("=")
            )
        if marker == "#":
            return [self.value(self.marker(), depth + 1) for _ in range(self.count())]
        found = []
        while marker != "]":
            found.append(self.value(marker, depth + 1))
            marker = self.marker()
        return found
