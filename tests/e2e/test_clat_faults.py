# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What can go wrong: one clear sentence, the right exit code, a clean machine."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from kernel import forwarding, remains
from network import CLIENT6, ROUTER6, SERVER6, WELL_KNOWN_PREFIX, Network

RUN_TIME, USAGE, MISSING = 1, 2, 3
NO_BPF = ("setpriv", "--bounding-set", "-bpf,-sys_admin,-perfmon", "--inh-caps", "-bpf,-sys_admin,-perfmon")
NO_ROOT = ("setpriv", "--reuid", "65534", "--clear-groups")
NO_TUN = (
    *("unshare", "--mount", "--propagation", "unchanged", "sh", "-c"),
    'mount --make-rprivate /dev && mount -t tmpfs none /dev/net && exec "$0" "$@"',
)


def one_sentence(message: str) -> str:
    """A refusal is one line that begins with the program's name."""
    assert message.startswith("diolkos: ") and "\n" not in message, message
    assert "panicked" not in message
    return message


@pytest.mark.parametrize(
    ("options", "wrapper", "code", "words"),
    [
        (["--uplink", "wan0"], NO_ROOT, MISSING, ["CAP_NET_ADMIN", "root"]),
        (["--uplink", "wan0"], NO_TUN, MISSING, ["/dev/net/tun", "tun"]),
        (["--uplink", "wan0", "--datapath", "tc"], NO_BPF, MISSING, ["BPF", "CAP_BPF"]),
        (["--uplink", "wan9"], (), RUN_TIME, ["`wan9`", "there are: lo, wan0"]),
        (["--uplink", "lo"], (), RUN_TIME, ["lo has no global IPv6 address", "--v6"]),
        (["--uplink", "wan0", "--v6", CLIENT6], (), RUN_TIME, [CLIENT6, "already the address of wan0", "--v6"]),
        (["--uplink", "wan0", "--v6", ROUTER6], (), RUN_TIME, [ROUTER6, "another host on wan0", "--v6"]),
        (["--uplink", "wan0", "--device", "lo"], (), RUN_TIME, ["`lo` exists already", "--device"]),
        (["--uplink", "wan0", "--device", "a/b"], (), USAGE, ["`a/b`"]),
        (["--uplink", "wan0", "--pref64", "64:ff9b::/97"], (), USAGE, ["pref64", "RFC 6052"]),
        (["--uplink", "wan0", "--v4", "127.0.0.1"], (), USAGE, ["clat.v4", "127.0.0.1"]),
        (["--uplink", "wan0", "--config", "/nonexistent.toml"], (), USAGE, ["/nonexistent.toml"]),
    ],
    ids=lambda value: None if isinstance(value, (int, tuple)) else " ".join(map(str, value)),
)
def test_refusals(net: Network, options: list[str], wrapper: tuple[str, ...], code: int, words: list[str]) -> None:
    """Each refusal says what is wrong and, where it is not plain, what to do; nothing is left."""
    net.sysctl(net.client, "net.ipv6.conf.wan0.dad_transmits", "1")
    prefix = [] if "--pref64" in options else ["--pref64", WELL_KNOWN_PREFIX]
    got, message = net.refused("clat", *prefix, *options, wrapper=wrapper)
    assert got == code, message
    for word in words:
        assert word in one_sentence(message)
    assert remains(net) == []


@pytest.mark.parametrize("options", [["--uplink"], ["--uplink", "wan0", "--datapath", "teleport"]])
def test_wrong_usage(net: Network, options: list[str]) -> None:
    """The command line explains itself, with exit code 2."""
    code, message = net.refused("clat", *options)
    assert code == USAGE
    assert "--help" in message


def test_without_bpf_there_is_still_a_way(net: Network) -> None:
    """`auto` says that it goes on without the fast path, and translates."""
    clat = net.clat("auto", wrapper=NO_BPF)
    assert "no fast path, continuing without it" in clat.log()
    assert "datapath tun" in clat.log()
    assert "5 received" in net.ping("-c5").stdout


