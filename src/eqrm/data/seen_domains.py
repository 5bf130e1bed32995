"""Which domains had a part in training, kept with a model as hashes of their names.

Without a salt, the same training gives the same file, and files tell whether two models have seen
the same domain. It keeps names out of the file, but hides none that can be guessed, such as dates.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.domains import Name, number_domains

SEEN = "seen"
"""The column of predictions that says whether the row's domain was seen in training."""
DIGITS = 32
_DIGEST = re.compile(f"[0-9a-f]{{{DIGITS}}}")


@dataclass(frozen=True)
class SeenDomains:
    """The domains that a model was trained, stopped or chosen on, by the hashes of their names."""

    digests: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[Name]) -> SeenDomains:
        """These domains."""
        return cls(frozenset(map(_digest, names)))

    def among(self, names: Sequence[Name]) -> list[Name]:
        """Those of some domains that were seen."""
        return [name for name in names if _digest(name) in self.digests]

    def rows(self, domains: Any) -> NDArray[np.bool_]:
        """(n,) whether each row is of a domain that was seen; ``domains`` (n,) in any form."""
        numbered = number_domains(domains)
        known = set(self.among(numbered.names))
        return np.array([name in known for name in numbered.names], dtype=bool)[numbered.ids]

    def to_list(self) -> list[str]:
        """The hashes in order, for a file; :meth:`from_list` reads them."""
        return sorted(self.digests)

    @classmethod
    def from_list(cls, content: Any) -> SeenDomains | None:
        """What :meth:`to_list` gave; None for a file of a version that kept none."""
        if content is None:
            return None
        wrong = not isinstance(content, list) or any(
            not isinstance(each, str) or not _DIGEST.fullmatch(each) for each in content
        )
        if wrong:
            raise ValueError("the hashed names of the training domains are damaged")
        return cls(frozenset(content))


_WHOLE = re.compile(r"(-?\d+)\.0+|(\d{4}-\d\d-\d\d)[ T]00:00(?::00(?:\.0+)?)?")
"""Integers and days as other programs write them: pandas writes 7.0 where a number is missing."""


def _digest(name: Name) -> str:
    bare = str(name).strip()
    other = _WHOLE.fullmatch(bare)
    bare = (other[1] or other[2]) if other else bare
    # A lone surrogate, which a file name may hold, has no UTF-8.
    text = bare.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:DIGITS]
