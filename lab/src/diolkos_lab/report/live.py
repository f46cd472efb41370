# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What makes a page live, all of it inside the page: Vega, the specifications, the files to download, and who may run.

    specs, files ─► data blocks
    page.js, Vega ─► the only two scripts that the page's Content-Security-Policy lets run, by their hashes
Vega and the files are compressed; the browser unpacks them when they are wanted. Without JavaScript the page has its still
pictures and tables.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from diolkos_lab.report import helpers
from diolkos_lab.report.charts.theme import COLOURS

# What a JSON text in HTML must not hold as it is: ends of the element and of comments, and ends of lines of JavaScript.
ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def policy(*, charts: bool) -> str:
    """Nothing is loaded from anywhere, and nothing runs but the two scripts, or the first where there are no charts."""
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in (script(), *([vega()] if charts else [])))
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def script() -> str:
    return (Path(__file__).parent / "page.js").read_text(encoding="utf-8")


def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, as vl-convert carries them."""
    return str(helpers.bundle().result())


@cache
def library() -> Markup:
    return _packed("vega", vega().encode())


def specifications(specs: Mapping[str, dict[str, Any]]) -> Markup:
    """A data block with the colours by day and by night, and each picture's specification by its name."""
    content = {"colours": {light: dark for _, light, dark in COLOURS}, "specs": specs}
    return _packed("charts", json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())


def listed(files: Mapping[str, str | bytes]) -> Markup:
    """A data block with the names of the files, which the page needs before it unpacks them."""
    return _json("carried", sorted(files))


def downloads(files: Mapping[str, str | bytes]) -> Markup:
    """A data block with files by their names; bytes are kept as letters of the same numbers, which compress well."""
    plain = {name: each if isinstance(each, str) else {"bytes": each.decode("latin-1")} for name, each in files.items()}
    return _packed("files", json.dumps(plain, ensure_ascii=False).encode())


def _json(name: str, value: object) -> Markup:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(ESCAPES)
    return Markup(f'<script type="application/json" id="{name}">{text}</script>')


def _packed(name: str, content: bytes) -> Markup:
    return Markup(f'<script type="text/plain" id="{name}">{_base64(gzip.compress(content, 9, mtime=0))}</script>')


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _hash(text: str) -> str:
    return _base64(hashlib.sha256(text.encode()).digest())
