# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A million sessions of 65 536 nodes through a NAT64, while 20 000 others begin each second, and as many expire.

    .venv/bin/python tests/soak/million.py --datapath xdp            as root, after `make build`; five minutes

    sessions opened and answered ─► load: packets of all of them, new sessions, one steady flow ─► what each end saw, and why

diolkos-pktgen sends. At both ends `witness.c` says whose each packet is, and the far end answers each. The exit code is 1 if a
session changed its external port or shared it, if an answer reached another node, if an established session lost packets that
the machine cannot have lost, if there were more sessions than `max_sessions`, if memory exceeded what docs/scale.md says, or
if the counters do not add up. First packets that are lost are reported.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from conftest import ROUTER_DATAPATHS, program, standing
from nat64 import TRANSLATOR, Nat64Network
from siit import V4_IN_IPV6, V6

SOURCES = "2001:db8:8::/112"  # 65 536 nodes
POOL = "192.0.2.0/24"
LIFETIME_S = 120  # of a UDP session, the least that RFC 4787 REQ-5 allows
SERVICE = 4000
# Source ports: of the established sessions from here on, then of the new ones, then of the steady flow. Each once a node.
LOWEST, NEW, STEADY = 1024, 1104, 1279
ESTABLISHED_STREAM, NEW_STREAM, STEADY_STREAM = range(3)
NAMES = ("established", "new", "steady")
PASSES = 6  # until every session is open and was answered
OPENING_RATE = 40_000
# docs/scale.md: bytes of the program for each UDP session, and for each that max_sessions allows; and all else.
BYTES, BYTES_ALLOWED, ELSE = 61, 54, 96 << 20
SPARE = 1 << 10  # packets that hosts send of themselves


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=20_000, help="packets a second of the established sessions")
    parser.add_argument("--new-rate", type=int, default=20_000, help="sessions that begin a second")
    parser.add_argument("--steady-rate", type=int, default=1000, help="packets a second of the flow that is there all the time")
    parser.add_argument("--seconds", type=int, default=210, help=f"of load; new sessions expire after {LIFETIME_S}")
    parser.add_argument("--max-sessions", type=int, default=12_000_000, help="programs open sessions up to a third of it")
    parser.add_argument("--datapath", choices=ROUTER_DATAPATHS, default="xdp")
    return parser.parse_args()


def config(max_sessions: int) -> str:
    """No node or link has a share of its own: they are all of one link."""
    return f"""{TRANSLATOR}
[nat64]
max_sessions = {max_sessions}
max_bindings = {max_sessions}
max_sessions_per_source = {max_sessions}
max_bindings_per_source = {max_sessions}
host_share = 100
source_share = 100
site_share = 100

[[nat64.pool4]]
address = "{POOL}"

[nat64.timeouts]
udp = {LIFETIME_S}
"""