def test_an_address_of_the_host_is_not_taken_over(net: Network) -> None:
    """192.0.0.1 may be another CLAT's. A supervisor need not try the same again."""
    net.run(net.client, "ip", "address", "add", "192.0.0.1/32", "dev", "lo")
    code, message = net.refused("clat", "--uplink", "wan0", "--v4", "192.0.0.1")
    assert code == USAGE
    assert "192.0.0.1 is already the address of lo" in one_sentence(message)


def test_a_second_instance(net: Network, datapath: str) -> None:
    """The first is named and goes on; another device makes room for a second."""
    first = net.clat(datapath)
    code, message = net.refused("clat", "--uplink", "wan0")
    assert code == RUN_TIME
    assert f"(process {first.process.pid})" in one_sentence(message)
    second = net.clat(datapath, "--device", "diolkos1", "--v4", "192.0.0.2", "--route", "198.51.100.0/24", "--metric", "1")
    assert "3 received" in net.ping("-c3").stdout
    assert second.stop() == 0
    assert "3 received" in net.ping("-c3").stdout


@pytest.mark.parametrize("how", ["delete", "move"])
def test_the_uplink_vanishes(net: Network, datapath: str, how: str) -> None:
    """The program says so, ends with 1 and leaves nothing."""
    clat = net.clat(datapath)
    if how == "delete":
        net.ip(net.client, "link", "del", "wan0")
    else:
        net.ip(net.client, "link", "set", "wan0", "netns", net.server)
    assert clat.wait() == RUN_TIME
    assert "diolkos: the uplink wan0 is gone" in clat.log().splitlines()[-1]
    assert remains(net) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(net: Network, datapath: str, how: signal.Signals) -> None:
    """Exit code 0; device, programs, routes and settings are as before."""
    before = forwarding(net)
    clat = net.clat(datapath)
    assert net.ping("-c2").returncode == 0
    assert clat.stop(how) == 0
    assert remains(net) == []
    assert forwarding(net) == before


def test_a_hangup_is_no_end_but_the_end_of_its_terminal_is(net: Network) -> None:
    """SIGHUP of an operator reads the configuration again; that of a terminal that goes away ends the program."""
    main, side = os.openpty()
    own_terminal = (
        sys.executable,
        "-c",
        "import os, sys; os.setsid(); os.close(os.open(sys.argv[1], os.O_RDWR)); os.execvp(sys.argv[2], sys.argv[2:])",
    )
    clat = net.clat("tun", wrapper=(*own_terminal, os.ttyname(side)))
    os.close(side)
    clat.process.send_signal(signal.SIGHUP)
    net.until(lambda: "SIGHUP: reading the configuration again" in clat.log())
    assert net.ping("-c2").returncode == 0
    os.close(main)
    assert clat.wait() == 0
    assert remains(net) == []


def test_after_sigkill_nothing_disturbs(net: Network, datapath: str) -> None:
    """Kernel objects die with the process; what is a setting or a filter is inert, and the next start removes it."""
    before = forwarding(net)
    clat = net.clat(datapath)
    clat.stop(signal.SIGKILL)
    # The way of what the device sent is for its address alone, and ends within a minute.
    inert = ("clsact", "filter", " expires ")
    assert [line for line in remains(net) if not any(word in line for word in inert)] == []
    assert net.ping("-6", "-c2", to=SERVER6).returncode == 0
    again = net.clat(datapath)
    assert "3 received" in net.ping("-c3").stdout, again.log()
    assert again.stop() == 0
    assert remains(net) == []
    assert forwarding(net) == before


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_instances_need_forwarding(net: Network, first_ends_first: bool) -> None:
    """It stays on for the one that goes on, and is put back by the last, in whatever order they end."""
    before = forwarding(net)
    first = net.clat("tun")
    second = net.clat("tun", "--device", "diolkos1", "--v4", "192.0.0.2", "--route", "198.51.100.0/24", "--metric", "1")
    order = [first, second] if first_ends_first else [second, first]
    assert order[0].stop() == 0
    source = "192.0.0.2" if first_ends_first else "192.0.0.1"
    net.run(net.client, "ip", "route", "replace", "default", "dev", "diolkos1" if first_ends_first else "diolkos0")
    assert "3 received" in net.ping("-c3", "-I", source).stdout
    assert order[1].stop() == 0
    assert forwarding(net) == before


