# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pictures: each is drawn twice for the page (desk and paper; phone) and once for each of PNG and SVG.

In the page a picture is inline SVG whose colours are CSS variables, so that it follows a dark page and prints in
black on white.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.figure import Figure

from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.report.pictures.style import GROUND, NARROW, RULE, SHADE, SOFT, WIDE, Draw, Layout, rc, settle
from diolkos_lab.report.systems import INK, LOOKS

PNG_DPI = 200
# (variable, light, dark): every colour that a picture may use.
COLOURS = [
    *((look.name, look.light, look.dark) for look in LOOKS if look.light != INK),
    ("ink", INK, "#f2f2ee"),
    ("soft", SOFT, "#a9a9a4"),
    ("rule", RULE, "#3c3c39"),
    ("shade", SHADE, "#2c2c2a"),
    ("ground", GROUND, "#171716"),
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


def save(picture: Picture, folder: OpenFolder) -> Inline:
    """Draw a picture, write NAME.png and NAME.svg to `folder`, and return it for the page."""
    with rc_context(rc()):
        wide, narrow = (_drawn(picture, layout) for layout in (WIDE, NARROW))
        svg = _svg(wide, picture.title)
        folder.write(f"{picture.name}.svg", svg)
        with folder.draft(f"{picture.name}.png") as file:
            wide.savefig(file, format="png", dpi=PNG_DPI, metadata={"Software": "diolkos-lab"})
        small = _svg(narrow, picture.title)
    return Inline(picture, themed(svg, f"{picture.name}-w"), themed(small, f"{picture.name}-n"))


def _drawn(picture: Picture, layout: Layout) -> Figure:
    """The figure with its layout found once and for all files."""
    drawn = picture.draw(layout)
    settle(drawn)
    drawn.set_layout_engine("none")
    return drawn


def _svg(drawn: Figure, title: str) -> str:
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "diolkos-lab", "Title": title})
    return buffer.getvalue()


def themed(svg: str, prefix: str) -> str:
    """A stand-alone SVG made fit to stand in a page: own ids, colours by CSS variable, the page's type face."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r'\s(xmlns|xmlns:xlink|version)="[^"]*"', "", svg)
    svg = re.sub(r'<svg\b([^>]*?)\swidth="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg\b([^>]*?)\sheight="[^"]*"', r'<svg\1 aria-hidden="true" focusable="false"', svg, count=1)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    referred = set(re.findall(r"url\(#([^)]+)\)", svg)) | set(re.findall(r'href="#([^"]+)"', svg))
    svg = re.sub(r'\sid="([^"]+)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in referred else "", svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: inherit", svg)
    svg = re.sub(r'\s(?:d|x|y|transform)="[^"]*"', lambda m: _short(m[0]), svg)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    svg = svg.replace("fill: #ffffff", "fill: none")  # the ground is the page's
    for name, light, _ in COLOURS:
        svg = re.sub(re.escape(light), f"var(--{name})", svg, flags=re.I)
    return svg.strip()


def _short(attribute: str) -> str:
    """Coordinates to a tenth of a point, which is finer than any screen."""
    return re.sub(r"-?\d+\.\d\d+", lambda m: f"{float(m[0]):.1f}", attribute)
