# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What runs in a guest whose clock counts instructions: every system of a study, one lane after the other.

    lane, server, system ─► a stream in one direction ─► clock, idle time and packets, twice ─► one line
                         ─► packets of a generator (inside_packets)                         ─► one line

The clock of such a guest goes on by a nanosecond with each instruction, and jumps while nothing is to be done. So the time that
is not idle is the number of instructions: those of both ends, of the path and of the system under test.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.cells import LaneCell, lane_cells
from diolkos_lab.experiment.definition import Form, Study, Topology
from diolkos_lab.experiment.frames import ForwardingRateLoad
from diolkos_lab.experiment.loads import TcpLoad
from diolkos_lab.experiment.streams import UdpGsoLoad
from diolkos_lab.faults import Fault, printable
from diolkos_lab.guest import counted, inside_packets
from diolkos_lab.load import iperf3, udp_gso
from diolkos_lab.load.reading import ClientContext
from diolkos_lab.run.counters import Window, devices
from diolkos_lab.sut import definition, lookup, offer
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import scratch
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import Process, first_to_end

REQUEST = Path("/request.json")
RESULT = "RESULT "
START_S = 0.15  # connection set-up and slow start
COUNTED_S = 0.4  # the load lasts longer, and is ended then
SUPER_S = 0.15  # the same of super-packets
LOOKS = 5  # at clock and counters, of which the shortest counts
FULL = 1400  # bytes of IP; packets that are smaller on the average are not those that were asked for
WHOLE = 0.9  # the same of a super-packet, share of its bytes


@dataclass(frozen=True)
class CounterSnapshot:
    """What the guest's clock and the receiver's device say."""

    clock_s: float
    idle_s: float
    packets: int
    octets: int


@dataclass(frozen=True)
class RawSnapshot:
    """The counters of devices, between two looks at the clock."""

    began_s: float
    ended_s: float
    text: str
    idle_s: float


def main() -> int:
    """One line for each trial, as it is made."""
    request = json.loads(REQUEST.read_text())
    study = Study.model_validate_json(request["study"])
    form = study.form["quick"]
    systems = definition.load_all()
    found: dict[str, lookup.Found] = {}
    for name in dict.fromkeys(subject.system for subject in study.system):
        looked = lookup.find(systems[name], request["paths"])
        if isinstance(looked, lookup.Found):
            found[name] = looked
        else:
            reason = request["reasons"].get(name, looked.reason)
            _say({"missing": name, "reason": reason, "how": looked.how})
    study, levels = offer.available_levels(study, found)
    for entry in levels:
        where = {"missing": entry.system.system, "datapath": entry.datapath, "factor": entry.factor, "level": entry.level}
        _say({**where, "reason": entry.reason, "how": entry.how})
    _say({"systems": {name: [str(each.binary or ""), each.version] for name, each in found.items()}})
    with scratch.folder() as folder:
        for cell in lane_cells(study, form, found):
            of_cell(cell, found[cell.subject.system], study.topology, form, folder / cell.name)
    return 0


def of_cell(cell: LaneCell, subject: lookup.Found, topology: Topology, form: Form, folder: Path) -> None:
    """All trials of one system; it is alone in the guest."""
    (folder / "system").mkdir(parents=True)
    path = subject.system.path(cell.subject.datapath, dict(cell.levels))
    shape = Shape(
        hops=cell.subject.hops,
        ipv6_only=path[-1].access == "ipv6-only",
        offloads=cell.offloads == "on",
        pref64=topology.pref64,
        mtu=topology.mtu,
        inbound=path[-1].is_inbound,
        plat=any(part.is_plat for part in path),
        addresses=plan.PLANS[topology.shape],
    )
    loads = [
        load
        for load in form.load
        if isinstance(load, counted.CountedLoad) and cell.subject.gets(load) and cell.offloads in load.offloads
    ]
    windows: dict[str, Window] = {}
    with Lane(cell.name, shape) as lane:
        system = RunningSystem(subject, cell.subject, lane, folder / "system", levels=dict(cell.levels))
        try:
            windows = {role: Window(lane.namespace(role)) for role in ("client", "server")}
            system.start()
            for block in range(form.blocks):
                for load in loads:
                    if isinstance(load, ForwardingRateLoad):
                        found = inside_packets.trial(load, lane, system, cell.subject.family, folder, block)
                    else:
                        found = _trial(_stream(load, system, folder), lane, system, windows, folder)
                    _say(_line(cell, load, block) | found)
        except (Fault, OSError) as fault:
            for load in loads:
                _say(_line(cell, load, 1) | {"error": printable(str(fault))})
        finally:
            system.stop()
            for window in windows.values():
                window.close()


