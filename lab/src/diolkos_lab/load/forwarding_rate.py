# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diolkos-pktgen without a limit: the forwarding rate at maximum offered load (RFC 2285 §3.6.2).

Stages are those of a trial of a load–loss curve (`load.pktgen`).
"""

from dataclasses import replace

from diolkos_lab.experiment.frames import ForwardingRateLoad
from diolkos_lab.load import pktgen
from diolkos_lab.load.interface import Stream
from diolkos_lab.load.reading import Reading


class ForwardingRate(pktgen.Generator[ForwardingRateLoad]):
    name = "forwarding-rate"
    words = "forwarding rate"
    metrics = (*pktgen.COUNTS, *pktgen.CPU_TIMES)

    def read(self, text: str, section: ForwardingRateLoad) -> Reading:
        """Of an overload, loss says what was offered, and latency how long the ring is."""
        found = pktgen.parse(text, section)
        return replace(found, metrics={name: found.metrics[name] for name in pktgen.COUNTS})

    def stream(self, section: ForwardingRateLoad, reading: Reading) -> Stream | None:
        return Stream(reading.metrics["sent"] / section.seconds, section.seconds, saturates=True)
