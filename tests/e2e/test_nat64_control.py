# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Configuration of a stateful translator: checked, refused; what it shows, and what it leaves."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import BOUND, CONFIG, POOL, V4_OTHER, Nat64Network, ask, in_ipv6
from siit import CONFIG as SIIT_CONFIG
from siit import PREF64, V4, V4_IN_IPV6, V6, SiitNetwork
from test_clat_faults import MISSING, NO_BPF, NO_ROOT, RUN_TIME, USAGE, one_sentence
from test_siit_control import check

all_datapaths = pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)

# Three lines; a pool of one address follows.
HEAD = '[translator]\nmode = "nat64"\npref64 = ["2001:db8:64::/96"]\n'
GOOD_POOL = '[[nat64.pool4]]\naddress = "192.0.2.1"\n'


def pool4(*lines: str) -> str:
    return "[[nat64.pool4]]\n" + "".join(f"{line}\n" for line in lines)


def static(protocol: str, v4: str, v6: str) -> str:
    return f'[[nat64.static]]\nprotocol = "{protocol}"\nv4 = "{v4}"\nv6 = "{v6}"\n'


def timeouts(line: str) -> str:
    return f"{GOOD_POOL}[nat64.timeouts]\n{line}\n"


def nat64_keys(line: str) -> str:
    return f"[nat64]\n{line}\n{GOOD_POOL}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The pool.
        ("", "1:1: nat64.pool4: neither pool4 nor a static binding"),
        (pool4('address = "192.0.2.1/24"'), "5:11: nat64.pool4[0].address: 192.0.2.1/24 has host bits set"),
        (pool4('address = "224.0.0.0/24"'), "5:11: nat64.pool4[0].address: 224.0.0.0/24 is multicast"),
        (pool4('address = "127.0.0.1"'), "5:11: nat64.pool4[0].address: 127.0.0.1 is a loopback address"),
        (pool4('address = "2001:db8::1"'), "5:11: nat64.pool4[0].address: `2001:db8::1` is not an IPv4 network or address"),
        (pool4('address = "10.0.0.0/8"'), "4:1: nat64.pool4: 16777216 addresses; 65536 are supported"),
        (pool4("ports = '1024-2000'"), "4:1: [[nat64.pool4]] needs the key `address`: an IPv4 address or network"),
        (
            pool4('address = "192.0.2.1"', 'ports = "2000-1024"'),
            "6:9: nat64.pool4[0].ports: `2000-1024` is not a range of ports",
        ),
        (
            pool4('address = "192.0.2.1"', 'ports = "1024-65536"'),
            "6:9: nat64.pool4[0].ports: `1024-65536` is not a range of ports",
        ),
        (pool4('address = "192.0.2.1"', "ports = 1024"), "6:9: "),
        (pool4('address = "192.0.2.1"', "protocols = []"), "6:13: nat64.pool4[0].protocols: none is given"),
        (
            pool4('address = "192.0.2.1"', 'protocols = ["sctp"]'),
            '6:14: nat64.pool4[0].protocols[0]: "sctp" is none of "tcp", "udp" and "icmp"',
        ),
        (pool4('address = "192.0.2.1"', "port = 7"), "6:1: [[nat64.pool4]] has no key `port`; did you mean `ports`?"),
        # Bindings.
        (static("tcp", "192.0.2.1:0", "[2001:db8::1]:80"), "4:1: nat64.static[0]: port 0 cannot be bound"),
        (static("udp", "192.0.2.1:80", "[2001:db8::1]:0"), "4:1: nat64.static[0]: port 0 cannot be bound"),
        (
            static("udp", "192.0.2.1", "[2001:db8::1]:80"),
            "6:6: nat64.static[0].v4: `192.0.2.1` has no port; write `192.0.2.1:PORT`",
        ),
        (static("udp", "192.0.2.1:80", "2001:db8::1:80"), "7:6: nat64.static[0].v6: `2001:db8::1:80` has no port"),
        (static("udp", "192.0.2.1:80", "[ff02::1]:80"), "4:1: nat64.static[0]: ff02::1 is multicast"),
        (static("udp", "0.0.0.0:80", "[2001:db8::1]:80"), "4:1: nat64.static[0]: 0.0.0.0 is no address of a host"),
        (
            static("udp", "192.0.2.1:80", "[2001:db8:64::1]:80"),
            "4:1: nat64.static[0]: 2001:db8:64::1 lies in pref64 2001:db8:64::/96",
        ),
        (
            static("tcp", "192.0.2.1:80", "[2001:db8::1]:80") + static("tcp", "192.0.2.1:80", "[2001:db8::2]:80"),
            "10:6: nat64.static[1].v4: 192.0.2.1:80 is that of nat64.static[0]",
        ),
        (
            static("tcp", "192.0.2.1:80", "[2001:db8::1]:80") + static("tcp", "192.0.2.1:81", "[2001:db8::1]:80"),
            "11:6: nat64.static[1].v6: [2001:db8::1]:80 is that of nat64.static[0]",
        ),
        # Timeouts, each below what its RFC allows.
        (timeouts("udp = 119"), "7:7: nat64.timeouts.udp: 119 s is below 120 s (RFC 4787 REQ-5)"),
        (timeouts("tcp_established = 7439"), "7:19: nat64.timeouts.tcp_established: 7439 s is below 7440 s (RFC 5382"),
        (timeouts("tcp_transitory = 239"), "7:18: nat64.timeouts.tcp_transitory: 239 s is below 240 s (RFC 5382"),
        (timeouts("tcp_incoming_syn = 5"), "7:20: nat64.timeouts.tcp_incoming_syn: 5 s is below 6 s (RFC 5382"),
        (timeouts("icmp = 59"), "7:8: nat64.timeouts.icmp: 59 s is below 60 s (RFC 5508"),
        (timeouts("fragments = 1"), "7:13: nat64.timeouts.fragments: 1 s is below 2 s (RFC 6146"),
        (timeouts("udp = 604801"), "7:7: nat64.timeouts.udp: 604801 s is above 604800 s"),
        (timeouts("udp = -1"), "7:7: "),
        (timeouts("tcp = 7440"), "7:1: [nat64.timeouts] has no key `tcp`; its keys are"),
        # The rest of the section.
        (nat64_keys('filtering = "none"'), '5:13: nat64.filtering: "none" is none of'),
        (nat64_keys("port_preservation = 1"), "5:21: "),
        (nat64_keys("max_sessions = 1073741825"), "5:16: nat64.max_sessions: 1073741825 is above 1073741824"),
        (nat64_keys("max_bindings = 1073741825"), "5:16: nat64.max_bindings: 1073741825 is above 1073741824"),
        (nat64_keys("max_sessions = 0"), "5:16: nat64.max_sessions: 0 would drop every packet"),
        (nat64_keys("max_sessions_per_source = 0"), "5:27: nat64.max_sessions_per_source: 0 would drop every packet"),
        (nat64_keys("max_sessions_per_source = -1"), "5:27: "),
        (nat64_keys("source_prefix_len = 0"), "5:21: nat64.source_prefix_len: 0 is not between 1 and 128"),
        (nat64_keys("source_prefix_len = 129"), "5:21: nat64.source_prefix_len: 129 is not between 1 and 128"),
        (
            nat64_keys('max_bindings_per_source = "all"'),
            "5:27: nat64.max_bindings_per_source: `all` is neither a number nor `auto`",
        ),
        (nat64_keys("site_prefix_lens = [56, 48, 40]"), "5:20: nat64.site_prefix_lens: 3 lengths; 2 are supported"),
        (nat64_keys("site_prefix_lens = [0]"), "5:21: nat64.site_prefix_lens[0]: 0 is not between 1 and 128"),
        (nat64_keys("site_prefix_lens = [56, 129]"), "5:25: nat64.site_prefix_lens[1]: 129 is not between 1 and 128"),
        (nat64_keys("host_share = 0"), "5:14: nat64.host_share: 0 is not between 1 and 100 percent"),
        (nat64_keys("outside_share = 101"), "5:17: nat64.outside_share: 101 is not between 1 and 100 percent"),
        (nat64_keys('routes4 = ["192.0.2.1/24"]'), "5:12: nat64.routes4[0]: 192.0.2.1/24 has host bits set"),
        (nat64_keys('routes6 = ["2001:db8::1/32"]'), "5:12: nat64.routes6[0]: 2001:db8::1/32 has host bits set"),
        (nat64_keys('routes4 = "all"'), '5:11: nat64.routes4: "all" is neither a list of networks nor "auto"'),
        (nat64_keys("metric = -1"), "5:10: "),
        (nat64_keys("state_interval = 0"), "5:18: nat64.state_interval: 0 s is not between 1 and 86400 s"),
        (nat64_keys("state_interval = 86401"), "5:18: nat64.state_interval: 86401 s is not between 1 and 86400 s"),
        (nat64_keys("max_session = 1"), "5:1: [nat64] has no key `max_session`; did you mean `max_sessions`?"),
        # What other modes have.
        (GOOD_POOL + '[[eam]]\nv4 = "192.0.2.9"\nv6 = "2001:db8::9"\n', "6:1: eam: a NAT64 has static bindings"),
        (GOOD_POOL + "[siit]\nmetric = 7\n", '6:1: siit: this section is for the mode "siit", and the mode is "nat64"'),
        (GOOD_POOL + '[clat]\nv4 = "192.0.0.2"\n', '6:1: clat: this section is for the mode "clat", and the mode is "nat64"'),
    ],
)
def test_a_wrong_configuration(tmp_path: Path, text: str, expected: str) -> None:
    """Exit code 2, one sentence, and the place: line and column of the value."""
    code, _, message = check(tmp_path, HEAD + text)
    assert code == USAGE
    assert one_sentence(message.strip()).startswith(f"diolkos: x.toml:{expected}"), message


