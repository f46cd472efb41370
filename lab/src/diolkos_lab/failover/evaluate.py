# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the files of a trial mean: arrivals and connections become its figures, of which one without end is None.

gap         the longest time for which a flow heard nothing in a direction, beyond its own interval
established a flow that each end has heard before the fault, the client at the flow's own address and port
kept        an established flow that hears again in both directions, by the same address and port as before
moved       the server heard it from another address or port than before: its binding was lost
wrong       a datagram that reached a flow it is not of, or came from where another flow is
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from diolkos_lab.failover.programs.flows import ANSWER_S, ANSWER_SHARE
from diolkos_lab.run.guards import Objection

RECORD = np.dtype(
    [("flow", "<u4"), ("sequence", "<u4"), ("sent_ns", "<u8"), ("arrived_ns", "<u8"), ("where", "<u8")]
)  # as `programs/flows.py` writes it
Arrivals = npt.NDArray[np.void]
LATE_S = 0.1  # a generator of flows whose gaps are measured, and that was later than this, has made gaps of its own
# The others' datagrams only have to be sent so often after the fault that a flow is heard again.
LATE_SHARE = 0.5  # of the interval between two datagrams of a flow


@dataclass(frozen=True)
class SetOfFlows:
    """One set: what arrived in each direction, and the flows' own numbers."""

    flows: int
    sources: int
    first_port: int
    interval_s: float
    end_ns: int
    up: Arrivals  # at the server
    down: Arrivals  # at the client
    start_ns: int = 0

    def expected_where(self, flow: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
        """Number of the client's address and port of a flow, as the records have them."""
        port = flow // self.sources + self.first_port
        return ((flow % self.sources).astype(np.uint64) << np.uint64(16)) | port.astype(np.uint64)


def read_set(folder: Path, name: str) -> SetOfFlows:
    """The files of a set. A last record without its end is left out. Raises OSError where a program wrote nothing."""
    spec = json.loads((folder / f"{name}.json").read_text())
    up, down = (_arrivals((folder / f"{name}.{direction}").read_bytes()) for direction in ("up", "down"))
    numbers = {key: spec[key] for key in ("flows", "sources", "first_port", "interval_s", "start_ns", "end_ns")}
    return SetOfFlows(**numbers, up=up, down=down)


def _arrivals(data: bytes) -> Arrivals:
    return np.frombuffer(data[: len(data) // RECORD.itemsize * RECORD.itemsize], dtype=RECORD)


# ---- flows


def flows_row(of: SetOfFlows, fault_ns: int, limit_s: float) -> dict[str, Any]:
    """Which flows go on after the fault. Heard again is who hears a datagram that was sent later than `limit_s` after it.

    Of all flows: one that was never established is lost.
    """
    own = arrived_at_own(of)
    established = _heard(of.up, of.flows, before_ns=fault_ns) & _heard(own, of.flows, before_ns=fault_ns)
    late_ns = fault_ns + int(limit_s * 1e9)
    first = _first_where(of.up, of.flows)
    same = of.up["where"] == first[of.up["flow"]]
    moved = np.zeros(of.flows, dtype=bool)
    moved[of.up["flow"][~same]] = True
    again_up = _heard(of.up[same], of.flows, sent_after_ns=late_ns)
    again_down = _heard(own, of.flows, sent_after_ns=late_ns)
    kept = established & again_up & again_down & ~moved
    n = int(established.sum())
    return {
        "flows": of.flows,
        "established": n,
        "kept": int(kept.sum()),
        "kept_share": float(kept.sum() / of.flows),
        "moved": int((established & moved).sum()),
        "silent_up": int((established & ~again_up & ~moved).sum()),
        "silent_down": int((established & ~again_down & ~moved).sum()),
        "wrong": wrong(of),
        "duplicates": duplicates(of.up) + duplicates(of.down),
    }


def arrived_at_own(of: SetOfFlows) -> Arrivals:
    """What the client got at the address and port of the flow. What another flow got, this one has not heard."""
    own: Arrivals = of.down[of.down["where"] == of.expected_where(of.down["flow"])]
    return own


def wrong(of: SetOfFlows) -> int:
    """Datagrams that the client got at another flow's address or port, or the server from where another was heard first."""
    at_client = int((of.down["where"] != of.expected_where(of.down["flow"])).sum())
    if not len(of.up):
        return at_client
    order = np.argsort(of.up["arrived_ns"], kind="stable")
    where, flow = of.up["where"][order], of.up["flow"][order]
    _, index, inverse = np.unique(where, return_index=True, return_inverse=True)
    return at_client + int((flow[index][inverse] != flow).sum())


def duplicates(arrivals: Arrivals) -> int:
    """Datagrams that arrived again."""
    keys = (arrivals["flow"].astype(np.uint64) << np.uint64(32)) | arrivals["sequence"].astype(np.uint64)
    return int(len(keys) - len(np.unique(keys)))


def lost(arrivals: Arrivals, sent: int) -> int:
    return max(0, sent - (len(arrivals) - duplicates(arrivals)))


def _heard(
    arrivals: Arrivals, flows: int, before_ns: int | None = None, sent_after_ns: int | None = None
) -> npt.NDArray[np.bool_]:
    kept = arrivals
    if before_ns is not None:
        kept = kept[kept["arrived_ns"] < before_ns]
    if sent_after_ns is not None:
        kept = kept[kept["sent_ns"] >= sent_after_ns]
    heard = np.zeros(flows, dtype=bool)
    heard[kept["flow"]] = True
    return heard


def _first_where(arrivals: Arrivals, flows: int) -> npt.NDArray[np.uint64]:
    """Where each flow was heard from first, by time of arrival."""
    first = np.zeros(flows, dtype=np.uint64)
    order = np.argsort(arrivals["arrived_ns"], kind="stable")[::-1]
    first[arrivals["flow"][order]] = arrivals["where"][order]  # of several, the last assignment stays: the earliest
    return first


# ---- gaps


def gaps_s(arrivals: Arrivals, of: SetOfFlows, fault_ns: int) -> npt.NDArray[np.float64]:
    """The longest gap of each flow in one direction; not heard before the fault, or not again: infinite."""
    order = np.lexsort((arrivals["arrived_ns"], arrivals["flow"]))
    flow, at_ns = arrivals["flow"][order], arrivals["arrived_ns"][order].astype(np.int64)
    longest = np.zeros(of.flows)
    between = np.diff(at_ns) / 1e9 - of.interval_s
    counts = (flow[1:] == flow[:-1]) & (at_ns[1:] > fault_ns)
    np.maximum.at(longest, flow[1:][counts], between[counts])
    last = np.zeros(of.flows, dtype=np.int64)
    np.maximum.at(last, flow, at_ns)
    silent = (of.end_ns - last) / 1e9 > 2 * of.interval_s + 1.0  # the end of the trial cuts off less than that
    longest[silent | ~_heard(arrivals, of.flows, before_ns=fault_ns)] = math.inf
    return np.maximum(longest, 0.0)


def gap_row(of: SetOfFlows, fault_ns: int) -> dict[str, Any]:
    """Gaps of both directions together: the longest, the median of the flows that had one, and how many had."""
    both = [gaps_s(arrivals, of, fault_ns) for arrivals in (of.up, arrived_at_own(of))]
    each = np.concatenate(both)
    noticed = each[each > 2 * of.interval_s]
    return {
        "gap_s": _finite(float(each.max())),
        "gap_up_s": _finite(float(both[0].max(initial=0.0))),
        "gap_down_s": _finite(float(both[1].max(initial=0.0))),
        "gap_median_s": _finite(float(np.median(noticed))) if len(noticed) else 0.0,
        "gap_flows": len(noticed),
    }


def _finite(value: float) -> float | None:
    """None for a gap that did not end: JSON has no infinity."""
    return round(value, 4) if math.isfinite(value) else None


# ---- applications


def connections_row(found: Sequence[Sequence[Any]], fault_ns: int, interval_s: float) -> dict[str, Any]:
    """From the fault on: connections that failed, and for how long some did. `new_flows_s` is None if they still do."""
    after = [(begun, took) for begun, took in found if begun >= fault_ns]
    failed = [begun for begun, took in after if took is None]
    last = max((begun for begun, _ in after), default=fault_ns)
    never = bool(failed) and failed[-1] > last - 1_000_000_000
    until_s = 0.0 if not failed else (max(failed) - fault_ns) / 1e9 + interval_s
    return {
        "connections": len(after),
        "connections_failed": len(failed),
        "connections_failed_before": sum(took is None for begun, took in found if begun < fault_ns),
        "new_flows_s": None if never else round(until_s, 3),
    }


def stream_stop_s(report: Mapping[str, Any]) -> float | None:
    """The longest time in which a stream of iperf3 sent nothing; None where it broke."""
    if "error" in report or "intervals" not in report:
        return None
    longest = current = 0.0
    for interval in report["intervals"]:
        total = interval["sum"]
        current = current + float(total["seconds"]) if not total["bytes"] else 0.0
        longest = max(longest, current)
    return round(longest, 2)


def guards(reports: Mapping[str, Mapping[str, Any]], intervals_s: Mapping[str, float]) -> list[Objection]:
    """Why a trial is not trusted. `reports` is by file (`fine-client`), `intervals_s` by set (`fine`)."""
    found = []
    for name, report in reports.items():
        late_s = report["latest_ns"] / 1e9
        if late_s > max(LATE_S, LATE_SHARE * intervals_s[name.partition("-")[0]]):
            found.append(Objection("generator", f"the generator of {name} was {late_s:.2f} s late"))
        if report["unread"]:
            found.append(Objection("unread", f"the program of {name} did not read {report['unread']} datagrams in time"))
    return found


def row(folder: Path, fault_ns: int, interval_s: float, limit_s: float) -> dict[str, Any]:
    """All figures of a trial from the files in its folder."""
    reports = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*-client.json"))}
    reports |= {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*-server.json"))}
    many, fine, calls = (read_set(folder, name) for name in ("many", "fine", "calls"))
    flows = flows_row(many, fault_ns, limit_s)
    others = [(wrong(each), duplicates(each.up) + duplicates(each.down)) for each in (fine, calls)]
    flows["wrong"] += sum(each[0] for each in others)
    flows["duplicates"] += sum(each[1] for each in others)
    calls_gap = gap_row(calls, fault_ns)
    intervals_s = {"many": many.interval_s, "fine": fine.interval_s, "calls": calls.interval_s}
    # A generator that was late before the fault left flows no time to be established.
    late_s = sum(reports[f"many-{end}"]["latest_ns"] for end in ("client", "server")) / 1e9
    spare_s = (fault_ns - many.start_ns) / 1e9 - many.interval_s * (1 + ANSWER_SHARE) - ANSWER_S
    hurried = flows["established"] < flows["flows"] and late_s > spare_s
    why = f"the generators of many were {late_s:.1f} s late, so that flows had no time to be established"
    too_late = [Objection("generator", why)] if hurried else []
    stops = []
    for file in sorted(folder.glob("stream-*-client.log")):
        try:
            stops.append(stream_stop_s(json.loads(file.read_text())))
        except json.JSONDecodeError:
            stops.append(None)
    return {
        **flows,
        **gap_row(fine, fault_ns),
        "call_gap_s": calls_gap["gap_s"],
        "call_gap_flows": calls_gap["gap_flows"],
        "lost_up": lost(many.up, reports["many-client"]["sent"]),
        "lost_down": lost(many.down, reports["many-server"]["sent"]),
        **connections_row(json.loads((folder / "connections.json").read_text()), fault_ns, interval_s),
        "stream_stops_s": stops,
        "late_s": round(max(report["latest_ns"] for report in reports.values()) / 1e9, 3),
        "guards": [*guards(reports, intervals_s), *too_late],
    }
