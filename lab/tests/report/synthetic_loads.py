# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records of every load, for result folders of each kind of report. SYNTHETIC: nothing in them was measured."""

from __future__ import annotations

from typing import Any

NATIVE, DIOLKOS = ("native", "kernel", "ipv6", 1), ("diolkos", "tc", "ipv4", 1)
PACKETS = {"placement": "apart", "size": 84, "flows": 16}
SESSIONS = {"bindings": "few", "placement": "beside", "size": 84}
TALLY = {"trials": 9, "repeated": 2, "distrusted": 1, "guards": {"pace": 3}}
BLOCKS = 7
STREAM = {"offered_pps": 1000, "seconds": 1.0, "frames": [900, 901], "lost": 1, "distrusted": 0, "trusted": True}


def _line(block: int, path: tuple, load: str, factors: dict, metrics: dict, **more: Any) -> dict[str, Any]:
    return {
        "block": block,
        "order": 0,
        **dict(zip(("system", "datapath", "family", "hops"), path, strict=True)),
        "replica": 1,
        "load": load,
        "factors": {"offloads": "on", **factors},
        "started": "2026-01-01T00:00:00.000+00:00",
        "duration": 0.5,
        "valid": True,
        "distrust": [],
        "error": None,
        "metrics": metrics,
        "series": {},
        **more,
    }


def _outcome(procedure: str, found: dict[str, Any]) -> dict[str, Any]:
    plan = {**PACKETS, "seconds": 0.5}
    limits = {"lowest": 1000, "highest": 90_000}
    said = {"deviations": ["one direction only"], "tally": TALLY, "error": None}
    return {"procedure": procedure, "plan": plan, "limits": limits, **said, **found}


def applications(block: int, path: tuple) -> list[dict[str, Any]]:
    doubt = [{"guard": "steal", "detail": "the hypervisor took 9 %"}] * (block == 3)
    points = {"t": [0.1, 0.2, 0.3], "y": [1e9, 2e9, 1.5e9]}
    cpu = {"throughput": 1.5e9, "cpu_s_per_gb": 0.7}
    twin = {"replica": 2} if path == NATIVE else {"error": "it died", "valid": False}
    ping = {"count": 20, "interval": 0.01}
    udp = {"streams": 2, "seconds": 1, "datagram": 1400, "rate": 10**9}
    roles = {"generator_share": 0.7, "system_share": 0.1, "receiver_share": 0.2, "rest_share": 0.1, "saturated": 1.0}
    busy = {"direction": "upload", "streams": 1, "seconds": 1, "interval": 0.01}
    sent = {"throughput": 9e8, "sent_rate": 1e9, "loss": 0.1, "socket_loss": 0.01, **roles}
    return [
        _line(block, path, "tcp-upload", {"streams": 1, "seconds": 1}, cpu, series={"throughput": points}),
        _line(block, path, "ping", ping, {"rtt": 2e-5, "loss": 0.0}, valid=not doubt, distrust=doubt),
        _line(block, path, "ping", ping, {"rtt": 2.1e-5, "loss": 0.0}, **twin),
        _line(block, path, "udp", udp, sent),
        _line(block, path, "ping-under-load", busy, {"rtt": 9e-5, "loss": 0.0, "throughput": 1e9, **roles}),
        _line(block, path, "latency", {**PACKETS, "packets": 20_000, "share": 0.5}, {"latency": 1e-5, "latency_worst": 9e-5}),
        _line(block, path, "http", {"object": 1024, "by": "name", "seconds": 0.2}, {"latency": 1e-4, "rate": 1e4}),
        _line(block, path, "dns", {"cache": "cold", "offered": "most", "seconds": 0.2}, {"rate": 3e4, "busy": 0.9}),
    ]


