# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos-pktgen without a limit: the forwarding rate at maximum offered load (RFC 2285 §3.6.2).

Stages are those of a trial of a load–loss curve (`load.pktgen`).
"""

from dataclasses import replace

from diolkos_lab.experiment.frames import ForwardingRateLoad, Seating
from diolkos_lab.load import pktgen, tools
from diolkos_lab.load.protocol import Load, Stream, Used
from diolkos_lab.load.reading import Aim, Reading
from diolkos_lab.metric import MetricName


class ForwardingRate(Load[ForwardingRateLoad]):
    name = "forwarding-rate"
    words = "forwarding rate"
    metrics = (*pktgen.COUNTS, *pktgen.CPU_TIMES)
    needs = tools.REQUIRED | tools.OF_PACKETS
    counted_by = "sink"

    def prepare(self, section: ForwardingRateLoad, aim: Aim) -> list[list[str]]:
        return [pktgen.opening_command(section, aim)] if aim.ends and aim.ends.keeps_state else []

    def seating(self, section: ForwardingRateLoad) -> Seating | None:
        return section.placement

    def command(self, section: ForwardingRateLoad, aim: Aim) -> list[str]:
        return pktgen.measure_command(section, aim)

    def read(self, text: str, section: ForwardingRateLoad) -> Reading:
        """Of an overload, loss says what was offered, and latency how long the ring is."""
        found = pktgen.parse(text, section)
        return replace(found, metrics={name: found.metrics[name] for name in pktgen.COUNTS})

    def costs(self, section: ForwardingRateLoad, reading: Reading, used: Used) -> dict[MetricName, float]:
        return pktgen.cpu_times(used)

    def stream(self, section: ForwardingRateLoad, reading: Reading) -> Stream | None:
        return Stream(reading.metrics["sent"] / section.seconds, section.seconds, saturates=True)
