# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Result folders drawn from a seeded generator. SYNTHETIC: nothing in them was measured; they only test the report.

`folder()` writes a whole one; `Plan` says what goes wrong in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GBIT = 1e9
# (system, datapath, family, hops): throughput in bit/s, rtt in s, cpu in s/GB. Invented.
PATHS = {
    ("native", "kernel", "ipv6", 1): (16.4 * GBIT, 9.0e-6, 0.62),
    ("native", "kernel", "ipv4", 1): (17.0 * GBIT, 8.6e-6, 0.60),
    ("native", "kernel", "ipv6", 2): (13.8 * GBIT, 12.4e-6, 0.74),
    ("native", "kernel", "ipv4", 2): (14.2 * GBIT, 12.0e-6, 0.72),
    ("diolkos", "tc", "ipv4", 1): (16.0 * GBIT, 9.2e-6, 0.64),
    ("diolkos", "tun", "ipv4", 1): (11.3 * GBIT, 41e-6, 1.2),
    ("tayga", "tun", "ipv4", 1): (1.27 * GBIT, 54e-6, 9.1),
    ("tundra", "tun", "ipv4", 1): (1.15 * GBIT, 57e-6, 12.3),
    ("jool", "module", "ipv4", 2): (12.9 * GBIT, 13.6e-6, 0.81),
    ("nat44", "nftables", "ipv4", 2): (13.3 * GBIT, 12.9e-6, 0.78),
}
SYSTEMS = sorted({path[0] for path in PATHS})
LOADS = {"tcp-upload": "throughput", "tcp-download": "throughput", "ping": "rtt"}
IDENTITY = ("system", "datapath", "family", "hops", "load", "metric")
UNITS = {"throughput": "bit/s", "rtt": "s", "cpu_s_per_gb": "s/GB", "loss": "ratio"}


@dataclass(frozen=True)
class Plan:
    blocks: int = 9  # after the warm-up
    absent: frozenset[str] = frozenset({"jool", "tundra"})
    failed: frozenset[str] = frozenset()  # systems whose every trial fails
    untrusted: frozenset[tuple[str, int]] = frozenset({("tayga", 2)})  # (system, block)
    offloads: tuple[str, ...] = ("on",)
    streams: tuple[int, ...] = (1,)
    quick: bool = True
    seconds: int = 3
    echoes: int = 100
    seed: int = 7


def folder(path: Path, plan: Plan | None = None) -> Path:
    plan = plan or Plan()
    path.mkdir(parents=True, exist_ok=True)
    trials = samples(plan)
    (path / "study.toml").write_text('format = 1\nname = "clat"\ntitle = "SYNTHETIC"\nquestion = "none"\n')
    (path / "host.json").write_text(json.dumps(host(plan)))
    lines = [{"format": 1, "study": "clat", "quick": plan.quick, "synthetic": True}, *trials]
    (path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "summary.json").write_text(json.dumps(summary(plan, trials)))
    return path


def host(plan: Plan) -> dict:
    return {
        "format": 1,
        "synthetic": True,
        "kernel": "6.18.0-synthetic",
        "cpu_model": "Synthetic CPU",
        "cores": 2,
        "affinity": [0, 1],
        "clocksource": "tsc",
        "clocksources": ["tsc", "acpi_pm"],
        "governor": None,
        "mitigations": {"meltdown": "Not affected"},
        "virtualisation": "KVM",
        "load_average": [0.3, 0.4, 0.2],
        "versions": {"iperf3": "iperf 3.12", "ping": "ping from iputils 20221126", "python:numpy": "2.0.0"},
        "seed": plan.seed,
        "command": "diolkos-lab run clat --quick --seed 7",
    }


def samples(plan: Plan) -> list[dict]:
    rng = np.random.default_rng(plan.seed)
    found: list[dict] = []
    for block in range(plan.blocks + 1):
        drift = rng.normal(1, 0.01)
        jobs = [
            (cell, load, offload, streams)
            for cell in PATHS
            if cell[0] not in plan.absent
            for offload in plan.offloads
            for load in LOADS
            for streams in (plan.streams if load != "ping" else (None,))
        ]
        for order, index in enumerate(rng.permutation(len(jobs))):
            found.append(_trial(rng, plan, (block, order, drift), jobs[index]))
    return found