def sessions(block: int, path: tuple) -> list[dict[str, Any]]:
    opened = {"rate": 2e5, "established": 3e5, "teardown": 1e5, "loss": 0.0, "attempts": 3.0}
    held = {"capacity": 8000.0, "too_many": 8100.0, "held_of_too_many": 8000.0, "lost_of_too_many": 0.01, "attempts": 4.0}
    most = {"first": 1000, "most": 8000, "resolution": 0.01, "fill_rate": 1000}
    return [
        *(_line(block, path, "new-flows", {"sessions": n, **SESSIONS, "seconds": 0.5}, opened) for n in (1000, 4000)),
        _line(block, path, "capacity", {**SESSIONS, **most}, held),
    ]


def procedures(block: int, path: tuple) -> list[dict[str, Any]]:
    bounds = {"lower_pps": 40_000, "upper_pps": 41_000}
    goal = {"loss_ratio": 0.005, "exceed_ratio": 0.5, "relative_width": 0.005, "duration_sum_s": 2.0}
    goals = [{"goal": goal, **bounds, "conditional_pps": 39_900.0, "distrusted_at_bounds": 0}]
    step = {"percent": 100, "offered_pps": 80_000, "sent": 40_000, "loss_ratio": 0.4, "trusted": True}
    variation = {name: [1e-5, 2e-5] for name in ("pdv_s", "ipdv_min_s", "ipdv_median_s", "ipdv_max_s")}
    tests = {
        "throughput": {**bounds, "distrusted": 0},
        "frame_loss": {"maximum_pps": 80_000, "steps": [step], "distrusted": 0},
        "latency": {**STREAM, "typical_s": [1e-5, 1.1e-5], "worst_s": [9e-5, 8e-5], "short": False},
        "delay_variation": {**STREAM, **variation} if path == NATIVE else {"error": "no rate was found"},
    }
    found = {"mlrsearch": {"library": "MLRsearch 1.2.1", "goals": goals}, "rfc8219": tests}
    trial = {**PACKETS, "seconds": 0.5, "offered": 40_000, "test": "search", "attempt": 1}
    counts = {"sent": 20_000.0, "received": 19_990.0, "loss": 5e-4}
    return [_line(block, path, name, trial, counts, outcome=_outcome(name, each)) for name, each in found.items()]


def curves(block: int, path: tuple) -> list[dict[str, Any]]:
    rates = (50_000, 60_000, 70_000, 80_000)
    lost = (0.0, 0.001, 0.1, 0.2)
    return [
        _line(
            block,
            path,
            "pps",
            {**PACKETS, "seconds": 0.5, "offered": rate, "refines": 0},
            {
                **{"sent": rate / 2, "received": rate / 2 * (1 - share), "loss": share, "rate": rate * (1 - share)},
                **{"latency": 1e-5, "latency_worst": 9e-5, "cpu_generator": 0.3, "cpu_all": 0.6},
            },
        )
        for rate, share in zip(rates, lost, strict=True)
    ]


KINDS = {
    "applications": (applications, procedures),
    "sessions": (sessions,),
    "curves": (curves, procedures),
    "everything": (applications, sessions, procedures, curves),
}
ALONE = {"family": "ipv6", "placement": "apart", "size": 84, "rate": 2e6}
HOST = {
    "format": 1,
    "kernel": "6.18.0",
    "cores": 2,
    "affinity": [0, 1],
    "clocksource": "tsc",
    "mitigations": {"meltdown": "Not affected"},
    "versions": {"ping": "1"},
    "seed": 7,
    "command_line": ["diolkos-lab", "run"],
    "generator": [ALONE],
}


def lines(kind: str) -> list[dict[str, Any]]:
    """samples.jsonl, the header first."""
    missing = [{"system": "tundra", "datapath": "tun", "reason": "not found", "how": "name it"}]
    header = {"format": 1, "study": "clat", "quick": True, "seed": 7, "missing": missing}
    made = [each for block in range(BLOCKS) for path in (NATIVE, DIOLKOS) for make in KINDS[kind] for each in make(block, path)]
    return [header, *made]