def test_no_prefix(tmp_path: Path) -> None:
    """Without one there is nothing to translate."""
    code, _, message = check(tmp_path, HEAD.replace('"2001:db8:64::/96"', "") + GOOD_POOL)
    assert code == USAGE
    assert one_sentence(message.strip()).startswith("diolkos: x.toml:3:10: translator.pref64: a NAT64 needs a prefix")


@pytest.mark.parametrize("mode", ["siit", "clat"])
def test_the_section_in_another_mode(tmp_path: Path, mode: str) -> None:
    """It means nothing there, and so is refused."""
    code, _, message = check(tmp_path, HEAD.replace("nat64", mode).replace("pref64", 'interfaces = ["a"]\npref64') + GOOD_POOL)
    assert code == USAGE
    assert f'nat64: this section is for the mode "nat64", and the mode is "{mode}"' in one_sentence(message.strip())


@pytest.mark.parametrize("text", [CONFIG, HEAD + static("icmp", "192.0.2.1:0", "[2001:db8::1]:0")])
def test_check_prints_every_key_and_reads_its_own_print(tmp_path: Path, text: str) -> None:
    """The print has the defaults, and is its own print."""
    code, printed, message = check(tmp_path, text)
    assert code == 0, message
    for key in ('filtering = "endpoint-independent"', "udp = 300", "tcp_established = 7440", "source_prefix_len = 64",
                "site_prefix_lens = [56, 48]", "host_share = 50", "source_share = 50", "site_share = 75",
                "outside_share = 25", 'max_sessions_per_source = "auto"', 'max_bindings_per_source = "auto"',
                "max_sessions = 4000000", "port_preservation = false", "metric = 1024", 'routes4 = "auto"'):  # fmt: skip
        assert key in printed, key
    assert "[clat]" not in printed
    assert "[siit]" not in printed
    assert check(tmp_path, printed)[1] == printed


