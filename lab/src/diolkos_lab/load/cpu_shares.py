# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CPU time of streams by who was charged: generator, system under test, receiver, and the rest.

The kernel charges a packet's way to whoever is running then. What a sender writes is routed, translated in the kernel and put
into the receiver's socket within the sender's own system call; an acknowledgement is, within the receiver's. So the processes
of a system under test are charged only for what they do themselves, and a translator in the kernel shows in the shares of
the ends. What it costs is told by `cpu_s_per_gb`, the CPU time of the path per gigabyte, beside that of native.
"""

from typing import Literal

from diolkos_lab.load.interface import CpuUsage
from diolkos_lab.load.reading import Reading
from diolkos_lab.metric import MetricName

End = Literal["client", "server"]
METRICS: tuple[MetricName, ...] = ("generator_share", "system_share", "receiver_share", "rest_share", "saturated")
# Of one CPU. A generator that uses this much sends what it can, and not what the path could carry.
SATURATED = 0.97


def shares(usage: CpuUsage, reading: Reading, sender: End) -> dict[MetricName, float]:
    """Shares of one CPU over the time in which they were counted, and whether the generator had none to spare while it sent.

    A trial lasts as long as it does: one that ends by its bytes takes longer than planned on a path that slowed down.
    """
    generator, receiver = (usage.client, usage.server) if sender == "client" else (usage.server, usage.client)
    busy_s = generator + receiver if usage.ends_share_cpu else generator
    return {
        "generator_share": generator / usage.elapsed,
        "system_share": usage.system / usage.elapsed,
        "receiver_share": receiver / usage.elapsed,
        "rest_share": max(0.0, (usage.path or 0.0) - usage.client - usage.server - usage.system) / usage.elapsed,
        "saturated": float(busy_s >= SATURATED * (reading.seconds or usage.elapsed)),
    }
