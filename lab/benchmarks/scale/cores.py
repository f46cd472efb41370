# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two CPUs instead of one, and what each line of memory costs that they share.

`streams`: a stream on each CPU, from generator to sink. Together through one translator, or through a router each (`apart`), or
one at a time. What two routers lose beside each other is the machine's; what one loses besides is its own.

`lines`: the program alone (BPF_PROG_TEST_RUN) on one CPU, and on both with nothing, the session, the ring buffer, or the lease
in common.
"""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import testrun
from network import PREF64, Daemon, Network, Report, network_section, pktgen
from sessions import config as nat64_config

SIDES = (0, 1)
TRANSLATORS = ("siit", "nat64")
SESSIONS = 1_000  # of each CPU
KNOWN_PORT = 5000
OPENINGS = 200  # of each CPU in a round; a lease has 16 ports of each parity, more once it is wide, and is filled meanwhile


def siit_config(network: Network, placement: str) -> str:
    """A SIIT with one mapping for all clients of a pair."""
    table = "".join(f'[[eam]]\nv4 = "10.0.{i}.0/24"\nv6 = "2001:2:{i}::/120"\n' for i in SIDES)
    return f'[translator]\nmode = "siit"\n{network_section(placement, network)}\n{table}'


def config(mode: str, network: Network, placement: str) -> str:
    """Of either translator."""
    return siit_config(network, placement) if mode == "siit" else nat64_config(network, placement, 1_000_000)


def looks(mode: str, side: int, cpu: int) -> list[str]:
    """A stream of a pair. Native packets have an IPv6 server, all others the same one by its IPv4 address."""
    dst = f"2001:2:{100 + side}::2" if mode == "native" else testrun.embedded(PREF64, f"198.18.{side}.2")
    return ["--src", f"2001:2:{side}::2", "--dst", dst, "--sport", "1024-1123", "--cpu", str(cpu)]


def stream(network: Network, mode: str, side: int, cpu: int, seconds: float) -> float:
    """Nanoseconds a packet of one stream."""
    near, far = network.ends(side)
    amount = ["--flows", str(SESSIONS), "--rate", "max", "--seconds", f"{seconds:g}", "--settle", "0.2", "--no-verify"]
    report = pktgen("measure", "--from", near, "--to", far, *looks(mode, side, cpu), *amount)
    return 1e9 / float(report["directions"][0]["received"]["rate_pps"])


def opened(network: Network, mode: str, side: int) -> None:
    """The sessions of a stream, where it needs some."""
    if mode != "nat64":
        return
    near, far = network.ends(side)
    back = ["--back-src", f"198.18.{side}.2", "--back-dst", "198.19.0.1"]
    amount = ["--sessions", str(SESSIONS), "--rate", "20k", "--rounds", "5", "--settle", "0.3"]
    report = pktgen("connect", "--from", near, "--to", far, *looks(mode, side, 0), *back, *amount)
    if not report["opened"]["received"]["received"] == SESSIONS:
        raise SystemExit(f"not every session was opened: {report}")


def known(network: Network, mode: str, side: int) -> None:
    """The session that is used again and again."""
    if mode != "nat64":
        return
    near, far = network.ends(side)
    dst = testrun.embedded(PREF64, f"198.18.{side}.2")
    ports = ["--sport", f"{KNOWN_PORT}-{KNOWN_PORT}", "--dport", "7000-7000"]
    who = ["--src", f"2001:2:{side}::2", "--dst", dst, "--back-src", f"198.18.{side}.2", "--back-dst", "198.19.0.1"]
    pktgen("connect", "--from", near, "--to", far, *who, *ports, "--sessions", "1", "--rate", "10", "--settle", "0.3")


def streams(mode: str, placement: str, repeat: int, seconds: float, seed: int = 1) -> Report:
    """Rounds, in each of which every arrangement is measured once, in random order."""
    found: Report = {"part": "cores", "mode": mode, "placement": placement, "rounds": []}
    draw = random.Random(seed)
    with Network(2) as network, Network(2) as other:
        daemons = [Daemon(each, config(mode, each, placement)) for each in (network, other)] if mode != "native" else []
        try:
            for each in (network, other):
                for side in SIDES:
                    opened(each, mode, side)
            arrangements = {
                "alone0": [(network, 0)],
                "alone1": [(network, 1)],
                "together": [(network, 0), (network, 1)],
                "apart": [(network, 0), (other, 1)],
            }
            for _ in range(repeat):
                order = list(arrangements)
                draw.shuffle(order)
                found["rounds"].append({name: _at_once(arrangements[name], mode, seconds) for name in order})
            if daemons:
                found["counters"] = daemons[0].counters()
        finally:
            for daemon in daemons:
                daemon.end()
    return found


def _program_of(network: Network, daemon: Daemon, frame: str) -> int:
    """The number of the program that translates at the interface."""
    how = {"cpu": 0, "interface": "down0", "frames": [frame], "seconds": 1, "once": True}
    for number in sorted(daemon.programs()):
        try:
            [found] = testrun.at_once(network.router, [{**how, "program": number}])
        except SystemExit:  # a program of XDP has another context
            continue
        if found["runs"]:
            return number
    raise SystemExit("no program translates the frame")


def _at_once(arrangement: list[tuple[Network, int]], mode: str, seconds: float) -> list[float]:
    with ThreadPoolExecutor() as threads:
        waiting = [threads.submit(stream, network, mode, side, side, seconds) for network, side in arrangement]
        return [each.result() for each in waiting]


def lines(mode: str, placement: str, repeat: int, seconds: float, seed: int = 1) -> Report:
    """Rounds, in each of which every arrangement of program runs is measured once."""
    found: Report = {"part": "lines", "mode": mode, "placement": placement, "rounds": []}
    draw = random.Random(seed)
    with Network(2) as network, Daemon(network, config(mode, network, placement)) as daemon:
        for side in SIDES:
            opened(network, mode, side)
            known(network, mode, side)
        mac = network.mac(network.router, "down0")

        def frames(side: int, first: int, number: int) -> list[str]:
            dst = testrun.embedded(PREF64, f"198.18.{side}.2")
            # Even ones: the port after that of a session is the controller's, in case it is RTCP (RFC 4787 section 4.2.3).
            ports = range(first, first + 2 * number, 2)
            return [testrun.udp6(f"2001:2:{side}::2", dst, port, 7000, mac).hex() for port in ports]

        own = [frames(side, KNOWN_PORT, 1) for side in SIDES]
        program = _program_of(network, daemon, own[0][0])

        def order(cpu: int, which: list[str], once: bool = False) -> Report:
            place = {"cpu": cpu, "program": program, "interface": "down0"}
            return {**place, "frames": which, "seconds": seconds, "once": once}

        fresh = itertools.count(10_000, 2 * OPENINGS)

        def new(cpu: int, side: int) -> Report:
            return order(cpu, frames(side, next(fresh), OPENINGS), True)

        for _ in range(repeat):
            arrangements = {
                "alone0": [order(0, own[0])],
                "alone1": [order(1, own[1])],
                "different": [order(0, own[0]), order(1, own[1])],
                "same": [order(0, own[0]), order(1, own[0])],
            }
            if mode == "nat64":
                arrangements |= {
                    "opening": [new(0, 0)],
                    "opening_two_nodes": [new(0, 0), new(1, 1)],
                    "opening_one_node": [new(0, 0), new(1, 0)],
                }
            names = list(arrangements)
            draw.shuffle(names)
            found["rounds"].append({name: testrun.at_once(network.router, arrangements[name]) for name in names})
        found["counters"] = daemon.counters()
    return found
