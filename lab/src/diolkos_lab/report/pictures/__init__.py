# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pictures: each is drawn twice for the page (desk and paper; phone) and once for each of PNG and SVG.

In the page a picture is inline SVG whose colours are CSS variables, so that it follows a dark page and prints in
black on white.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from diolkos_lab.report.pictures.style import NARROW, RULE, SHADE, SOFT, WIDE, Draw, rc
from diolkos_lab.report.systems import INK, LOOKS

PNG_DPI = 200
# (variable, light, dark): every colour that a picture may use.
COLOURS = [
    *((look.name, look.light, look.dark) for look in LOOKS if look.light != INK),
    ("ink", INK, "#f2f2ee"),
    ("soft", SOFT, "#a9a9a4"),
    ("rule", RULE, "#3c3c39"),
    ("shade", SHADE, "#2c2c2a"),
]


@dataclass(frozen=True)
class Picture:
    name: str  # of its files, without suffix
    title: str
    caption: str
    alt: str  # the same content in words
    draw: Draw


@dataclass(frozen=True)
class Inline:
    """A drawn picture as the page takes it."""

    picture: Picture
    wide: str
    narrow: str


def save(picture: Picture, folder: Path) -> Inline:
    """Draw a picture, write NAME.png and NAME.svg to `folder`, and return it for the page."""
    with rc_context(rc()):
        wide, narrow = picture.draw(WIDE), picture.draw(NARROW)
        stamp = {"Date": None, "Creator": "diolkos-lab", "Title": picture.title}
        wide.savefig(folder / f"{picture.name}.svg", metadata=stamp)
        wide.savefig(folder / f"{picture.name}.png", dpi=PNG_DPI, metadata={"Software": "diolkos-lab"})
        return Inline(picture, _inline(wide, picture, "w"), _inline(narrow, picture, "n"))


def _inline(drawn: Figure, picture: Picture, variant: str) -> str:
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", facecolor="none", metadata={"Date": None, "Creator": None})
    return themed(buffer.getvalue(), f"{picture.name}-{variant}")


def themed(svg: str, prefix: str) -> str:
    """A stand-alone SVG made fit to stand in a page: own ids, colours by CSS variable, the page's type face."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r'\s(xmlns|xmlns:xlink|version)="[^"]*"', "", svg)
    svg = re.sub(r'<svg\b([^>]*?)\swidth="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg\b([^>]*?)\sheight="[^"]*"', r'<svg\1 aria-hidden="true" focusable="false"', svg, count=1)
    svg = re.sub(r'\sid="([^"]+)"', rf' id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: inherit", svg)
    for name, light, _ in COLOURS:
        svg = re.sub(re.escape(light), f"var(--{name})", svg, flags=re.I)
    return svg.strip()