def _trial(rng, plan: Plan, when: tuple[int, int, float], job: tuple) -> dict:
    """One line of samples.jsonl. `when` is (block, order, drift of the host), `job` (cell, load, offloads, streams)."""
    (block, order, drift), (cell, load, offload, streams) = when, job
    system, datapath, family, hops = cell
    throughput, rtt, cpu = PATHS[cell]
    if offload == "off":
        throughput, cpu = throughput / 6, cpu * 6
    bad = (system, block) in plan.untrusted
    trial = {
        "block": block,
        "order": order,
        "system": system,
        "datapath": datapath,
        "family": family,
        "hops": hops,
        "replica": 1,
        "load": load,
        "factors": {"offloads": offload}
        | ({"streams": streams, "seconds": plan.seconds} if load != "ping" else {"count": plan.echoes, "interval": 0.01}),
        "started": f"2025-01-01T00:{block:02d}:{order % 60:02d}Z",
        "duration": float(plan.seconds) if load != "ping" else plan.echoes * 0.01,
        "valid": not bad,
        "distrust": [{"guard": "steal", "detail": "6.1 % of the CPU time was stolen"}] if bad else [],
        "error": None,
        "metrics": {},
        "series": {},
    }
    if system in plan.failed:
        return trial | {"valid": False, "error": "the client could not connect: No route to host"}
    level = drift * rng.normal(1, 0.012) * (0.6 if bad else 1)
    if load == "ping":
        t = np.arange(plan.echoes) * 0.01
        y = rtt * level * (1 + rng.gamma(1.5, 0.04, plan.echoes)) + (rng.random(plan.echoes) < 0.01) * rng.gamma(
            2, 2e-5, plan.echoes
        )
        trial["metrics"] = {"rtt": float(np.median(y)), "loss": 0.0}
        trial["series"] = {"rtt": {"t": t.tolist(), "y": np.round(y, 7).tolist()}}
        return trial
    t = np.arange(1, plan.seconds * 4 + 1) / 4
    y = throughput * level * rng.normal(1, 0.02, len(t)) * (1 - 0.25 * np.exp(-4 * t))
    trial["metrics"] = {"throughput": float(y.mean()), "cpu_s_per_gb": float(cpu * rng.normal(1, 0.02)), "retransmits": 0}
    trial["series"] = {"throughput": {"t": t.tolist(), "y": y.tolist()}}
    return trial


def summary(plan: Plan, trials: list[dict]) -> dict:
    return {
        "format": 1,
        "study": "clat",
        "quick": plan.quick,
        "synthetic": True,
        "generated": "2025-01-01T00:10:00Z",
        "verdicts": [
            _verdict(
                "diolkos tc keeps at least 0.97 of native",
                "lower end of the 95 % interval ≥ 0.97",
                "not met",
                0.968,
                [0.951, 0.969],
            ),
            _verdict("diolkos tun is at least 7 times Tayga", "lower end of the 95 % interval ≥ 7", "met", 8.9, [8.6, 9.2]),
            _verdict(
                "diolkos tc RTT is at most 1.05 of native",
                "upper end of the 95 % interval ≤ 1.05",
                "undecided",
                1.02,
                [0.99, 1.06],
            ),
        ],
        "noise_floor": {"rows": [_floor(plan, load, metric) for load, metric in LOADS.items()]},
        "missing": [
            {"system": s, "datapath": None, "reason": f"{s} is not installed", "how": f"install {s}, or name it by path"}
            for s in sorted(plan.absent)
        ],
        "failures": [],
        "rows": list(_rows(plan, trials)),
        "untrusted": list(_untrusted(plan, trials)),
    }


def _floor(plan: Plan, load: str, metric: str) -> dict:
    extra = (
        {"streams": plan.streams[0], "seconds": plan.seconds} if load != "ping" else {"count": plan.echoes, "interval": 0.01}
    )
    return {
        "subject": "native/kernel/ipv6/1",
        "load": load,
        "metric": metric,
        "offloads": plan.offloads[0],
        **extra,
        "blocks": plan.blocks,
        "ratio": 1.002,
        "ratio_ci95": [0.991, 1.012],
        "spread95": 0.03,
    }


