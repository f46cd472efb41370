# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Native IPv6 beside what is translated, through the same devices at the same time (RFC 8219 §5.3).

Stages: a sink at each end where packets arrive → generators of both kinds, at once → sinks end → counts of each kind.

`diolkos-pktgen measure` sends one kind. So here each kind has a generator of its own, and a sink tells them apart by the number
of their stream. Both are sent for the same time.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diolkos_lab.experiment.frames import Traffic
from diolkos_lab.faults import InstrumentFault
from diolkos_lab.load.reading import Network, PacketEndpoints
from diolkos_lab.topology import namespace

TRANSLATED, NATIVE = 0, 1  # streams
LONGEST_S = 3600  # sinks are told to end before
PATIENCE_S = 5  # for neighbours
# Every program ends with the shell, also where that is killed.
_SCRIPT = """
wait_for() {{ until grep -q ready "$1"; do kill -0 "$2" 2>/dev/null || {{ cat "$1" >&2; exit 1; }}; sleep 0.005; done; }}
{sinks}
{generators}
wait $sent
sleep {settle_s:g}
kill -TERM $sinks
wait
cat {files}
"""


@dataclass(frozen=True)
class Way:
    """One direction: where packets of both kinds leave and arrive, and what they look like (options of `send`)."""

    sender: str  # `NAMESPACE:DEVICE`
    sink: str
    looks: Mapping[int, Sequence[str]]  # by stream


def rate(load: Traffic, offered: int) -> int:
    """Native packets/s, of so many of both kinds."""
    return max(1, round(offered * load.native_share))


def looks(load: Traffic, ends: PacketEndpoints, *, back: bool) -> list[str]:
    """Source and destination of native packets."""
    native = ends.native
    assert native
    source = native.clients if load.flows == "unique" else native.source
    target: object | Network = native.targets if load.next_hops > 1 and native.targets else native.target
    return ["--src", str(target if back else source), "--dst", str(source if back else target)]


def asking_command(ends: PacketEndpoints) -> list[str]:
    """An echo between the ends of native packets, so that all on the way know their neighbours before any packet is counted."""
    assert ends.native
    return ["ping", "-n", "-c", "1", "-W", str(PATIENCE_S), str(ends.native.target)]


def command(ways: Sequence[Way], folder: Path, program: str, settle_s: float, counting: Sequence[str]) -> list[str]:
    """A trial. `counting` are options of the sinks."""
    sinks, generators, files = ["sinks="], ["sent="], []
    for number, way in enumerate(ways):
        for stream, options in way.looks.items():
            files.append(shlex.quote(str(folder / f"sent-{number}-{stream}")))
            send = [program, "send", "--stream", str(stream), *options]
            generators += [_in_background(way.sender, send, files[-1]), 'sent="$sent $!"']
        files.append(shlex.quote(str(folder / f"sink-{number}")))
        sink = [program, "sink", "--streams", str(len(way.looks)), "--seconds", str(LONGEST_S), *counting]
        sinks += [_in_background(way.sink, sink, files[-1]), f'sinks="$sinks $!"; wait_for {files[-1]} $!']
    joined = {"sinks": "\n".join(sinks), "generators": "\n".join(generators), "files": " ".join(files)}
    return ["sh", "-c", _SCRIPT.format(**joined, settle_s=settle_s)]


def directions(text: str, streams: int = 2) -> list[list[dict[str, Any]]]:
    """Of each direction what became of each kind, as `measure` says it of one. Raises InstrumentFault where a generator or a
    sink gave no report."""
    found: list[list[dict[str, Any]]] = []
    sent: dict[int, dict[str, Any]] = {}
    try:
        for line in (json.loads(each) for each in text.splitlines() if each.strip()):
            if line["event"] == "sent":
                sent[line["stream"]] = line
            elif line["event"] == "received":
                arrived, damaged = line["streams"], line["corrupted_unattributed"]
                of_both = [{"sent": sent[number], "received": arrived[number]} for number in range(streams)]
                of_both[TRANSLATED]["corrupted_unattributed"] = damaged
                found.append(of_both)
                sent = {}
    except (ValueError, KeyError, TypeError, IndexError):
        found = []
    if not found:
        raise InstrumentFault(
            f"native traffic beside: a generator or a sink gave no report: {text.strip()[:200] or 'no output'}"
        )
    return found


def _in_background(where: str, command: Sequence[str], file: str) -> str:
    name, _, device = where.rpartition(":")
    entered = ["nsenter", f"--net={namespace.DIRECTORY / name}", "setpriv", "--pdeathsig", "KILL"]
    return f": >{file}; {shlex.join([*entered, *command, '--interface', device])} >{file} 2>&1 &"
