# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Result folders of load–loss curves drawn from a seeded generator. SYNTHETIC: nothing in them was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

# path and setting to T_sat in packets/s, loss below it, and what happens far beyond
PATHS: dict[tuple[str, str, str, int, str], tuple[float, float, str]] = {
    ("native", "kernel", "ipv6", 2, "apart"): (612e3, 1e-4, "holds"),
    ("native", "kernel", "ipv6", 2, "one-cpu"): (410e3, 1e-3, "grows"),
    ("diolkos", "siit-tc", "ipv4", 2, "apart"): (548e3, 1e-4, "holds"),
    ("diolkos", "siit-inline", "ipv4", 2, "apart"): (640e3, 1e-4, "holds"),
    ("tayga", "siit", "ipv4", 2, "apart"): (118e3, 1e-3, "falls"),
    ("native", "kernel", "ipv6", 1, "apart"): (860e3, 1e-4, "holds"),
    ("nat44", "nftables", "ipv4", 1, "apart"): (640e3, 1e-4, "grows"),
}
SHARES = (0.475, 0.625, 0.775, 0.925, 1.075, 1.225, 1.375, 1.525)
SYSTEM = '\n[[system]]\nsystem = "{}"\ndatapath = "{}"\nfamily = "{}"\nhops = {}\nloads = ["pps"]\n'


def loss(rate: float, saturation: float, floor: float, beyond: str) -> float:
    """Equation 3 of the paper with a floor; throughput that `holds`, `falls` or `grows` beyond saturation."""
    share = rate / saturation
    if share <= 1:
        return floor
    carried = {"holds": 1.0, "falls": 1 - 0.3 * (share - 1), "grows": 1 + 0.5 * (share - 1)}[beyond]
    return 1 - carried / share


def folder(path: Path, *, valid: Callable[[int], bool] = lambda number: True, blocks: int = 6, seed: int = 3) -> Path:
    """A whole result folder; `valid` says of the n-th trial whether guards trust it."""
    path.mkdir(parents=True, exist_ok=True)
    systems = dict.fromkeys(key[:4] for key in PATHS)
    text = 'format = 1\nname = "router-accuracy"\ntitle = "SYNTHETIC"\nquestion = "none"\n'
    text += "".join(SYSTEM.format(*system) for system in systems)
    text += '\n[form.quick]\nblocks = 7\n\n[[form.quick.load]]\nname = "pps"\nseconds = 0.2\n'
    (path / "study.toml").write_text(text)
    alone = [
        {"family": family, "placement": placement, "size": 84, "rate": 2.3e6}
        for family in ("ipv4", "ipv6")
        for placement in ("apart", "one-cpu")
    ]
    host = {"format": 1, "kernel": "SYNTHETIC", "seed": seed, "generator": alone}
    (path / "host.json").write_text(json.dumps(host))
    lines: list[dict] = [{"format": 1, "study": "router-accuracy", "quick": True, "synthetic": True}]
    draw = np.random.default_rng(seed)
    for block in range(1, blocks + 1):
        for (system, datapath, family, hops, placement), (saturation, floor, beyond) in PATHS.items():
            for share in SHARES:
                rate = round(saturation * share)
                sent = round(rate * 0.2)
                lost = draw.binomial(sent, min(1, loss(rate, saturation, floor, beyond) * draw.normal(1, 0.03)))
                ok = valid(len(lines))
                lines.append(
                    {
                        "block": block,
                        "order": len(lines),
                        "system": system,
                        "datapath": datapath,
                        "family": family,
                        "hops": hops,
                        "replica": 1,
                        "load": "pps",
                        "factors": {
                            "offloads": "on",
                            "placement": placement,
                            "size": 84,
                            "seconds": 0.2,
                            "flows": 16,
                            "offered": rate,
                        },
                        "started": "2026-01-01T00:00:00+00:00",
                        "duration": 0.7,
                        "valid": ok,
                        "distrust": [] if ok else [{"guard": "pace", "detail": "the generator was late"}],
                        "error": None,
                        "metrics": {
                            "sent": float(sent),
                            "received": float(sent - lost),
                            "rate": (sent - lost) / 0.2,
                            "loss": lost / sent,
                            "latency": 4e-6,
                            "latency_worst": 9e-5,
                            "cpu_generator": 0.3,
                            "cpu_system": 0.0,
                            "cpu_threads": 0.15,
                            "cpu_all": 0.6,
                        },
                        "series": {},
                    }
                )
    (path / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