# --- starting and ending


@all_datapaths
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_leaves_nothing(nat64: Nat64Network, how: signal.Signals) -> None:
    """With sessions and bindings, too; forwarding is put back, after a kill by the next start."""
    before = nat64.forwarding()
    assert set(before.values()) == {"0"}
    running = nat64.nat64()
    nat64.bind("add", "udp", f"{BOUND}:80", f"[{V6}]:80")
    assert "1 received" in nat64.run(nat64.v6, "ping", "-c1", "-W2", V4_IN_IPV6).stdout
    assert running.stop(how) == (0 if how == signal.SIGTERM else -how)
    assert nat64.leftovers() == []
    if how == signal.SIGKILL:
        running = nat64.nat64()
        assert nat64.shown("sessions") == nat64.shown("bindings") == []
        assert running.stop() == 0
    assert nat64.forwarding() == before


@all_datapaths
def test_the_device_vanishes(nat64: Nat64Network) -> None:
    """The program says so and ends with 1."""
    running = nat64.nat64()
    nat64.ip(nat64.translator, "link", "del", "diolkos0")
    assert running.wait() == RUN_TIME
    assert "the TUN device diolkos0 is gone" in running.log()


def test_what_cannot_start(nat64: Nat64Network) -> None:
    """One sentence each, and nothing is left."""
    config = ("nat64", "--config", str(nat64.config))
    nat64.scratch.chmod(0o755)
    for arguments, wrapper, expected, words in (
        ((*config, "--datapath", "tc"), NO_BPF, MISSING, "the kernel refuses BPF programs"),
        (config, NO_ROOT, MISSING, "CAP_NET_ADMIN"),
        (("nat64", "--config", "/nonexistent.toml"), (), USAGE, "/nonexistent.toml"),
    ):
        done = nat64.run(nat64.translator, *wrapper, str(nat64.program), *arguments, check=False)
        message = [line for line in done.stderr.splitlines() if line.startswith("diolkos:")]
        assert (done.returncode, len(message)) == (expected, 1), done.stderr
        assert words in one_sentence(message[0])
    nat64.run(nat64.translator, "ip", "route", "add", "unreachable", POOL, "metric", "1024")
    code, message = nat64.diolkos(*config)
    assert code == RUN_TIME
    assert f"there is a route to {POOL} with metric 1024 already" in message
    assert nat64.leftovers() == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (CONFIG.replace(POOL, "198.51.100.1"), "nat64.pool4[0].address: 198.51.100.1"),
        (CONFIG.replace(POOL, "198.51.100.0/24"), "nat64.pool4[0].address: 198.51.100.1"),
        (CONFIG + static("tcp", "198.51.100.1:443", f"[{V6}]:443"), "nat64.static[0].v4: 198.51.100.1"),
    ],
    ids=["pool-address", "pool-prefix", "static"],
)
def test_an_address_of_the_host(nat64: Nat64Network, text: str, key: str) -> None:
    """It keeps its own, at the start and at a reload."""
    words = f"{key} is an address of this host"
    nat64.configure(text)
    code, message = nat64.diolkos("nat64", "--config", str(nat64.config))
    assert code == USAGE
    assert words in one_sentence(message)
    assert nat64.leftovers() == []
    nat64.nat64(CONFIG)
    code, message = nat64.reload(text)
    assert code == USAGE
    assert words in one_sentence(message)
    assert "1 received" in nat64.run(nat64.v6, "ping", "-c1", "-W2", V4_IN_IPV6).stdout


