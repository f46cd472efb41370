# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Charts: each is a Vega-Lite specification, from which the page's live picture and all still ones are made.

    picture ─► spec ─► svg ─► pdf
One module for each chart; `theme` has what all share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import vl_convert
from altair.utils.schemapi import debug_mode

from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report import helpers
from diolkos_lab.report.charts.theme import COLOURS, Spec
from diolkos_lab.report.helpers import VEGA_LITE

PNG_SCALE = 2.0
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_UNSEEN = re.compile(r'<path (?:(?! stroke=")[^>])*fill-opacity="0"(?:(?! stroke=")[^>])*/>')
_REPEATED = re.compile(r' (?:class|font-family|aria-hidden)="[^"]*"')


@dataclass(frozen=True)
class Picture:
    name: str  # of its files, without suffix
    title: str
    caption: str
    alt: str  # the same content in words
    draw: Callable[[], Spec]


@dataclass(frozen=True)
class RenderedPicture:
    """A picture as the page takes it."""

    spec: dict[str, Any]
    svg: str  # fit to stand in a page
    pdf: bytes


def save(pictures: Iterable[Picture], folder: OpenFolder) -> dict[str, RenderedPicture]:
    """Write NAME.svg and NAME.pdf of each picture to `folder`; return them by name for the page, which makes a PNG when asked.

    Vega draws one picture after the other; meanwhile helpers make the rest of its SVG.
    """
    specs = {picture.name: spec(picture) for picture in pictures}
    drawn = {}
    for name, found in specs.items():
        text = svg(found)
        drawn[name] = text, helpers.submit("svg_to_pdf", svg=text)
    stills = {}
    for name, (text, document) in drawn.items():
        folder.write(f"{name}.svg", text)
        folder.write(f"{name}.pdf", document.result())
        stills[name] = RenderedPicture(specs[name], inline(text, name), document.result())
    return stills


def still(picture: Picture) -> RenderedPicture:
    """The same of one picture, without files."""
    found = spec(picture)
    drawn = svg(found)
    return RenderedPicture(found, inline(drawn, picture.name), pdf(drawn))


def spec(picture: Picture) -> dict[str, Any]:
    """The chart's Vega-Lite specification, with its data."""
    with debug_mode(False):  # which checks every part against the schema; tests do that
        return picture.draw()


def svg(specification: dict[str, Any]) -> str:
    drawn = vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE)
    for number, name in enumerate(dict.fromkeys(re.findall(r'id="(clip\d+)"', drawn))):  # which Vega counts by the process
        drawn = drawn.replace(f'id="{name}"', f'id="c{number}"').replace(f"url(#{name})", f"url(#c{number})")
    drawn = re.sub(r' (?:role="graphics-\w+"|aria-(?:roledescription|label)="[^"]*"|pointer-events="none")', "", drawn)
    return re.sub(r' (?:d|transform|x|y|x2|y2)="[^"]*"', lambda found: _NUMBER.sub(_short, found[0]), drawn)


def _short(found: re.Match[str]) -> str:
    """A coordinate to a hundredth of a pixel."""
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def png(drawn: str, scale: float = PNG_SCALE) -> bytes:
    """From the SVG."""
    return vl_convert.svg_to_png(drawn, scale=scale)


def pdf(drawn: str) -> bytes:
    """From the SVG; texts stay texts."""
    return vl_convert.svg_to_pdf(drawn)


def inline(drawn: str, prefix: str) -> str:
    """An SVG made fit to stand in a page: own ids, and colours by CSS variable, so that it follows a dark page. What nobody
    sees is left out, a third of it: marks that only catch the pointer, and attributes that the style sheet has once."""
    text = drawn[drawn.index("<svg") :].replace("url(#", f"url(#{prefix}-").replace(' id="', f' id="{prefix}-')
    for name in ("", ":xlink"):
        text = re.sub(f' xmlns{name}="[^"]*"', "", text, count=1)
    for name, light, _ in COLOURS:
        text = text.replace(f'"{light}"', f'"var(--{name})"')
    head, rest = text.split(">", 1)
    rest = _REPEATED.sub("", _UNSEEN.sub("", rest))
    return f"{head}>{rest}".replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
