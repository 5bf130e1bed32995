"""Plain data in JSON files that people can read, with a digest that tells whether they are whole.

For small results and histories without tensors; ``eqrm.files.archive`` is for data with tensors.
Reading needs no torch, so that thousands of files are listed at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eqrm.errors import DataFileError
from eqrm.files.reading import refusing_damage, regular_file
from eqrm.files.writing import whole_file
from eqrm.text import printable

_BEFORE_CONTENT = b',\n "content": '


def parsed_json(text: str | bytes) -> Any:
    """The value that a text in JSON stands for; a ValueError also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file, whoever wrote it."""
    with refusing_damage(regular_file(path)):
        text = path.read_text(encoding="utf-8")
    try:
        return parsed_json(text)
    except ValueError as error:
        raise DataFileError(f"{path} cannot be read as JSON: {error}.") from None


def write_checked_json(path: Path, format: str, content: Any) -> None:
    """Write plain data, on the disk before the file takes its place; always the same bytes."""
    text = _text(content).encode()
    with whole_file(path, durable=True) as draft:
        draft.write_bytes(_head(format, text) + _BEFORE_CONTENT + text + b"}\n")


def read_checked_json(path: Path, format: str, what: str) -> Any:
    """What :func:`write_checked_json` wrote; ``what`` names the kind of file in errors."""
    text = _bytes_of(path)
    found = _parsed(text, path, format, what)
    try:
        digest, content = found["sha256"], found["content"]
    except KeyError:
        raise DataFileError(f"{path} is not {what}, or it is damaged.") from None
    # The bytes as written, which is quick, or else the same content in another layout.
    written = text.partition(_BEFORE_CONTENT)[2].removesuffix(b"}\n")
    if digest != _digest(written) and digest != _digest(_text(content).encode()):
        raise DataFileError(f"{path} is damaged: its content does not match its checksum.")
    return content


def is_whole_json(path: Path, format: str, beginning: str) -> bool:
    """Whether :func:`write_checked_json` wrote the file, and content that begins like this."""
    try:
        head, _, text = _bytes_of(path).partition(_BEFORE_CONTENT)
    except DataFileError:
        return False
    text = text.removesuffix(b"}\n")
    return text.startswith(beginning.encode()) and head == _head(format, text)


def write_checked_lines(path: Path, format: str, entries: Sequence[Any]) -> None:
    """Write a line of JSON per entry behind a line with their digest, as durably as the above."""
    text = "".join(f"{_text(entry)}\n" for entry in entries).encode()
    with whole_file(path, durable=True) as draft:
        draft.write_bytes(_head(format, text, " ") + b"}\n" + text)


def read_checked_lines(path: Path, format: str, what: str) -> list[Any]:
    """What :func:`write_checked_lines` wrote: a file that differs in one byte is refused."""
    first, _, text = (written := _bytes_of(path)).partition(b"\n")
    _parsed(first, path, format, what)
    if written != _head(format, text, " ") + b"}\n" + text:
        raise DataFileError(f"{path} is damaged: its content does not match its checksum.")
    try:
        return [parsed_json(line) for line in text.splitlines()]
    except ValueError:
        raise DataFileError(f"{path} is not {what}, or it is damaged.") from None


def _bytes_of(path: Path) -> bytes:
    with refusing_damage(path):
        return regular_file(path).read_bytes()


def _parsed(text: bytes, path: Path, format: str, what: str) -> Any:
    """A JSON object that says it has this format."""
    try:
        found = parsed_json(text)
        kind = found["format"]
    except (ValueError, KeyError, TypeError):
        raise DataFileError(f"{path} is not {what}, or it is damaged.") from None
    if kind != format:
        raise DataFileError(
            f"{path} is not {what} that this version reads: its format is {kind!r}, not {format!r}."
        )
    return found


def _head(format: str, text: bytes, between: str = "\n ") -> bytes:
    return f'{{"format": {json.dumps(format)},{between}"sha256": "{_digest(text)}"'.encode()


def _text(content: Any) -> str:
    """One line that only the content decides; NaN and infinity are not JSON and are refused."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return printable(text, lines=False)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
