# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos clat-manager`: CLATs that come and go by order, and NetworkManager's script that orders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import varlink
from conftest import ROOT
from kernel import remains
from network import PATIENCE, SERVER4, Network, Running
from test_clat_faults import RUN_TIME, USAGE, one_sentence

INTERFACE = "org.diolkos.Clat"
SCRIPT = ROOT / "packaging/networkmanager/90-diolkos-clat"
PREFIX = "64:ff9b::/96"


def manager(net: Network) -> Running:
    """A manager in the client's namespace that takes orders."""
    log = net.scratch / "log-manager"
    with log.open("w") as sink:
        running = Running(net.start(net.client, str(net.program), "clat-manager", stderr=sink), log)
    net.until(lambda: " ready: " in running.log() or running.process.poll() is not None)
    assert running.process.poll() is None, running.log()
    return running


def order(net: Network, *arguments: str) -> str:
    """What an order prints; it succeeds."""
    return net.run(net.client, str(net.program), "clat-manager", *arguments).stdout


def listed(net: Network) -> list[dict]:
    """All CLATs."""
    return json.loads(order(net, "list", "--json"))["clats"]


def until_ready(net: Network) -> dict:
    """The only CLAT, once IPv4 can pass."""
    net.until(lambda: [clat["state"] for clat in listed(net)] == ["ready"])
    return listed(net)[0]


def pings(net: Network) -> bool:
    """Whether the server is there by IPv4."""
    done = net.run(net.client, "ping", "-c", "1", "-W", "2", SERVER4, check=False)
    return done.returncode == 0


def test_up_and_down(net: Network) -> None:
    """IPv4 comes with the one and goes with the other."""
    running = manager(net)
    assert listed(net) == []
    order(net, "up", "wan0", "--pref64", PREFIX)
    clat = until_ready(net)
    expected = {"interface": "wan0", "device": "diolkos0", "v4": "192.0.0.1", "prefixes": [PREFIX], "obstacles": []}
    assert expected.items() <= clat.items()
    assert pings(net)
    # The same order again changes nothing.
    net.ip(net.client, "link", "set", "diolkos0", "alias", "the same")
    order(net, "up", "wan0", "--pref64", PREFIX)
    assert "alias the same" in net.ip(net.client, "link", "show", "diolkos0")
    # Another one replaces it.
    order(net, "up", "wan0", "--pref64", PREFIX, "--metric", "77")
    until_ready(net)
    assert "metric 77" in net.ip(net.client, "-4", "route", "show", "default")
    order(net, "down", "wan0")
    assert (listed(net), remains(net)) == ([], [])
    # There is nothing to end.
    order(net, "down", "wan0")
    assert running.stop() == 0
    assert remains(net) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_clats_end_with_their_manager(net: Network, how: signal.Signals) -> None:
    """However that ends; and the next manager starts on clean ground."""
    running = manager(net)
    order(net, "up", "wan0", "--pref64", PREFIX)
    until_ready(net)
    running.stop(how)
    net.until(lambda: remains(net) == [])
    running = manager(net)
    order(net, "up", "wan0", "--pref64", PREFIX)
    until_ready(net)
    assert running.stop() == 0
    assert remains(net) == []


def test_a_clat_that_is_killed_comes_back(net: Network) -> None:
    """The manager tells of both."""
    manager(net)
    order(net, "up", "wan0", "--pref64", PREFIX)
    until_ready(net)
    command = ("clat-manager", "list", "--follow", "--json")
    follower = net.start(net.client, str(net.program), *command, stdout=subprocess.PIPE, text=True)
    assert json.loads(follower.stdout.readline())["clats"][0]["state"] == "ready"
    status = net.status()
    os.kill(status["pid"], signal.SIGKILL)
    told = json.loads(follower.stdout.readline())["clats"][0]
    assert (told["state"], told["obstacles"]) == ("failed", ["it was killed"])
    until_ready(net)
    assert pings(net)


def test_what_cannot_run_says_why(net: Network) -> None:
    """A missing uplink may come; a wrong order is refused at once."""
    manager(net)
    order(net, "up", "absent0", "--pref64", PREFIX)
    net.until(lambda: listed(net)[0]["state"] == "failed")
    assert "absent0" in listed(net)[0]["obstacles"][0]
    order(net, "down", "absent0")
    for wrong in (("up", "a/b"), ("up", "wan0", "--pref64", "2001:db8::/95")):
        done = net.run(net.client, str(net.program), "clat-manager", *wrong, check=False)
        assert done.returncode == USAGE, done.stderr
    assert listed(net) == []


