# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a load tool says after one trial, in one form for all tools."""

from dataclasses import dataclass, field

from diolkos_lab.faults import Fault


class LoadFault(Fault):
    """The load tool ran, but brought no result: the server refused, nothing answered, its output makes no sense."""


@dataclass(frozen=True)
class Reading:
    """Figures of one trial. Metrics: throughput bit/s, rtt s, loss ratio, retransmits count."""

    metrics: dict[str, float]
    series: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # metric to {t: [s], y: [its unit]}
    received_bytes: int = 0  # payload the receiver got, start included
    segments: int = 0  # TCP segments that payload makes on the wire
