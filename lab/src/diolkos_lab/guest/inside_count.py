# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What runs in a guest whose clock counts instructions: every system of a study, one lane after the other.

    lane, server, system ─► TCP in one direction ─► clock, idle time and packets, twice ─► one line

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
from diolkos_lab.experiment.loads import TcpLoad
from diolkos_lab.faults import Fault, printable
from diolkos_lab.load import iperf3
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
LOOKS = 5  # at clock and counters, of which the shortest counts
FULL = 1400  # bytes of IP; packets that are smaller on the average are not those that were asked for
NANOSECONDS = 1e9


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


def of_cell(cell: LaneCell, found: lookup.Found, topology: Topology, form: Form, folder: Path) -> None:
    """All trials of one system; it is alone in the guest."""
    (folder / "system").mkdir(parents=True)
    path = found.system.path(cell.subject.datapath, dict(cell.levels))
    shape = Shape(
        hops=cell.subject.hops,
        ipv6_only=path[-1].access == "ipv6-only",
        offloads=False,
        pref64=topology.pref64,
        mtu=topology.mtu,
        inbound=path[-1].is_inbound,
        plat=any(part.is_plat for part in path),
        addresses=plan.PLANS[topology.shape],
    )
    loads = [load for load in form.load if isinstance(load, TcpLoad) and cell.subject.gets(load)]
    windows: dict[str, Window] = {}
    with Lane(cell.name, shape) as lane:
        system = RunningSystem(found, cell.subject, lane, folder / "system", levels=dict(cell.levels))
        try:
            windows = {role: Window(lane.namespace(role)) for role in ("client", "server")}
            system.start()
            for block in range(form.blocks):
                for load in loads:
                    _say(_line(cell, load, block) | _trial(load, lane, system, windows, folder))
        except (Fault, OSError) as fault:
            for load in loads:
                _say(_line(cell, load, 1) | {"error": printable(str(fault))})
        finally:
            system.stop()
            for window in windows.values():
                window.close()


def _trial(load: TcpLoad, lane: Lane, system: RunningSystem, windows: Mapping[str, Window], folder: Path) -> dict[str, Any]:
    receiver, device = ("server", plan.SERVER_LINK) if load.name == "tcp-upload" else ("client", plan.UPLINK)
    output = folder / "client"
    output.unlink(missing_ok=True)
    # A client that is ended leaves a server that waits for it, so each trial has its own.
    server = Process(lane.namespace("server"), iperf3.SERVER_COMMAND, folder / "server", folder / "server")
    try:
        while not windows["server"].is_listening(iperf3.PORT):
            if first_to_end([server], 0.01):
                return {"error": f"the iperf3 server {server.how_it_ended()}"}
        client = Process(lane.namespace("client"), iperf3.client_command(load, system.target, None), output, output)
        try:
            ended = first_to_end([client], START_S)
            before = _moment(windows[receiver], device)
            ended = ended or first_to_end([client], COUNTED_S)
            after = _moment(windows[receiver], device)
            if ended:
                return {"error": f"iperf3 {client.how_it_ended()}: {' '.join(client.last_words())[-200:]}"}
        finally:
            client.kill()
    finally:
        server.kill()
    system.check_alive()
    packets = after.packets - before.packets
    if not packets or (after.octets - before.octets) / packets < FULL:
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
    return busy_s * NANOSECONDS / (after.packets - before.packets)


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


def _line(cell: LaneCell, load: TcpLoad, block: int) -> dict[str, Any]:
    return {"cell": cell.name, "load": load.name, "block": block}


def _say(line: Mapping[str, Any]) -> None:
    print(f"{RESULT}{json.dumps(line)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
