"""JSON that can stand inside an HTML page, whatever texts it holds."""

from __future__ import annotations

import json
import re
from typing import Any

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def as_safe_json(content: Any) -> str:
    r"""JSON for the inside of a ``script`` element: nothing in it can end the element.

    >>> as_safe_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def bytes_of(content: Any) -> int:
    """How many bytes it takes in the page.

    >>> bytes_of("<")
    8
    """
    return len(as_safe_json(content).encode())
