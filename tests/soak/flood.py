# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a flood costs a flow that is there already.

    .venv/bin/python tests/soak/flood.py --rate 50000        as root, after `make build`

    a TCP flow through the translator, for the whole time ─► blocks in random order: quiet, control, floods ─► medians

The flood is made on the same CPUs. So there is a control: as many packets of the same size, which the kernel forwards to
nowhere without the translator. Between `quiet` and `control` lies what making and forwarding them costs, between `control`
and a flood what the translator adds.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from conftest import ROUTER_DATAPATHS, program, standing
from nat64 import CONFIG, POOL, Nat64Network
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from siit import V4_IN_IPV6
from test_nat64_faults import Frames

BLOCK_S, SETTLE_S, STEP_S = 3.0, 0.75, 0.5
PACKETS = 5000
NOWHERE4, NOWHERE6 = "198.18.66.0/24", "2001:db8:bad::/64"

# Sends frames of a file, each as long as its first two bytes say, so many a second, for so long; no two have the same
# ports. (Their checksums are then wrong, which only whoever receives them would see.)
SENDER = """
import socket, sys, time
path, head, rate, seconds = sys.argv[1], bytes.fromhex(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
data, frames, at = open(path, "rb").read(), [], 0
while at < len(data):
    length = int.from_bytes(data[at : at + 2])
    frames.append(bytearray(head + data[at + 2 : at + 2 + length]))
    at += 2 + length
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind(("a0", 0))
ports = 54 if head.endswith(b"\\x86\\xdd") else 34
begin, sent, number = time.monotonic(), 0, int(sys.argv[5])
while (now := time.monotonic() - begin) < seconds:
    for _ in range(max(0, int(now * rate) - sent)):
        frame = frames[sent % len(frames)]
        number = (number + 2654435761) & 0xFFFFFFFF
        frame[ports : ports + 4] = number.to_bytes(4)
        sock.send(frame)
        sent += 1
    time.sleep(0.001)
print(sent)
"""


def floods(chance: random.Random) -> dict[str, list]:
    """Packets of each kind; what they open is more than the tables take."""

    def nodes() -> str:
        return str(IPv6Address("2001:db8:8::") + (chance.randrange(5000) << 64) + chance.randrange(9))

    def strangers() -> str:
        return str(IPv4Address("203.0.113.0") + chance.randrange(256))

    def pooled() -> str:
        return str(IPv4Address(POOL.split("/")[0]) + chance.randrange(8))

    def port() -> int:
        return chance.randrange(1024, 65536)

    one = "2001:db8:7::2"
    kinds = {
        "control of IPv6": lambda: IPv6(src=nodes(), dst="2001:db8:bad::1") / TCP(sport=port(), dport=port(), flags="S"),
        "SYNs of many nodes": lambda: IPv6(src=nodes(), dst=V4_IN_IPV6) / TCP(sport=port(), dport=port(), flags="S"),
        "scan by many nodes": lambda: IPv6(src=nodes(), dst=V4_IN_IPV6) / UDP(sport=port(), dport=port()) / b"scan-of-udp.",
        "scan by one node": lambda: IPv6(src=one, dst=V4_IN_IPV6) / UDP(sport=port(), dport=port()) / b"scan-of-udp.",
        "control of IPv4": lambda: IP(src=strangers(), dst="198.18.66.1") / TCP(sport=port(), dport=port(), flags="S"),
        "scan from IPv4": lambda: IP(src=strangers(), dst=pooled()) / UDP(sport=port(), dport=port()) / b"scan-of-udp.",
        "SYNs from IPv4": lambda: IP(src=strangers(), dst=pooled()) / TCP(sport=port(), dport=port(), flags="S"),
    }
    return {kind: [bytes(make()) for _ in range(PACKETS)] for kind, make in kinds.items()}


class Flow:
    """A TCP flow and what arrives of it, in steps of half a second."""

    def __init__(self, net: Nat64Network, seconds: float, options: list[str]) -> None:
        self.steps: list[tuple[float, float]] = []
        server = net.start(net.v4, "iperf3", "-s", "-1", "-i", str(STEP_S), "-f", "m", "--forceflush",
                           stdout=subprocess.PIPE, text=True)  # fmt: skip
        net.until(lambda: ":5201" in net.run(net.v4, "ss", "-Hltn").stdout)
        net.start(net.v6, "iperf3", "-c", V4_IN_IPV6, "-t", str(round(seconds) + 2), *options, stdout=subprocess.DEVNULL)
        threading.Thread(target=self.listen, args=(server.stdout,), daemon=True).start()
        net.until(lambda: len(self.steps) > 3)

    def listen(self, lines) -> None:
        for line in lines:
            if found := re.search(r"-\s*[\d.]+\s+sec\s.*\s([\d.]+) Mbits/sec", line):
                self.steps.append((time.monotonic(), float(found[1])))

    def between(self, begin: float, end: float) -> list[float]:
        """Mbit/s of the steps that lie in this time as a whole."""
        return [rate for at, rate in self.steps if begin + STEP_S <= at <= end]


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=20_000, help="packets of the flood a second")
    parser.add_argument("--max-sessions", type=int, default=4_000_000, help="few: most of a flood is refused")
    parser.add_argument("--blocks", type=int, default=3, help="how often each kind has its turn")
    parser.add_argument("--pace", default="0", help="the flow's own limit, as iperf3 -b: 1G; 0: none")
    parser.add_argument("--only", action="append", metavar="KIND", help="of the floods those that begin so")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--datapath", choices=ROUTER_DATAPATHS, default="tc")
    return parser.parse_args()


