# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Charts: each is a Vega-Lite specification, from which the page's live picture and all still ones are made.

    picture ─► spec ─► svg ─► png, pdf
One module for each chart; `theme` has what all share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import vl_convert

from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report.charts.theme import COLOURS, Drawn

PNG_SCALE = 2.0
VEGA_LITE = "6.4"  # the version that the specifications are written for


@dataclass(frozen=True)
class Picture:
    name: str  # of its files, without suffix
    title: str
    caption: str
    alt: str  # the same content in words
    draw: Callable[[], Drawn]


@dataclass(frozen=True)
class Still:
    """A picture as the page takes it."""

    spec: dict[str, Any]
    svg: str  # fit to stand in a page
    pdf: bytes


def save(pictures: Iterable[Picture], folder: OpenFolder) -> dict[str, Still]:
    """Write NAME.svg, NAME.png and NAME.pdf of each picture to `folder`; return them by name for the page.

    Vega draws one picture after the other; meanwhile other threads make the rest of its SVG.
    """
    drawn, waiting = {}, []
    with ThreadPoolExecutor() as threads:
        for picture in pictures:
            found = spec(picture)
            drawn[picture.name] = (found, text := svg(found))
            waiting.append((picture.name, text, threads.submit(png, text), threads.submit(pdf, text)))
        stills = {}
        for name, text, *made in waiting:
            image, document = (each.result() for each in made)
            folder.write(f"{name}.svg", text)
            folder.write(f"{name}.png", image)
            folder.write(f"{name}.pdf", document)
            stills[name] = Still(drawn[name][0], inline(text, name), document)
    return stills


def spec(picture: Picture) -> dict[str, Any]:
    """The chart's Vega-Lite specification, with its data."""
    found: dict[str, Any] = picture.draw().to_dict(validate=False)
    return found


def svg(specification: dict[str, Any]) -> str:
    return vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE)


def png(drawn: str, scale: float = PNG_SCALE) -> bytes:
    """From the SVG."""
    return vl_convert.svg_to_png(drawn, scale=scale)


def pdf(drawn: str) -> bytes:
    """From the SVG; texts stay texts."""
    return vl_convert.svg_to_pdf(drawn)


def inline(drawn: str, prefix: str) -> str:
    """An SVG made fit to stand in a page: own ids, and colours by CSS variable, so that it follows a dark page."""
    text = drawn[drawn.index("<svg") :].replace("url(#", f"url(#{prefix}-").replace(' id="', f' id="{prefix}-')
    for name, light, _ in COLOURS:
        text = text.replace(f'"{light}"', f'"var(--{name})"')
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