class Witness:
    """`witness.c` at one end."""

    def __init__(self, net: Nat64Network, name: str, built: Path, *words: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = net.start(name, str(built), *words, **pipes)
        assert json.loads(self.process.stdout.readline()) == {"ready": True}

    def report(self) -> dict:
        """What came since the last report."""
        self.process.stdin.write("\n")
        return json.loads(self.process.stdout.readline())


@dataclass
class Senders:
    """diolkos-pktgen in the namespace of the nodes."""

    net: Nat64Network

    def start(self, stream: int, rate: int, *options: str) -> subprocess.Popen:
        """One stream. It sleeps between two packets, so that it leaves the CPUs to others."""
        source = V6 if stream == STEADY_STREAM else SOURCES
        where = ("--interface", "a0", "--src", source, "--dst", V4_IN_IPV6, "--dport", str(SERVICE), "--stream", str(stream))
        command = (
            str(program().with_name("diolkos-pktgen")),
            "send",
            *where,
            "--rate",
            str(rate),
            "--path",
            "packet",
            *options,
        )
        return self.net.start(self.net.v6, *command, stdout=subprocess.PIPE, text=True)

    def sent(self, process: subprocess.Popen, seconds: float) -> int:
        """Of a stream, once it has ended."""
        out, _ = process.communicate(timeout=2 * seconds + 60)
        assert process.returncode == 0, out
        return json.loads(out.splitlines()[-1])["sent"]


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def machine_lost(net: Nat64Network) -> Counter:
    """Packets that links, and the queues of CPUs, have dropped so far; those of the slow path's device apart. What a host's own
    link does not take, its sender is told and counts."""
    lost: Counter = Counter()
    for name in (net.v4, net.translator, net.v6):
        for link in net.ip_json(name, "-s", "link"):
            ways = ("rx", "tx") if name == net.translator else ("rx",)
            dropped = sum(link["stats64"][way]["dropped"] for way in ways)
            lost["device" if link["ifname"].startswith("diolkos") else "machine"] += dropped
    rows = Path("/proc/net/softnet_stat").read_text().splitlines()
    lost["machine"] += sum(int(row.split()[1], 16) for row in rows)
    return lost


def told(net: Nat64Network) -> Counter | None:
    """Diolkos' counters; None where it says that it is too busy to tell them."""
    try:
        return Counter(net.counters())
    except AssertionError as error:
        if "busy" not in str(error):
            raise
        return None


def counted(net: Nat64Network) -> Counter:
    """The same, asked until it tells them."""
    for _ in range(PASSES):
        if (found := told(net)) is not None:
            return found
    raise AssertionError(f"diolkos did not tell its counters, {PASSES} times, although nothing is sent")


def opened(net: Nat64Network, sessions: int, far: Witness, near: Witness) -> int:
    """Every session is open and was answered; packets lost until then."""
    senders, lost = Senders(net), 0
    senders.sent(senders.start(STEADY_STREAM, 100, "--sport", str(STEADY), "--count", "10"), 1)
    for _ in range(PASSES):
        amount = ("--flows", str(sessions), "--sport", f"{LOWEST}-{NEW - 1}", "--count", str(sessions))
        sent = senders.sent(senders.start(ESTABLISHED_STREAM, OPENING_RATE, *amount), sessions / OPENING_RATE)
        settle(net)
        out, back = far.report(), near.report()
        lost += sent - out["received"][ESTABLISHED_STREAM]
        print(f"  {out['known']} sessions arrived, {back['known']} were answered; {lost} packets lost", flush=True)
        if back["known"] == sessions:
            return lost
    raise AssertionError(f"not every session was answered after {PASSES} passes")


def settle(net: Nat64Network) -> None:
    """Wait until nothing moves any more."""
    last = -1

    def is_still() -> bool:
        nonlocal last
        before, last = last, sum(counted(net).values())
        return before == last

    net.until(is_still, 60)


def load(net: Nat64Network, asked: argparse.Namespace, pid: int) -> tuple[list[int], int, int]:
    """All three streams; what was sent, and the most sessions and memory that were seen."""
    senders, most, memory, untold, looks = Senders(net), 0, 0, 0, 0
    streams = (
        (asked.rate, ("--flows", str(asked.sessions), "--sport", f"{LOWEST}-{NEW - 1}")),
        (asked.new_rate, ("--flows", "unique", "--sport", f"{NEW}-{STEADY - 1}")),
        (asked.steady_rate, ("--sport", str(STEADY))),
    )
    begun = [senders.start(at, rate, "--seconds", str(asked.seconds), *more) for at, (rate, more) in enumerate(streams)]
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        time.sleep(5)
        memory, looks, found = max(memory, resident(pid)), looks + 1, told(net)
        most = max(most, found["state.sessions"]) if found else most
        untold += found is None
    sent = [senders.sent(process, asked.seconds) for process in begun]
    settle(net)
    print(f"diolkos was too busy to tell its counters {untold} of {looks} times", flush=True)
    return sent, most, memory


def judge(asked: argparse.Namespace, sent: list[int], out: dict, back: dict, seen: Counter, lost: Counter) -> list[str]:
    """What is not as it must be."""
    faults = [
        f"{count} packets: {what} ({end} end)"
        for end, report in (("far", out), ("near", back))
        for name, what in (
            ("moved", "a session has another place"),
            ("taken", "a place of another session that lives"),
            ("wrong", "a port that is none of its stream's"),
            ("damaged", "a wrong checksum"),
            ("twice", "more than one copy"),
        )
        if (count := report[name])
    ]
    dropped = {name: n for name, n in seen.items() if ".drop." in name or name.endswith("failed")}
    machine = lost["machine"] + out["unread"] + back["unread"] + out["unsent"]
    for at in (ESTABLISHED_STREAM, STEADY_STREAM):
        missing = sent[at] - back["received"][at]
        if missing > machine:
            faults.append(f'{missing} packets of the stream "{NAMES[at]}" or their answers are lost, {machine} by the machine')
    # Each packet is translated, dropped under a name, or lost by a queue; each that is translated arrives, or a queue loses it.
    for way, into, arrived in (
        ("6to4", sum(sent), sum(out["received"])),
        ("4to6", sum(out["received"]), sum(back["received"])),
    ):
        translated = seen[f"fast.translated_{way}"] + seen[f"slow.translated_{way}"]
        if not arrived <= translated <= into + SPARE:
            faults.append(f"{way}: {into} were sent, {translated} translated, {arrived} arrived")
        if into - translated > sum(dropped.values()) + machine + lost["device"]:
            faults.append(
                f"{way}: {into} were sent, {translated} translated, and {dropped} and {dict(lost)} do not explain the rest"
            )
        if translated - arrived > machine + SPARE:
            faults.append(f"{way}: {translated} were translated and {arrived} arrived; the machine lost {machine}")
    return faults


def main() -> int:
    """Prints what was measured, and what is not as it must be; 1 if anything."""
    asked = arguments()
    with standing(lambda: Nat64Network(program(), datapath=asked.datapath)) as net:
        built = net.scratch / "witness"
        source = Path(__file__).with_name("witness.c")
        subprocess.run(["cc", "-O2", "-o", str(built), str(source)], check=True)
        running = net.nat64(config(asked.max_sessions))
        net.batch(net.translator, f"route add {SOURCES} via {V6}")
        for link in ("b4", "b6"):  # packets reach the hosts as by a wire: one by one, and with their checksums
            net.run(net.translator, "ethtool", "-K", link, "tx", "off", "gso", "off", "tso", "off")
        for name in (net.v4, net.v6):  # nobody else answers
            net.run(name, "nft", "add table inet quiet; add chain inet quiet in { type filter hook input priority 0; }; "
                    "add rule inet quiet in meta l4proto udp drop")  # fmt: skip
        far = Witness(net, net.v4, built, "far", "a0", str(asked.sessions), str(LIFETIME_S))
        near = Witness(net, net.v6, built, "near", "a0", str(asked.sessions), str(NEW), str(STEADY - NEW))
        pid = running.process.pid
        print(f"{running.log().strip().splitlines()[-1]}\n{resident(pid) >> 20} MiB before", flush=True)
        opening = opened(net, asked.sessions, far, near)
        print(f"{counted(net)['state.sessions']} sessions, {resident(pid) >> 20} MiB; {opening} packets lost", flush=True)
        before, lost_before = counted(net), machine_lost(net)
        sent, most, memory = load(net, asked, pid)
        out, back = far.report(), near.report()
        seen, lost = counted(net), machine_lost(net)
        seen.subtract(before)
        lost.subtract(lost_before)
        faults = judge(asked, sent, out, back, seen, lost)
        bound = BYTES * most + BYTES_ALLOWED * asked.max_sessions + ELSE
        if most > asked.max_sessions:
            faults.append(f"{most} sessions are more than max_sessions, {asked.max_sessions}")
        if memory > bound:
            faults.append(f"{memory >> 20} MiB are more than {bound >> 20}, which docs/scale.md allows {most} sessions")
        assert running.stop() == 0, running.log()
    print(f"{'':12}{'sent':>10}{'arrived':>10}{'answered':>10}{'lost':>8}")
    for at, name in enumerate(NAMES):
        arrived, answered = out["received"][at], back["received"][at]
        print(f"{name:12}{sent[at]:10}{arrived:10}{answered:10}{sent[at] - arrived:8}")
    first = sent[NEW_STREAM] - out["received"][NEW_STREAM]
    slow = seen["slow.translated_6to4"]
    print(f"{sent[NEW_STREAM] / asked.seconds:.0f} sessions began a second")
    print(f"{first} first packets lost ({first / sent[NEW_STREAM]:.4%})")
    print(f"the program opened {(out['received'][NEW_STREAM] - slow) / sent[NEW_STREAM]:.1%} of the new sessions by itself")
    print(f"at most {most} sessions of {asked.max_sessions}; {memory >> 20} MiB of {bound >> 20}")
    print(f"lost by queues: {dict(lost)}; by the ends: {out['unread']}, {back['unread']}, {out['unsent']}")
    print({name: n for name, n in seen.items() if n})
    print(*(faults or ["As it must be."]), sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
