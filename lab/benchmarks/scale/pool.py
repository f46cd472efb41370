# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a pool of 1 to 65 536 addresses costs a NAT64: start, memory, new sessions of many nodes, questions."""

from network import Daemon, Network, Report, network_section, pktgen
from sessions import SERVER, SERVER6

LEVELS = (32, 28, 24, 20, 16)
NODES = "2001:2:0:1::/112"


def config(network: Network, placement: str, length: int) -> str:
    """A NAT64 with a pool of this prefix length."""
    shares = "\n".join(f"{key} = 100" for key in ("host_share", "source_share", "site_share"))
    mode = f'[translator]\nmode = "nat64"\n{network_section(placement, network)}'
    return f'{mode}\n[nat64]\n{shares}\n[[nat64.pool4]]\naddress = "198.19.0.0/{length}"\n'


def opening(network: Network, sessions: int, seed: int, rate: str) -> Report:
    """Open so many sessions of 65 536 nodes."""
    near, far = network.ends()
    back = ["--back-src", SERVER, "--back-dst", "198.19.0.1"]
    looks = ["--src", NODES, "--dst", SERVER6, "--sport", "1024-65535", "--dport", "7000-7000", "--cpu", "0"]
    amount = ["--sessions", str(sessions), "--rate", rate, "--seed", str(seed), "--settle", "0.3"]
    return pktgen("connect", "--from", near, "--to", far, *looks, *back, *amount)


def level(length: int, placement: str, repeat: int, sessions: int, rate: str) -> Report:
    """Everything about a pool of this prefix length."""
    found: Report = {"part": "pool", "addresses": 1 << (32 - length), "placement": placement, "opened": []}
    with Network() as network, Daemon(network, config(network, placement, length)) as daemon:
        found["check_s"] = daemon.timed("check", str(daemon.config))
        found["start_s"], found["memory_empty"] = daemon.ready_s, daemon.memory()
        for number in range(repeat):
            report = opening(network, sessions, number * sessions, rate)
            received = report["opened"]["received"]
            answered = report["answered"] or {"received": {"received": 0}}
            found["opened"].append(
                {
                    "rate_pps": received["rate_pps"],
                    "received": received["received"],
                    "answered": answered["received"]["received"],
                }
            )
        found["sessions"] = sessions
        found["counters"], found["memory"] = daemon.counters(), daemon.memory()
        found["show_bindings_s"] = daemon.timed("show", "bindings", "--json")
        found["show_counters_s"] = daemon.timed("show", "counters", "--json")
        found["reload_s"] = daemon.timed("reload")
        found["end_s"] = daemon.end()
    return found
