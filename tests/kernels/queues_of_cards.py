# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Network cards (virtio-net) with more and with fewer queues than XDP asks for, under thousands of flows.

    m6 a0 ─► b6 (queues) ─ translator ─ b4 (queues) ─► a0 m4        each 4-tuple there, and an answer to each back

A flow stays in one queue of a card. So if each flow gets through, in both directions, no queue loses what it is given; and each
queue's own counter says that it was given some (with XDP). What a busy host loses is sent again: a queue would lose it again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator

from cabling import MANY, MANY_QUEUES, TWO
from card_network import CLONE, CardNetwork, Lacking
from conftest import program, standing
from nat64 import POOL
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED

FLOWS = 1024
RATE = "2k"  # of an emulated processor
ROUNDS = 20  # until each has got through
PATIENCE_S = 240
CPUS = 2
# Since 6.10 the driver counts here only what XDP programs saw.
RX = re.compile(r"^\s*rx(?:_queue_)?(\d+)_xdp_packets: (\d+)$", re.MULTILINE)


def received(net: CardNetwork, card: str) -> dict[int, int]:
    """Packets that a program saw in the driver, by queue."""
    said = net.run(net.translator, "ethtool", "-S", card).stdout
    assert RX.search(said), said
    return {int(number): int(packets) for number, packets in RX.findall(said)}


def crossing(net: CardNetwork, mode: str) -> dict:
    """Each flow there and back; what the generator says."""
    pktgen = program().with_name("diolkos-pktgen")
    source, target = (V6, V4_IN_IPV6) if mode == "nat64" else (V4, V6_MAPPED)
    back = (V4, POOL.partition("/")[0]) if mode == "nat64" else (V6, V4_IN_IPV6)
    near, far = (net.v6, net.v4) if mode == "nat64" else (net.v4, net.v6)
    sizes = ("84", "64") if mode == "nat64" else ("64", "84")
    command = [
        *(str(pktgen), "connect", "--from", f"{near}:a0", "--to", f"{far}:a0", "--src", source, "--dst", target),
        *("--size", sizes[0], "--back-src", back[0], "--back-dst", back[1], "--back-size", sizes[1]),
        *("--sessions", str(FLOWS), "--rate", RATE, "--rounds", str(ROUNDS)),
        *("--answer-rate", RATE, "--answer-rounds", str(ROUNDS)),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def carries(net: CardNetwork, mode: str, placement: str, *words: str) -> None:
    """Thousands of flows both ways, by all queues, and nothing is wrong with any."""
    net.place(mode, placement)
    running = net.siit(command=mode)
    said = running.log()
    for word in words:
        assert word in said, said
    assert words or "under locks" not in said, said
    cards, asked = ("b6", "b4"), "b6" if mode == "nat64" else "b4"
    before = {card: received(net, card) for card in cards}
    report = crossing(net, mode)
    for phase in (report["opened"], report["answered"]):
        seen = phase["received"]
        assert (seen["received"], seen["corrupted"]) == (FLOWS, 0), report
        assert (phase["astray"], phase["corrupted_unattributed"]) == (0, 0), report
    for card in cards if placement == "xdp" else ():
        gained = {number: packets - before[card].get(number, 0) for number, packets in received(net, card).items()}
        assert sum(gained.values()) >= FLOWS, f"{card}: {gained}"
        # A TAP spreads flows that it has not seen. Those that it has seen leave it by the queue that sent them.
        idle = [number for number in range(int(net.channels()[1])) if not gained.get(number)]
        assert card != asked or not idle, f"{card}: {gained}"
        print(f"  {card}, packets by queue: {gained}")
    counters = net.counters()
    assert not {name: n for name, n in counters.items() if n and (".drop." in name or name.endswith("failed"))}, counters
    by = counters["fast.sent_xdp" if placement == "xdp" else "fast.sent_direct"]
    # The controller opens sessions of a NAT64 whose first packets no lease covers.
    assert by >= FLOWS, {name: n for name, n in counters.items() if n}
    assert running.stop() == 0, running.log()
    print(f"  {mode} {placement}: by programs {by}\n{running.log()}")


def with_queues(net: CardNetwork, queues: int) -> None:
    """Of the translator's cards, which have eight. (At a host's card, the generator's frames would make Linux 6.12 panic.)"""
    assert net.channels()[0] == str(MANY_QUEUES), net.channels()
    for card in ("b4", "b6"):
        net.run(net.translator, "ethtool", "-L", card, "combined", str(queues))


def two(net: CardNetwork) -> None:
    """One for each CPU is in use, and the others are XDP's."""
    with_queues(net, CPUS)
    carries(net, "nat64", "xdp")


def four(net: CardNetwork) -> None:
    """More than CPUs, and enough are left."""
    with_queues(net, 4)
    carries(net, "siit", "xdp")
    carries(net, "nat64", "direct")


def eight(net: CardNetwork) -> None:
    """None is left for XDP, which the program says and does not try; programs at tc need none."""
    with_queues(net, MANY_QUEUES)
    said = net.refusal("xdp")
    assert f"of b4: it uses {MANY_QUEUES} of its {MANY_QUEUES} channels" in said, said
    assert f"`ethtool -L b4 combined {CPUS}`" in said, said
    carries(net, "siit", "direct")


def only_two(net: CardNetwork) -> None:
    """A card that has no queue for XDP: CPUs share those that there are, which the log says."""
    carries(net, "nat64", "xdp", "under locks, because 2 of its 2 channels are in use: ")


def checks() -> Iterator[tuple[str, tuple[str, ...], Callable[[CardNetwork], None]]]:
    """Each with its name and its cards."""
    yield "two of eight queues", tuple(MANY), two
    yield "four of eight queues", tuple(MANY), four
    yield "eight of eight queues", tuple(MANY), eight
    yield "two of two queues", tuple(TWO), only_two


def main() -> int:
    """Each check, one line."""
    failed = 0
    for name, cards, check in checks():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        try:
            with standing(lambda cards=cards: CardNetwork(program(), datapath="tc", cards=cards)) as net:
                failed += not passes(net, name, check)
        except Lacking as why:
            print(f"skip {name}: {why}", flush=True)
    return failed > 0


def passes(net: CardNetwork, name: str, check: Callable[[CardNetwork], None]) -> bool:
    """Whether it does. What runs is ended before the network goes."""
    try:
        check(net)
    except Exception:
        print("FAIL", name, flush=True)
        print(f"--- {name}\n{traceback.format_exc()}", flush=True)
        for process in net.running:
            process.terminate()
            process.wait()
        return False
    print("ok", name, flush=True)
    return True


if __name__ == "__main__":
    sys.path.insert(0, str(CLONE / "tests/e2e"))
    sys.exit(main())