def cpu_s(pid: int) -> float:
    """CPU time that a process has had so far."""
    # The name, which stands in front, may have spaces: utime and stime are the 12th and 13th behind it.
    utime, stime = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(utime) + int(stime)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Prints the medians."""
    asked = arguments()
    chance = random.Random(asked.seed)
    packets = {kind: made for kind, made in floods(chance).items() if kind.startswith(("control", *(asked.only or [""])))}
    seen, sent, spent = defaultdict(list), defaultdict(list), defaultdict(list)
    with standing(lambda: Nat64Network(program(), datapath=asked.datapath)) as net:
        net.run(net.translator, "ip", "route", "add", "blackhole", NOWHERE4)
        net.ip(net.translator, "route", "add", "blackhole", NOWHERE6)
        translator = net.nat64(CONFIG.replace("[[nat64", f"[nat64]\nmax_sessions = {asked.max_sessions}\n[[nat64", 1))
        heads = {4: Frames(net, "v4").head.hex(), 6: Frames(net, "v6").head.hex()}
        for kind, made in packets.items():
            (net.scratch / kind).write_bytes(b"".join(len(packet).to_bytes(2) + packet for packet in made))
        order = [kind for _ in range(asked.blocks) for kind in chance.sample(["quiet", *packets], len(packets) + 1)]
        spare = len(order)
        flow = Flow(net, (len(order) + spare) * BLOCK_S + 2, ["-b", asked.pace])
        distrusted = 0
        while order and distrusted < spare:
            kind = order.pop(0)
            begin, before = time.monotonic(), cpu_s(translator.process.pid)
            rate = 0.0
            if kind == "quiet":
                time.sleep(BLOCK_S)
            else:
                is_ipv6 = packets[kind][0][0] >> 4 == 6
                how = (
                    str(net.scratch / kind),
                    heads[6 if is_ipv6 else 4],
                    str(asked.rate),
                    str(BLOCK_S),
                    str(chance.getrandbits(32)),
                )
                rate = int(net.script(net.v6 if is_ipv6 else net.v4, SENDER, *how)) / BLOCK_S
            steps = flow.between(begin + SETTLE_S, time.monotonic())
            # Somebody else had the machine, or it was not fast enough.
            if len(steps) < (BLOCK_S - SETTLE_S) / STEP_S - 2 or (kind != "quiet" and rate < 0.95 * asked.rate):
                distrusted += 1
                order.append(kind)
                continue
            seen[kind].append(statistics.mean(steps))
            sent[kind].append(rate)
            spent[kind].append((cpu_s(translator.process.pid) - before) / (time.monotonic() - begin))
        print(f"{distrusted} blocks were distrusted")
        counters = {name: n for name, n in net.counters().items() if n and not name.startswith("fast.")}
    report(packets, seen, sent, spent)
    print(counters)


def report(packets: dict[str, list], *measured: dict[str, list[float]]) -> None:
    """Of each kind what arrived of the flow, Mbit/s, beside what arrived when it was quiet, and beside its control; and what
    part of a CPU the daemon took."""
    seen, sent, spent = measured
    quiet = statistics.median(seen["quiet"])
    print(f"{'':22}{'Mbit/s':>8}{'of quiet':>10}{'lowest':>8}{'highest':>8}{'packets/s':>11}{'daemon':>8}")
    for kind in ["quiet", *packets]:
        median = statistics.median(seen[kind])
        rate, daemon = statistics.median(sent[kind]), statistics.median(spent[kind])
        ends = f"{min(seen[kind]):8.0f}{max(seen[kind]):8.0f}"
        print(f"{kind:22}{median:8.0f}{median / quiet:10.3f}{ends}{rate:11.0f}{daemon:8.1%}")
    for kind, made in packets.items():
        control = "control of IPv6" if made[0][0] >> 4 == 6 else "control of IPv4"
        if kind != control:
            print(f"{kind}: {statistics.median(seen[kind]) / statistics.median(seen[control]):.3f} of its control")


if __name__ == "__main__":
    main()
