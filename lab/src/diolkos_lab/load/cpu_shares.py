# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CPU time of streams by who was charged: generator, system under test, receiver, and the rest.

The kernel charges a packet's way to whoever is running then. What a sender writes is routed, translated in the kernel and put
into the receiver's socket within the sender's own system call; an acknowledgement is, within the receiver's. So the processes
of a system under test are charged only for what they do themselves, and a translator in the kernel shows in the shares of
the ends. What it costs is told by `cpu`, the time of all CPUs per gigabyte, beside that of the native path.
"""

from typing import Literal

from diolkos_lab.load.interface import CpuUsage
from diolkos_lab.metric import MetricName

End = Literal["client", "server"]
METRICS: tuple[MetricName, ...] = ("generator_share", "system_share", "receiver_share", "rest_share", "saturated")
# Of one CPU. A generator that uses this much sends what it can, and not what the path could carry.
SATURATED = 0.97


def shares(usage: CpuUsage, seconds: float, sender: End) -> dict[MetricName, float]:
    """Shares of one CPU, and whether the generator had none to spare: no guard asks that, the page shows it."""
    generator, receiver = (usage.client, usage.server) if sender == "client" else (usage.server, usage.client)
    busy_s = generator + receiver if usage.ends_share_cpu else generator
    return {
        "generator_share": generator / seconds,
        "system_share": usage.system / seconds,
        "receiver_share": receiver / seconds,
        "rest_share": max(0.0, usage.all - usage.client - usage.server - usage.system) / max(seconds, usage.elapsed),
        "saturated": float(busy_s >= SATURATED * seconds),
    }