def _verdict(claim: str, rule: str, outcome: str, value: float, ci: list[float]) -> dict:
    return {"claim": claim, "rule": rule, "outcome": outcome, "sentence": f"{claim}: {outcome}.", "value": value, "ci95": ci}


def _rows(plan: Plan, trials: list[dict]):
    groups: dict[tuple, dict[int, tuple[bool, float | None]]] = {}
    for t in trials:
        if t["block"] == 0:
            continue
        key = (t["system"], t["datapath"], t["family"], t["hops"], t["load"], json.dumps(t["factors"]))
        for metric in (LOADS[t["load"]], "cpu_s_per_gb") if t["load"] != "ping" else ("rtt", "loss"):
            groups.setdefault((*key, metric), {})[t["block"]] = (t["valid"], t["metrics"].get(metric))
    for key, by_block in groups.items():
        *who, load, factors, metric = key
        base = ("native", "kernel", "ipv4" if who[0] == "nat44" else "ipv6", who[3])
        own = {b: v for b, (valid, v) in by_block.items() if valid and v is not None}
        against = {b: v for b, (valid, v) in groups.get((*base, load, factors, metric), {}).items() if valid and v is not None}
        shared = [own[b] / against[b] for b in own if against.get(b)] if tuple(who) != base else []
        values = np.array(list(own.values()))
        yield {
            "study": "clat",
            **dict(zip(("system", "datapath", "family", "hops"), who, strict=True)),
            "load": load,
            **json.loads(factors),
            "metric": metric,
            "unit": UNITS[metric],
            "trials": len(by_block),
            "valid_trials": len(own),
            **_stats(values),
            "baseline": "/".join(map(str, base)) if shared else None,
            "ratio": float(np.median(shared)) if shared else None,
            "ratio_ci95": _interval(np.array(shared)),
            **_beside(own, groups, (*base, load, factors, metric), tuple(who) != base and who[0] != "native"),
        }


def _beside(own: dict, groups: dict, base: tuple, wanted: bool) -> dict:
    """The ratio to the native path of the other family."""
    other = (*base[:2], {"ipv4": "ipv6", "ipv6": "ipv4"}[base[2]], *base[3:])
    theirs = {b: v for b, (valid, v) in groups.get(other, {}).items() if valid and v is not None}
    shared = np.array([own[b] / theirs[b] for b in own if theirs.get(b)])
    if not wanted or not len(shared):
        return {}
    found = {"other_baseline": "/".join(map(str, other[:4])), "other_ratio": float(np.median(shared))}
    return found | {"other_ratio_ci95": _interval(shared)}


def _untrusted(plan: Plan, trials: list[dict]):
    """Beside the rows without a median: the same from all trials."""
    trusted = {json.dumps([r[k] for k in IDENTITY]): r for r in _rows(plan, trials)}
    for row in _rows(plan, [t | {"valid": t["error"] is None} for t in trials]):
        own = trusted[json.dumps([row[k] for k in IDENTITY])]
        if row["median"] is not None and (own["median"] is None or (own["ratio"] is None and row["ratio"] is not None)):
            factors = {k: row[k] for k in ("offloads", "streams", "seconds", "count", "interval") if k in row}
            yield {k: row[k] for k in (*IDENTITY, "unit", "trials", "median", "baseline", "ratio")} | factors


def _stats(values: np.ndarray) -> dict:
    if not len(values):
        return dict.fromkeys(("median", "mean", "sd", "min", "max", "p95", "p99", "ci95"))
    return {
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else None,
        "min": float(values.min()),
        "max": float(values.max()),
        "p95": float(np.percentile(values, 95)),
        "p99": float(np.percentile(values, 99)),
        "ci95": _interval(values),
    }


def _interval(values: np.ndarray) -> list[float] | None:
    if len(values) < 2:
        return None
    half = 2.3 * values.std(ddof=1) / np.sqrt(len(values))
    return [float(np.median(values) - half), float(np.median(values) + half)]
