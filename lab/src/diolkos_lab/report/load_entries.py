# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chapters of loads as data: loads.toml. A load that no entry names has a table for each of its metrics."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from diolkos_lab.experiment import document
from diolkos_lab.experiment.document import StrictModel
from diolkos_lab.metric import RowMetric

TCP, PING = ("tcp-upload", "tcp-download"), ("ping",)


class Figure(StrictModel):
    """A metric with its table, and a picture of its medians where that has a title."""

    metric: RowMetric
    name: str  # of table and picture
    caption: str  # of the table
    title: str = ""
    axis: str = ""


class Readings(StrictModel):
    """Single readings: a table of what they are, and strips where the axis is named."""

    metric: RowMetric
    what: str
    axis: str


class Entry(StrictModel):
    """A chapter of some loads."""

    anchor: str
    title: str
    loads: tuple[str, ...]
    blocks: tuple[RowMetric, ...]  # shown block by block
    figures: tuple[Figure, ...]
    readings: Readings | None = None
    words: dict[str, tuple[str, ...]]


class _File(StrictModel):
    chapter: tuple[Entry, ...]


@cache
def entries() -> tuple[Entry, ...]:
    return document.read(Path(__file__).with_name("loads.toml"), _File).chapter
