# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A stateful translator with a state file, and everything that it could leave."""

from __future__ import annotations

import signal
from pathlib import Path

from kernel import TCX_QUERY
from nat64 import Nat64Network
from network import Running

PINS = Path("/sys/fs/bpf/diolkos")


def state(nat64: Nat64Network) -> Path:
    """The state file of the test."""
    return nat64.scratch / "nat64.state"


def start(nat64: Nat64Network, text: str = "", *options: str, **more) -> Running:
    """Start the translator with the state file."""
    if text:
        nat64.configure(text)
    return nat64.siit("--state", str(state(nat64)), *options, command="nat64", **more)


def end(running: Running, how: signal.Signals) -> None:
    """End it; asked to, it succeeds."""
    assert running.stop(how) == (0 if how == signal.SIGTERM else -how)


def goes_on(nat64: Nat64Network) -> bool:
    """Whether the kernel translates without the program."""
    return nat64.datapath != "tun"


def left(nat64: Nat64Network) -> list[str]:
    """Everything that a translator could have left: device, routes, programs, pins, notes."""
    found = nat64.leftovers()
    for link in ("b4", "b6"):
        found += [f"qdisc on {link}"] * ("clsact" in nat64.run(nat64.translator, "tc", "qdisc", "show", "dev", link).stdout)
        count = nat64.script(nat64.translator, TCX_QUERY, link).strip()
        found += [f"{count} tcx programs on {link}"] * (count != "0")
    cookie = namespace_cookie(nat64)
    found += [str(path) for path in PINS.glob(f"{cookie}-*")]
    found += [str(path) for path in Path("/run/diolkos").glob(f"{cookie}/*")]
    return found


def namespace_cookie(nat64: Nat64Network) -> str:
    """The number of the translator's namespace (SO_NETNS_COOKIE)."""
    code = "import socket\ns = socket.socket()\nprint(int.from_bytes(s.getsockopt(1, 71, 8), 'little'))"
    return nat64.script(nat64.translator, code).strip()


def stop_for_good(nat64: Nat64Network) -> None:
    """Nothing is left then."""
    code, message = nat64.diolkos("stop")
    assert code == 0, message
    found = left(nat64)
    assert found == [], found
