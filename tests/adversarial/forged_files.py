"""Damaged and forged files of every kind that the package reads, by number.

A case is a number: it decides the kind of file, and what is done to it. Damage (bytes cut off,
changed or swapped) must be refused, or have no effect, where a digest guards a file. A forged file
has wrong content and a digest that matches: it must be refused, or give numbers that are finite.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adversarial.file_kinds import KINDS, TRAINED, Kind, sound
from eqrm.errors import EqrmError
from eqrm.files.archive import read_archive, write_archive
from eqrm.files.checked_json import (
    read_checked_json,
    read_checked_lines,
    write_checked_json,
    write_checked_lines,
)

NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 10**30, "", "\u001b[2J", "x" * 100_000, [], {}, [[]],
    "nan", {"float": "nan"}, {"float": "inf"}, {"tuple": [1, 2]}, {"level": 5.0}, 2**31, -(2**63),
)  # fmt: skip


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(len(content)))]


def _flip(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _blank(content: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(content)))
    width = int(rng.integers(1, 65))
    return content[:start] + b"\0" * len(content[start : start + width]) + content[start + width :]


def _doubled(content: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(content)))
    return content[:start] + content[start // 2 :]


def _huge(content: bytes, rng: np.random.Generator) -> bytes:
    """A number in the first bytes that is far too large: the length of a header, or a count."""
    start = int(rng.integers(min(64, len(content))))
    return (
        content[:start] + struct.pack("<Q", int(rng.integers(2**40, 2**62))) + content[start + 8 :]
    )


DAMAGES = (_cut, _flip, _blank, _doubled, _huge)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in plain data."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(p for key, part in inside for p in _paths(part, (*path, key)))]


def forged_content(content: Any, rng: np.random.Generator) -> Any:
    """Plain data with one or two places replaced, removed or repeated."""
    content = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 3))):
        places = _paths(content)[1:]
        if not places:
            return NASTY[int(rng.integers(len(NASTY)))]
        *way, last = places[int(rng.integers(len(places)))]
        holder = content
        for key in way:
            holder = holder[key]
        choice = int(rng.integers(5))
        if choice == 0:
            del holder[last]
        elif choice == 1 and isinstance(holder[last], (int, float)):
            holder[last] = type(holder[last])(
                rng.choice([-1, 0, 10**6, 10**12]) * (holder[last] or 1)
            )
        elif choice == 2 and isinstance(holder[last], list):
            holder[last] = holder[last] * 2
        else:
            holder[last] = copy.deepcopy(NASTY[int(rng.integers(len(NASTY)))])
    return content


def forged_arrays(
    arrays: dict[str, torch.Tensor], rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """Tensors with one of them of another shape or type, not finite, missing, or changed bytes."""
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    old = arrays[name]

    def flipped() -> torch.Tensor:
        content = old.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        changed = torch.frombuffer(bytearray(_flip(content, rng)), dtype=torch.uint8)
        return changed.view(old.dtype).reshape(old.shape).clone()

    choices: list[Callable[[], torch.Tensor | None]] = [
        lambda: None,
        lambda: old[:0].clone() if old.ndim else old.reshape(1),
        lambda: torch.cat([old, old]) if old.ndim else old.repeat(3),
        lambda: old.reshape(-1, 1).clone(),
        lambda: old.to(torch.bfloat16),
        lambda: old.to(torch.int64),
        lambda: old.to(torch.bool),
        lambda: torch.full_like(old.double(), math.nan),
        lambda: torch.full_like(old.double(), math.inf),
        lambda: old.double() * 1e300,
        lambda: torch.zeros(0, 10**12),
    ]
    # Boosters are bytes: their bits are what a forger changes.
    bits = old.numel() and (old.dtype != torch.uint8 or rng.random() < 0.7)
    choices += [flipped] * (10 if old.dtype == torch.uint8 else 1) if bits else []
    made = choices[int(rng.integers(len(choices)))]()
    rest = {key: value for key, value in arrays.items() if key != name}
    return rest if made is None else {**rest, name: made}


def forge(kind: Kind, path: Path, rng: np.random.Generator) -> None:
    """Replace the file by one with forged content and a digest that matches."""
    if kind.sealed == "archive":
        found = read_archive(path, kind.format, "a file", tensors=True)
        which = rng.random() if found.tensors else 0.0
        content = forged_content(found.content, rng) if which < 0.5 else found.content
        tensors = found.tensors if which < 0.5 else forged_arrays(found.tensors, rng)
        write_archive(path, kind.format, content, tensors)
    elif kind.sealed == "json":
        content = forged_content(read_checked_json(path, kind.format, "a file"), rng)
        write_checked_json(path, kind.format, content)
    elif kind.sealed == "lines":
        entries = forged_content(read_checked_lines(path, kind.format, "a file"), rng)
        write_checked_lines(path, kind.format, entries if isinstance(entries, list) else [entries])
    elif kind.sealed == "plain":
        path.write_text(json.dumps(forged_content(json.loads(path.read_text()), rng)))
    else:
        path.write_bytes(DAMAGES[int(rng.integers(len(DAMAGES)))](path.read_bytes(), rng))


@dataclass(frozen=True)
class Verdict:
    """How a case ended: "refused", "same" (as the sound file) or "other", or a problem."""

    case: int
    kind: str
    change: str
    outcome: str
    problem: str = ""


def case_kind(case: int) -> Kind:
    return KINDS[case % len(KINDS)]


def judged(case: int, folder: Path) -> Verdict:
    """Damage or forge a file, and read it."""
    kind, rng = case_kind(case), np.random.default_rng([20, case])
    source, expected = sound(kind.name, folder)
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    path = place / source.name
    shutil.copy(source, path)
    forging = kind.sealed != "bytes" and rng.random() < 0.6
    if forging:
        change = "forged"
        forge(kind, path, rng)
    elif rng.random() < 0.1:
        others = [each for each in KINDS if each.name not in (kind.name, *TRAINED)]
        other = others[int(rng.integers(len(others)))]
        change = f"swapped for {other.name}"
        shutil.copy(sound(other.name, folder)[0], path)
    else:
        damage = DAMAGES[int(rng.integers(len(DAMAGES)))]
        change = damage.__name__
        path.write_bytes(damage(path.read_bytes(), rng))
    unchanged = path.read_bytes() == source.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kind.use(path)
    except EqrmError as error:
        useless = "" if len(str(error)) < 5000 else "the error is far too long"
        return Verdict(case, kind.name, change, "refused", useless)
    except Exception as error:  # noqa: BLE001 - whatever else is raised is a defect
        return Verdict(case, kind.name, change, "raised", f"{type(error).__name__}: {error}"[:300])
    if same(found, expected):
        return Verdict(case, kind.name, change, "same")
    if unchanged or (kind.guarded and not forging and "swapped" not in change):
        return Verdict(case, kind.name, change, "other", "another answer without an error")
    right = not kind.answers or finite(found)
    wrong = "" if right else "numbers that are not finite, without an error"
    return Verdict(case, kind.name, change, "other", wrong)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for key, each in value.items() for part in (key, *_parts(each))]
    if isinstance(value, (list, tuple)):
        return [len(value), *(part for each in value for part in _parts(each))]
    if isinstance(value, (torch.Tensor, np.ndarray)):
        bfloat = getattr(value, "dtype", None) is torch.bfloat16
        array = value.float().numpy() if bfloat else np.asarray(value)
        return [array.shape, *array.ravel().tolist()]
    return [value]


def same(found: Any, expected: Any) -> bool:
    """Whether two answers are the same to the bit."""
    return repr(_parts(found)) == repr(_parts(expected))


def finite(found: Any) -> bool:
    """Whether an answer has no NaN and no infinite number."""
    return all(math.isfinite(part) for part in _parts(found) if isinstance(part, float))
