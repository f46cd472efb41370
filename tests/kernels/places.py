# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every program of every mode, placement and hook: loaded with a real configuration, met by packets, taken off again.

A program without its configuration is another program to the verifier, so nothing here loads an object as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CLONE / "tests/e2e"))

import nat64  # noqa: E402
import siit  # noqa: E402
from conftest import program, standing  # noqa: E402
from kernel import HOOKS, remains  # noqa: E402
from marks import Tap  # noqa: E402
from network import SERVER4, WELL_KNOWN_PREFIX, Network, Running  # noqa: E402
from pktgen import PktgenNetwork  # noqa: E402
from stateful import left  # noqa: E402
from test_marks import LABELS, MIX, Sender, mingle  # noqa: E402

PINGS = 3
IDENTIFIER = "4242"
FRAMES = 200
MISSING = 3


def clat(hook: str) -> None:
    """A CLAT."""
    with standing(lambda: Network(program())) as net:
        config = net.scratch / "clat.toml"
        config.write_text(f'[translator]\ndatapath = "tc"\nhook = "{hook}"\n')
        running = net.clat("tc", "--pref64", WELL_KNOWN_PREFIX, "--config", str(config))
        expect(net, running, hook, net.client, SERVER4)
        expect_nothing(running.stop(), remains(net))


def router(mode: str, placement: str, hook: str) -> None:
    """A router's translator."""
    kind, config = (siit.SiitNetwork, siit.CONFIG) if mode == "siit" else (nat64.Nat64Network, nat64.CONFIG)
    with standing(lambda: kind(program(), datapath="tc" if placement == "device" else placement)) as net:
        net.configure(config.replace("[translator]\n", f'[translator]\nhook = "{hook}"\n'))
        running = net.siit(command=mode)
        expect(net, running, hook, net.v6, siit.V4_IN_IPV6)
        expect_nothing(running.stop(), left(net))


def marks(hook: str) -> None:
    """Packets of several sockets, most of which the slow path translates, keep their marks and priorities."""
    with standing(lambda: Network(program())) as net:
        running = net.clat(
            "tun" if hook == "tun" else "tc", "--config", str(with_hook(net, hook)), "--pref64", WELL_KNOWN_PREFIX
        )
        tap = Tap(net.client, "wan0")
        senders = [Sender(net.client, *label).mark() for label in LABELS[:2]]
        mingle(senders, SERVER4, MIX, tap)
        for end in (*senders, tap):
            end.close()
        assert not tap.wrong, tap.wrong[:3]
        expect_nothing(running.stop(), remains(net))


def with_hook(net: Network, hook: str) -> Path:
    """A file that says which hook, which may be that of no fast path."""
    config = net.scratch / "hook.toml"
    config.write_text("[translator]\n" if hook == "tun" else f'[translator]\nhook = "{hook}"\n')
    return config


def generator() -> None:
    """The packet generator's three programs. A guest's clock may stand still, so nothing is said of times."""
    cpu = str(max(os.sched_getaffinity(0)))
    with standing(lambda: PktgenNetwork(program())) as net, net.relaying(lambda _, frame: [frame]):
        report = net.measure("--rate", "1k", "--count", str(FRAMES), "--watch-cpu", cpu)
    (direction,), (watched,) = report["directions"], report["watched"]
    assert direction["sent"]["path"] == "live-frames", direction["sent"]
    assert direction["received"]["received"] == FRAMES, direction["received"]
    assert watched["looks"] > 0, watched


def refused() -> None:
    """A hook that this kernel does not have: the refusal says which kernel has it, and nothing is left."""
    with standing(lambda: siit.SiitNetwork(program(), datapath="tc")) as net:
        net.configure(siit.CONFIG.replace("[translator]\n", '[translator]\nhook = "tcx"\n'))
        running = net.siit(ready=False)
        assert running.wait() == MISSING, running.log()
        assert "tcx came with Linux 6.6" in running.log(), running.log()
        assert not left(net), left(net)


def expect(net: Network, running: Running, hook: str, host: str, to: str) -> None:
    """The programs are at the hook and translate; nothing was dropped."""
    assert f"tc ({hook})" in running.log(), running.log()
    # The first echo request of a NAT64 makes the session, which is the slow path's; the programs know it a moment later.
    net.until(lambda: ping(net, host, to, 1) and fast(net) > 0)
    before = fast(net)
    answered = ping(net, host, to, PINGS)
    counters = net.counters()
    assert answered, f"pings were not answered: {seen(counters)}"
    assert fast(net) >= before + PINGS, seen(counters)
    dropped = {name: n for name, n in counters.items() if n and (".drop." in name or name.endswith("failed"))}
    assert not dropped, f"dropped: {dropped}"


def ping(net: Network, host: str, to: str, times: int) -> bool:
    """Ping from a host, with the same identifier each time; whether all were answered."""
    pinged = net.run(host, "ping", f"-c{times}", "-i0.2", "-W2", "-e", IDENTIFIER, to, check=False).stdout
    return f"{times} received" in pinged


def fast(net: Network) -> int:
    """Packets that the programs have translated, of the direction with fewer."""
    counters = net.counters()
    return min(counters["fast.translated_6to4"], counters["fast.translated_4to6"])


def expect_nothing(status: int, found: list[str]) -> None:
    """It ended well, and nothing is left."""
    assert status == 0, f"it ended with {status}"
    assert not found, f"left: {found}"


def seen(counters: dict[str, int]) -> str:
    """The counters that are not zero."""
    return str({name: n for name, n in counters.items() if n})


def checks() -> Iterator[tuple[str, Callable[[], None]]]:
    """Each with its name."""
    yield "marks tun", lambda: marks("tun")
    for hook in HOOKS:
        yield f"marks {hook}", lambda hook=hook: marks(hook)
        yield f"clat {hook}", lambda hook=hook: clat(hook)
        for mode in ("siit", "nat64"):
            for placement in ("device", "inline", "direct"):
                yield f"{mode} {placement} {hook}", lambda a=(mode, placement, hook): router(*a)
    yield "generator, sink and witness", generator
    if "tcx" not in HOOKS:
        yield "tcx is refused", refused


def main() -> int:
    """Each check, one line; with an argument, those whose names have it."""
    failed = 0
    for name, check in checks():
        if not all(word in name for word in sys.argv[1:]):
            continue
        try:
            check()
            print("ok", name, flush=True)
        except Exception as error:
            failed += 1
            print("FAIL", name, flush=True)
            print(f"--- {name}\n{error}", file=sys.stderr, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
