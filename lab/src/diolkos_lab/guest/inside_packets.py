# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets of the generator in a guest whose clock counts instructions.

The generator has the one processor only while nobody else wants it. So each packet is carried to its end before the next ones
are made, none is lost for want of room, and there is no idle time: the time for each packet is the number of instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.definition import Family
from diolkos_lab.experiment.frames import ForwardingRateLoad
from diolkos_lab.load import pktgen, registry
from diolkos_lab.load.reading import ClientContext
from diolkos_lab.run import endpoints
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane
from diolkos_lab.topology.process import run_to_end

LAST = ("chrt", "--idle", "0")  # whoever else wants the processor has it (sched(7), SCHED_IDLE)
PATIENCE_S = 10.0
LIVE = "live-frames"
MOST_LOST = 1e-3  # of the packets
NANOSECONDS = 1e9


def trial(
    load: ForwardingRateLoad, lane: Lane, system: RunningSystem, family: Family, folder: Path, serial: int
) -> dict[str, Any]:
    """Instructions for each packet that arrives, or an error. Raises Fault."""
    ends = endpoints.through_system(lane, system, family, ())
    context = ClientContext(system.target, system.resolver, folder, serial, ends)
    kind = registry.load_of(load)
    if load.backwards:
        commands = [pktgen.backwards_command(load, context, LAST)]
    else:
        commands = [*kind.prepare(load, context), pktgen.measure_command(load, context, LAST)]
    first = "translator" if lane.shape.hops > 1 else "router"
    # Frames of XDP enter a veth only where its peer polls, which it does with GRO.
    lane.set_gro(first, plan.DOWNLINK, on=True)
    lane.set_gro("router", plan.SERVER_LINK, on=load.backwards)
    text = ""
    for command in commands:
        output = folder / "generator"
        output.unlink(missing_ok=True)
        status, text = run_to_end(lane.namespace("client"), command, output, PATIENCE_S)
        if status:
            return {"error": f"{command[0]} ended with {status}: {' '.join(text.split()[-30:])}"}
    system.check_alive()
    if error := other_path(pktgen.report(text, pktgen.MEASURED, pktgen.CONNECTED)):
        return {"error": error}
    found = kind.read(text, load).metrics
    return judged(found["sent"], found["received"], found["rate"])


def other_path(report: Mapping[str, Any]) -> str | None:
    """Why frames did not go by the way on which all systems are compared: XDP frames, which no packet has to be made of."""
    for each in report.get("directions") or report.get("carried") or ():
        if (path := each["sent"]["path"]) != LIVE:
            return f"frames left by {path}: {each['sent'].get('path_because')}"
    return None


def judged(sent: float, received: float, rate: float) -> dict[str, Any]:
    """`rate`: packets a second of the guest's clock that arrived. What is lost has cost instructions, too."""
    if sent - received > MOST_LOST * sent:
        return {"error": f"of {sent:.0f} packets {sent - received:.0f} were lost: what they took is not known"}
    return {"instructions": NANOSECONDS / rate, "received": received, "duration": received / rate}