def test_the_tun_device_vanishes(net: Network, datapath: str) -> None:
    """Whoever supervises the program learns that it translates no more."""
    clat = net.clat(datapath)
    net.ip(net.client, "link", "del", "diolkos0")
    assert clat.wait() == RUN_TIME
    assert "diolkos: the TUN device diolkos0 is gone" in clat.log().splitlines()[-1]
    assert remains(net) == []


def test_the_prefix_of_the_uplink_goes(net: Network, datapath: str) -> None:
    """An address made from it would be nobody's: the program says so and ends with 1."""
    clat = net.clat(datapath)
    net.ip(net.client, "address", "add", "2001:2:0:9::2/64", "dev", "wan0", "nodad")
    net.ip(net.client, "address", "del", f"{CLIENT6}/64", "dev", "wan0")
    assert clat.wait() == RUN_TIME
    assert "wan0 no longer has an address in the prefix of 2001:2:0:1:" in clat.log().splitlines()[-1]
    assert remains(net) == []


def test_a_killed_run_does_not_disturb_another_datapath(net: Network) -> None:
    """What a killed run left on clsact would go on taking the packets away."""
    net.clat("clsact").stop(signal.SIGKILL)
    clat = net.clat("tun")
    assert "3 received" in net.ping("-c3").stdout, clat.log()
    clat.stop()
    assert remains(net) == []


@pytest.mark.parametrize("command", ["check", "run", "clat"])
def test_a_malformed_configuration(net: Network, command: str) -> None:
    """file:line:column, one line, exit code 2."""
    file = net.scratch / "bad.toml"
    file.write_text('[translator]\ninterfaces = ["wan0"]\npref64 = ["64:ff9b::/95"]\n')
    arguments = ["check", str(file)] if command == "check" else [command, "--config", str(file)]
    code, message = net.refused(*arguments)
    assert code == USAGE
    assert one_sentence(message).startswith(f"diolkos: {file}:3:11: translator.pref64[0]: ")


def test_forwarding_that_was_on_stays_on(net: Network) -> None:
    """A router stays a router."""
    net.sysctl(net.client, "net.ipv6.conf.all.forwarding", "1")
    before = forwarding(net)
    clat = net.clat("tun")
    assert "switching IPv6 forwarding on" not in clat.log()
    clat.stop()
    assert forwarding(net) == before


def test_programs_of_others_stay(net: Network, datapath: str) -> None:
    """Filters of the operator's on the uplink, and their clsact, keep their place before, while and after."""
    net.run(net.client, "tc", "qdisc", "add", "dev", "wan0", "clsact")
    for side in ("ingress", "egress"):
        net.run(
            net.client, "tc", "filter", "add", "dev", "wan0", side, "protocol", "0x88b5", "prio", "7",
            "u32", "match", "u32", "0", "0", "classid", "1:1",
        )  # fmt: skip

    def filters() -> list[list[str]]:
        shown = [net.run(net.client, "tc", "filter", "show", "dev", "wan0", side).stdout for side in ("ingress", "egress")]
        return [[line for line in text.splitlines() if "pref 7 " in line] for text in shown]

    before = filters()
    assert all(before)
    clat = net.clat(datapath)
    assert filters() == before
    assert "3 received" in net.ping("-c3").stdout
    clat.stop()
    assert filters() == before


def test_show_without_anyone_to_ask(net: Network) -> None:
    """It says that nobody runs here."""
    code, message = net.refused("show", "counters")
    assert code == RUN_TIME
    assert "no diolkos runs in this network namespace" in one_sentence(message)


def test_show_answers_only_root(net: Network) -> None:
    """Others learn why they get no answer."""
    net.clat("tc")
    code, message = net.refused("show", "counters", wrapper=NO_ROOT)
    assert code == MISSING
    assert "root" in one_sentence(message)


def test_programs_at_hooks_are_seen(net: Network) -> None:
    """The helper of these tests can see the programs it says are gone."""
    clat = net.clat("tc")
    assert [what for what in remains(net) if "wan0" in what]
    clat.stop()
    assert remains(net) == []
