"""What every result of an inference has in common: conversion to plain data."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, ClassVar

from eqrm.markup import lines_in_html


class Finding:
    """Base of dataclasses with numbers and strings as fields, and properties that explain them."""

    derived: ClassVar[tuple[str, ...]] = ("sentence",)
    """Properties that :meth:`to_dict` holds besides the fields."""

    def _repr_html_(self) -> str:
        """What was found as sentences, for a notebook."""
        return lines_in_html(getattr(self, "sentence", repr(self)))

    def to_dict(self) -> dict[str, Any]:
        """Every field, and what follows from them, ready for JSON: an infinite number is None."""
        found = asdict(self)  # type: ignore[call-overload]
        found |= {name: getattr(self, name) for name in self.derived}
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in found.items()
        }
