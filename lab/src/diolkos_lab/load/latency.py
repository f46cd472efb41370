# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos-pktgen below the limit of every path: the delay of each packet of a stream.

Stages: open the flows, where the path keeps state → measure → parse. The rate comes from the warm-up (`run.native_rate`).
"""

from dataclasses import replace

from diolkos_lab.experiment.latency import LatencyLoad
from diolkos_lab.load import pktgen
from diolkos_lab.load.interface import Stream
from diolkos_lab.load.reading import LoadFault, Reading
from diolkos_lab.metric import MetricName

# Shares of the packets beyond whose loss a percentile of all packets has no end, since a lost one never arrives.
LOST: dict[MetricName, float] = {"latency": 0.5, "latency_worst": 0.001}


def parse(text: str, load: LatencyLoad) -> Reading:
    """Median and 99.9th percentile of the one-way delay (RFC 8219 section 7.2), and what `pktgen.parse` says besides.

    Percentiles are of the packets that arrived. Where more are lost than LOST, a percentile of all packets would have no end,
    so it is a lower bound. Raises LoadFault where none arrived.
    """
    reading = pktgen.parse(text, load)
    if "latency" not in reading.metrics and not load.searches:
        raise LoadFault("no packet arrived")
    loss = reading.metrics["loss"]
    ends = {name: (reading.metrics[name], None) for name, most in LOST.items() if loss > most and name in reading.metrics}
    return replace(reading, metrics={**reading.metrics, "offered": float(load.offered or 0)}, bounds={**ends})


class Latency(pktgen.Generator[LatencyLoad]):
    name = "latency"
    words = "latency at half load"
    metrics: tuple[MetricName, ...] = (
        *("latency", "latency_worst", "rate", "loss", "offered", "sent", "received", "refused"),
        *("duplicate", "reordered", "corrupted", "pdv", "ipdv_min", "ipdv_median", "ipdv_max"),
        *pktgen.NATIVE,
        *pktgen.CPU_TIMES,
    )

    def read(self, text: str, section: LatencyLoad) -> Reading:
        return parse(text, section)

    def stream(self, section: LatencyLoad, reading: Reading) -> Stream | None:
        """On one CPU the sender stands still with everybody else, and nothing comes that would have to wait."""
        if section.placement == "one-cpu":
            return None
        return Stream(section.offered or 1.0, section.seconds, lossless=False, timed=not section.searches)
