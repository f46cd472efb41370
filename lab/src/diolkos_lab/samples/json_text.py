# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One JSON object from a text that anybody may have written.

Python's reader takes more than JSON has: NaN, Infinity, numbers beyond any float, halves of characters. None of them can be
computed with, shown or written again, so they are refused here, once.
"""

import json
import math
import re
from typing import Any

LARGEST = 1e30  # of a number, so that squares and quotients stay finite
SMALLEST = 1e-30  # likewise; what is nearer to zero is taken for zero
DEEPEST = 32  # levels of objects and lists in each other
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# Save tab and newline; a terminal obeys the others. The last two end a line in JavaScript, of which charts are made.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MAY_HAVE_CONTROL = re.compile(r"\\u00|\\u202|\\[bfr]|[\x7f-\x9f\u2028\u2029]")


def read_object(text: str) -> dict[str, Any]:
    """Raises ValueError with the reason. Control characters become spaces."""
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_float, parse_int=_int)
    except RecursionError:
        raise ValueError("too deeply nested") from None
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is expected, not {_kind(value)}")
    _require_shallow(value)
    if _HALF.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text holds half a character (a lone surrogate)") from None
    return _shown(value) if _MAY_HAVE_CONTROL.search(text) else value


def shown(text: str) -> str:
    """The text without control characters."""
    return _CONTROL.sub(" ", text)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise ValueError(f"the number {text[:20]} is too large")
    return value if abs(value) > SMALLEST else 0.0


def _int(text: str) -> int:
    if len(text) > len("-") + 18:
        raise ValueError(f"the number {text[:20]} is too large")
    return int(text)


def _kind(value: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [leaf for each in inner for leaf in each if isinstance(leaf, dict | list)]
        if not level:
            return
    raise ValueError("too deeply nested")


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {_shown(key): _shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner) for inner in value]
    return shown(value) if isinstance(value, str) else value