def test_without_bpf_there_is_still_a_way(nat64: Nat64Network) -> None:
    """`auto` says that it goes on without the fast path, and translates."""
    log = nat64.scratch / "log"
    with log.open("w") as sink:
        nat64.start(nat64.translator, *NO_BPF, str(nat64.program), "nat64", "--config", str(nat64.config), stderr=sink)
    nat64.until(lambda: " ready: " in log.read_text())
    assert "no fast path, continuing without it" in log.read_text()
    assert "1 received" in nat64.run(nat64.v6, "ping", "-c1", "-W2", V4_IN_IPV6).stdout


# --- what is shown


@all_datapaths
def test_what_is_shown(nat64: Nat64Network) -> None:
    """Tables for people, JSON for scripts; the time that is left counts from the last packet, whoever carried it."""
    nat64.nat64()
    inside, outside = nat64.socket(V6, 5000), nat64.socket(V4, 4000)
    address, port = ask(inside, (V4_IN_IPV6, 4000), outside)
    nat64.until(lambda: nat64.shown("sessions")[0]["expires_in_s"] < 299)
    ask(inside, (V4_IN_IPV6, 4000), outside)
    (session,) = nat64.shown("sessions")
    assert session.pop("expires_in_s") in (299, 300)
    ends = {"v6": f"[{V6}]:5000", "v4": f"{address}:{port}"}
    assert session == {"protocol": "udp", **ends, "peer": f"{V4}:4000", "state": "udp"}
    assert nat64.shown("bindings") == [{"protocol": "udp", **ends, "sessions": 1, "origin": "dynamic"}]
    tables = [nat64.run(nat64.translator, str(nat64.program), "show", what).stdout for what in ("sessions", "bindings")]
    rows = [[line.split() for line in table.splitlines()] for table in tables]
    assert [row[0] for row in rows] == [
        ["protocol", "v6", "v4", "peer", "state", "expires", "in", "s"],
        ["protocol", "v6", "v4", "sessions", "origin"],
    ]
    assert rows[0][1][:5] == ["udp", ends["v6"], ends["v4"], f"{V4}:4000", "udp"]
    assert rows[1][1] == ["udp", ends["v6"], ends["v4"], "1", "dynamic"]
    assert {len(row) for row in rows} == {2}
    shown = nat64.run(nat64.translator, str(nat64.program), "show", "config").stdout
    assert f'address = "{POOL}"' in shown
    assert "mtu4 = 9000" in shown