def test_without_a_manager(net: Network) -> None:
    """An order has nobody to go to, and says so."""
    done = net.run(net.client, str(net.program), "clat-manager", "up", "wan0", check=False)
    assert done.returncode == RUN_TIME
    assert "no diolkos runs" in one_sentence(done.stderr.strip())
    assert "clat-manager" in done.stderr


def test_the_interface(net: Network) -> None:
    """By a client that we did not write."""
    manager(net)
    at = net.run(net.client, str(net.program), "show", "socket", "--device", "clat-manager").stdout.strip()
    with varlink.Client(f"unix:{at}").open(INTERFACE) as manages:
        clat = manages.Up("wan0", PREFIX, None, None)["clat"]
        assert (clat["device"], clat["state"]) == ("diolkos0", "starting")
        assert [clat["interface"] for clat in manages.List()["clats"]] == ["wan0"]
        assert manages.Down("wan0") == {}
        with pytest.raises(varlink.VarlinkError) as error:
            manages.Down("wan0")
        assert error.value.error() == f"{INTERFACE}.NotUp"
    assert remains(net) == []


# --- NetworkManager's script, called as NetworkManager-dispatcher(8) says

IPV6_ONLY = {"IP6_NUM_ADDRESSES": "1", "IP6_GATEWAY": "fe80::1", "CONNECTION_UUID": "a-b-c"}


def dispatch(
    net: Network, interface: str, event: str, variables: dict[str, str], clat: str | None = None
) -> subprocess.CompletedProcess:
    """Calls the script, which succeeds. `clat`: what NetworkManager answers for `ipv4.clat`; None: it knows no such key."""
    tools = net.scratch / "tools"
    tools.mkdir(exist_ok=True)
    answer = f"echo {clat}" if clat is not None else "echo 'invalid property' >&2; exit 2"
    (tools / "nmcli").write_text(f"#!/bin/sh\n{answer}\n")
    (tools / "nmcli").chmod(0o755)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "DIOLKOS": str(net.program), **variables}
    words = [f"{key}={value}" for key, value in environment.items()]
    return net.run(net.client, "env", "-i", *words, str(SCRIPT), interface, event)


def test_the_script_of_networkmanager(net: Network) -> None:
    """A CLAT is there as long as the interface has IPv6 alone, and NetworkManager none of its own."""
    manager(net)

    def uplinks() -> list[str]:
        return [clat["interface"] for clat in listed(net)]

    dispatch(net, "wan0", "up", IPV6_ONLY)
    assert uplinks() == ["wan0"]
    dispatch(net, "diolkos0", "up", IPV6_ONLY)
    dispatch(net, "wan0", "pre-up", {})
    assert uplinks() == ["wan0"]
    dispatch(net, "wan0", "dhcp4-change", {**IPV6_ONLY, "IP4_NUM_ADDRESSES": "1"})
    assert uplinks() == []
    for own in ("yes", "auto", "force"):
        dispatch(net, "wan0", "up", IPV6_ONLY, own)
        assert uplinks() == []
    for none in ("no", "default"):
        dispatch(net, "wan0", "up", IPV6_ONLY, none)
        assert uplinks() == ["wan0"]
    dispatch(net, "wan0", "up", {"IP6_NUM_ADDRESSES": "1"})
    assert uplinks() == [], "without a router, there is no way"
    dispatch(net, "wan0", "up", IPV6_ONLY)
    dispatch(net, "wan0", "down", {})
    assert uplinks() == []


def test_the_script_without_a_manager(net: Network) -> None:
    """It succeeds and says nothing: it may be there before anybody has started a manager."""
    for event, variables in (("up", IPV6_ONLY), ("down", {}), ("dhcp4-change", IPV6_ONLY)):
        done = dispatch(net, "wan0", event, variables)
        assert (done.stdout, done.stderr) == ("", "")
    assert remains(net) == []


def test_the_script_is_plain_shell() -> None:
    """Of any POSIX shell."""
    assert subprocess.run(["sh", "-n", str(SCRIPT)], check=False, timeout=PATIENCE).returncode == 0
    assert Path(SCRIPT).stat().st_mode & 0o111 == 0o111
