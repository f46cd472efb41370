# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What 1 to 8 million sessions cost: packets, new sessions, memory, the state file, a start after a kill, questions.

Two routers stand side by side, one with a single session, one with many. They are measured in turn, so that what the machine
does to one it does to the other. Every packet belongs to another session than the one before; the order looks like chance.
"""

import signal

from network import POOL, Daemon, Network, Report, network_section, pktgen

LEVELS = (1, 1_000, 10_000, 100_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
ROOM = 4
BINDINGS = 2_000  # of one node; each has its share of the sessions
CLIENT, SERVER = "2001:2::2", "198.18.0.2"
SERVER6 = f"2001:2:64::{0xC612:x}:{0x0002:x}"


def config(network: Network, placement: str, most: int) -> str:
    """A NAT64 with room for so many sessions, all of which one node may have."""
    limits = "\n".join(f"{key} = {most}" for key in ("max_sessions", "max_bindings", "max_sessions_per_source"))
    shares = "\n".join(f"{key} = 100" for key in ("host_share", "source_share", "site_share"))
    pool = f'[[nat64.pool4]]\naddress = "{POOL}"\n'
    mode = f'[translator]\nmode = "nat64"\n{network_section(placement, network)}'
    return f"{mode}\n[nat64]\n{limits}\nmax_bindings_per_source = {most}\n{shares}\n{pool}"


def looks() -> list[str]:
    """The 4-tuples of all sessions; a load takes as many as it wants, always the same ones."""
    return ["--src", CLIENT, "--dst", SERVER6, "--sport", f"1024-{1023 + BINDINGS}", "--cpu", "0"]


def fill(network: Network, sessions: int, rate: str) -> Report:
    """Open so many; each has an answer when this returns."""
    near, far = network.ends()
    back = ["--back-src", SERVER, "--back-dst", "198.19.0.1"]
    amount = ["--sessions", str(sessions), "--rate", rate, "--rounds", "20", "--settle", "0.3"]
    report = pktgen("connect", "--from", near, "--to", far, *looks(), *back, *amount)
    if not report["all"]:
        raise SystemExit(f"not every one of {sessions} sessions was opened and answered: {report}")
    return report


def passing(network: Network, sessions: int, seconds: float) -> float:
    """Nanoseconds a packet, from the generator to the sink, on one CPU."""
    near, far = network.ends()
    flows = ["--flows", str(sessions), "--rate", "max", "--seconds", f"{seconds:g}", "--settle", "0.2", "--no-verify"]
    report = pktgen("measure", "--from", near, "--to", far, *looks(), *flows)
    [forth] = report["directions"]
    received = forth["received"]
    return 1e9 / float(received["rate_pps"])


def level(sessions: int, placement: str, repeat: int, seconds: float, rate: str, restarts: bool) -> Report:
    """Everything about so many sessions."""
    found: Report = {"part": "sessions", "sessions": sessions, "placement": placement, "ns": [], "ns_of_one": []}
    # Programs open sessions by themselves while a third of the table is taken at most.
    most = max(ROOM * sessions, 100_000)
    found["max_sessions"] = most
    with Network() as network, Network() as other:
        state = ("--state", str(network.folder / "state"))
        with Daemon(network, config(network, placement, most), *state) as daemon, Daemon(other, config(other, placement, most)):
            found["start_empty_s"], found["memory_empty"] = daemon.ready_s, daemon.memory()
            opened = fill(network, sessions, rate)
            fill(other, 1, "10")
            found["rounds"] = opened["rounds"]
            found["opened_per_s"] = opened["opened"]["received"]["rate_pps"]
            for _ in range(repeat):
                found["ns_of_one"].append(passing(other, 1, seconds))
                found["ns"].append(passing(network, sessions, seconds))
            found["counters"], found["memory"] = daemon.counters(), daemon.memory()
            found["show_sessions_s"] = daemon.timed("show", "sessions", "--json")
            found["show_counters_s"] = daemon.timed("show", "counters", "--json")
            if not restarts:
                return found
            found["end_s"] = daemon.end()
            found["state_file_bytes"] = (network.folder / "state").stat().st_size
            daemon.start()
            found["start_after_end_s"] = daemon.ready_s
            found["held_after_end"] = daemon.counters().get("state.sessions", 0)
            daemon.end(signal.SIGKILL)
            daemon.start()
            found["start_after_kill_s"] = daemon.ready_s
            found["held_after_kill"] = daemon.counters().get("state.sessions", 0)
    return found