def test_many_sessions_are_shown(nat64: Nat64Network) -> None:
    """All of them, in the order of addresses and ports, and how many there are."""
    nat64.nat64()
    inside = nat64.socket(V6, 5000)
    for number in range(3000):
        inside.sendto(b"", (in_ipv6(V4_OTHER), 10000 + number))
    shown = json.loads(nat64.run(nat64.translator, str(nat64.program), "show", "sessions", "--json").stdout)
    assert shown["total"] == 3000
    assert [session["peer"] for session in shown["entries"]] == [f"{V4_OTHER}:{port}" for port in range(10000, 13000)]
    assert shown["total"] == nat64.counters()["state.sessions"]


def test_a_stateless_translator_has_no_sessions(siit: SiitNetwork) -> None:
    """Whoever asks is told so."""
    siit.configure(SIIT_CONFIG)
    siit.siit()
    refused(siit, "a stateless translator has no bindings and sessions")
    siit.start(siit.translator, str(siit.program), "clat", "--uplink", "b6", "--pref64", "64:ff9b::/96",
               "--datapath", "tun", "--device", "clat0", stderr=subprocess.DEVNULL)  # fmt: skip
    siit.until(lambda: siit.diolkos("show", "config", "--device", "clat0")[0] == 0)
    refused(siit, "a CLAT has no bindings and sessions", "--device", "clat0")


def refused(net: SiitNetwork, words: str, *options: str) -> None:
    """Everything that needs state is refused with these words."""
    for command in (("show", "sessions"), ("show", "bindings", "--json"), ("bind", "del", "tcp", f"{BOUND}:80"),
                    ("bind", "add", "tcp", f"{BOUND}:80", f"[{V6}]:80")):  # fmt: skip
        code, message = net.diolkos(*command, *options)
        assert code == RUN_TIME
        assert words in one_sentence(message)


def test_nobody_is_there(nat64: Nat64Network) -> None:
    """One sentence."""
    for command in (("show", "sessions"), ("bind", "del", "tcp", f"{BOUND}:80")):
        code, message = nat64.diolkos(*command)
        assert code == RUN_TIME
        assert "no diolkos runs in this network namespace" in one_sentence(message)


WELL_KNOWN = "64:ff9b::/96"


@pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
def test_test_addresses_behind_the_well_known_prefix(nat64: Nat64Network) -> None:
    """The log says once why nothing passes, with the address and what to do; doing it helps."""
    text = CONFIG.replace(PREF64, WELL_KNOWN)
    nat64.configure(text)
    running = nat64.nat64()
    pings = ("ping", "-i0.01", "-c5", "-W1", in_ipv6(V4, WELL_KNOWN))
    assert "0 received" in nat64.run(nat64.v6, *pings, check=False).stdout
    nat64.until(lambda: "not_global_with_wkp" in running.log())
    assert nat64.counters()["slow.drop.not_global_with_wkp"] == 5
    said = [line for line in running.log().splitlines() if "not_global_with_wkp" in line]
    assert len(said) <= 4, "one of each reader at most"
    assert "WARN" in said[0]
    assert f"{WELL_KNOWN} must not carry {V4}," in said[0]
    assert "translator.allow_private_with_wkp to true" in said[0]
    assert nat64.reload(text.replace("pref64", "allow_private_with_wkp = true\npref64", 1)) == (0, "")
    assert "5 received" in nat64.run(nat64.v6, *pings).stdout