@dataclass(frozen=True)
class Stream:
    """One that fills the path: of whom, to whom, and of which packets."""

    server: Sequence[str]
    port: int
    client: Sequence[str]
    upwards: bool
    least: float
    """Bytes that packets have at least, on the average."""
    counted_s: float = COUNTED_S


def _stream(load: TcpLoad | UdpGsoLoad, system: RunningSystem, folder: Path) -> Stream:
    if isinstance(load, TcpLoad):
        client = iperf3.client_command(load, system.target, None)
        return Stream(iperf3.SERVER_COMMAND, iperf3.PORT, client, load.name == "tcp-upload", FULL)
    # The sender has the processor while nobody else wants it, so that the receiver loses nothing.
    context = ClientContext(system.target, system.resolver, folder, 0)
    client = [*inside_packets.LAST, *udp_gso.UdpGso().command(load, context)]
    return Stream(udp_gso.SERVER_COMMAND, udp_gso.PORT, client, True, WHOLE * load.at_once * load.datagram_bytes, SUPER_S)


def _trial(stream: Stream, lane: Lane, system: RunningSystem, windows: Mapping[str, Window], folder: Path) -> dict[str, Any]:
    receiver, device = ("server", plan.SERVER_LINK) if stream.upwards else ("client", plan.UPLINK)
    output = folder / "client"
    output.unlink(missing_ok=True)
    # A client that is ended leaves a server that waits for it, so each trial has its own.
    server = Process(lane.namespace("server"), stream.server, folder / "server", folder / "server")
    try:
        while not windows["server"].is_listening(stream.port):
            if first_to_end([server], 0.01):
                return {"error": f"the server {server.how_it_ended()}: {' '.join(server.last_words())[-200:]}"}
        client = Process(lane.namespace("client"), stream.client, output, output)
        try:
            ended = first_to_end([client], START_S)
            before = _moment(windows[receiver], device)
            ended = ended or first_to_end([client], stream.counted_s)
            after = _moment(windows[receiver], device)
            if ended:
                return {"error": f"the client {client.how_it_ended()}: {' '.join(client.last_words())[-200:]}"}
        finally:
            client.kill()
    finally:
        server.kill()
    system.check_alive()
    packets = after.packets - before.packets
    if not packets or (after.octets - before.octets) / packets < stream.least:
        size = (after.octets - before.octets) / packets if packets else 0
        return {"error": f"{packets} packets of {size:.0f} bytes on the average arrived: not what was sent"}
    return {
        "instructions": instructions_per_packet(before, after),
        "received": packets,
        "duration": after.clock_s - before.clock_s,
        "idle": after.idle_s - before.idle_s,
    }


def instructions_per_packet(before: CounterSnapshot, after: CounterSnapshot) -> float:
    """The time that was not idle is the number of instructions."""
    busy_s = after.clock_s - before.clock_s - (after.idle_s - before.idle_s)
    return busy_s * inside_packets.NANOSECONDS / (after.packets - before.packets)


def _moment(window: Window, device: str) -> CounterSnapshot:
    return moment([_look(window) for _ in range(LOOKS)], device)


def _look(window: Window) -> RawSnapshot:
    began_s = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    text = window.devices_as_text()
    ended_s = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    # The second number is the time that the one processor had nothing to do.
    return RawSnapshot(began_s, ended_s, text, float(Path("/proc/uptime").read_text().split()[1]))


def moment(looks: Sequence[RawSnapshot], device: str) -> CounterSnapshot:
    """Of the shortest look. In one that the scheduler breaks off, others run for milliseconds between counter and clock."""
    shortest = min(looks, key=lambda look: look.ended_s - look.began_s)
    counted = devices(shortest.text)[device]
    return CounterSnapshot((shortest.began_s + shortest.ended_s) / 2, shortest.idle_s, counted.rx_packets, counted.rx_bytes)


def _line(cell: LaneCell, load: counted.CountedLoad, block: int) -> dict[str, Any]:
    return {"cell": cell.name, "load": counted.load_name(load), "block": block}


def _say(line: Mapping[str, Any]) -> None:
    print(f"{RESULT}{json.dumps(line)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
