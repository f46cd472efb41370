# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another configuration for a stateful translator that runs: what it still allows goes on, what it does not is refused."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import ROUTER_DATAPATHS
from nat64 import BOUND, CONFIG, POOL, TRANSLATOR, V4_OTHER, V6_OTHER, Nat64Network, ask, in_ipv6, with_keys
from network import Running
from siit import PREF64, V4, V4_IN_IPV6, V6
from test_clat_faults import RUN_TIME, USAGE, one_sentence
from test_nat64_control import static
from test_siit_traffic import TCP_CLIENT, TCP_SERVER, listen

all_datapaths = pytest.mark.parametrize("nat64", ROUTER_DATAPATHS, indirect=True)

OTHER_PREF64 = "2001:db8:65::/96"
OTHER_POOL = '[[nat64.pool4]]\naddress = "192.0.2.64/30"\n'
CHANGES = {
    "timeouts": CONFIG + "[nat64.timeouts]\nudp = 120\ntcp_established = 8000\nicmp = 90\n",
    "filtering": with_keys('filtering = "address-dependent"'),
    "pool-address": CONFIG + OTHER_POOL,
    "pool-order": TRANSLATOR + OTHER_POOL + CONFIG.removeprefix(TRANSLATOR),
    "prefix-added": CONFIG.replace(f'"{PREF64}"', f'"{PREF64}", "{OTHER_PREF64}"'),
    "prefix-order": CONFIG.replace(f'"{PREF64}"', f'"{OTHER_PREF64}", "{PREF64}"'),
    "limits": CONFIG.replace(
        "[[nat64.pool4]]", "[nat64]\nmax_sessions_per_source = 1\nsource_prefix_len = 48\n[[nat64.pool4]]"
    ),
    "binding": CONFIG + static("tcp", f"{BOUND}:443", f"[{V6}]:443"),
    "mtu": CONFIG.replace("pref64", "mtu4 = 1500\nmtu6 = 1500\npref64"),
}


@all_datapaths
def test_reload_keeps_what_it_allows(nat64: Nat64Network) -> None:
    """A transfer, a ping and a mapping go on through every change and back; no packet is lost, and none is dropped."""
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4001)
    mapped = ask(inside, (V4_IN_IPV6, 4001), outside)
    server = listen(nat64, nat64.v4, TCP_SERVER, V4)
    client = nat64.start(nat64.v6, sys.executable, "-c", TCP_CLIENT, V6, V4_IN_IPV6, "150", stdout=subprocess.PIPE, text=True)
    ping = nat64.start(nat64.v6, "ping", "-q", "-c400", "-i0.002", "-W5", V4_IN_IPV6, stdout=subprocess.PIPE, text=True)
    reloads = 0
    while reloads < 2 * len(CHANGES) or ping.poll() is None or client.poll() is None:
        for text in (list(CHANGES.values())[reloads // 2 % len(CHANGES)], CONFIG):
            assert nat64.reload(text) == (0, "")
            reloads += 1
            assert ask(inside, (V4_IN_IPV6, 4001), outside) == mapped
            assert ask(outside, mapped, inside) == (V4_IN_IPV6, 4001)
    assert "400 received" in ping.stdout.read()
    assert client.stdout.read() == server.stdout.readline()
    assert nat64.drops("too_big") == {}


@pytest.mark.parametrize("nat64", ["tc", "clsact", "inline", "direct", "xdp"], indirect=True)
def test_a_reload_loads_what_is_new_to_the_programs(nat64: Nat64Network) -> None:
    """Programs that know nothing of a change stay, since the verifier takes a tenth of a second for one. The change holds."""
    running = nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    first = programs(running)
    assert nat64.reload(CHANGES["filtering"]) == (0, "")
    assert programs(running) == first
    # Of this filter: another host of the IPv4 side gets in no more, and the one that was asked does from any port.
    nat64.socket(V4_OTHER, 4000).sendto(b"from another host", mapped)
    nat64.socket(V4, 4001).sendto(b"from another port", mapped)
    assert inside.recv(100) == b"from another port"
    for change in ("pool-address", "prefix-added"):
        before = programs(running)
        assert nat64.reload(CHANGES[change]) == (0, "")
        now = programs(running)
        assert len(now) == len(first) and now != before
        assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
    # What a failed reload has prepared is not taken for what is in force.
    before = programs(running)
    assert nat64.reload(CHANGES["prefix-added"] + "[[nat64.pool4]]\naddress = 7\n")[0] == USAGE
    assert programs(running) == before
    assert nat64.reload(CONFIG) == (0, "")
    assert programs(running) != before


def programs(running: Running) -> set[str]:
    """The kernel's numbers of the programs that it holds."""
    found = set()
    for info in Path(f"/proc/{running.process.pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, as a connection of the control socket is
            found |= {line.split()[1] for line in info.read_text().splitlines() if line.startswith("prog_id:")}
    return found


@all_datapaths
@pytest.mark.parametrize("change", ["prefix-added", "prefix-order"])
def test_another_prefix_works_at_once(nat64: Nat64Network, change: str) -> None:
    """A host that changes to it keeps its mapping, and is answered from where it asked."""
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    assert nat64.reload(CHANGES[change]) == (0, "")
    for prefix in (OTHER_PREF64, PREF64, OTHER_PREF64):
        for _ in range(2):
            assert ask(inside, (in_ipv6(V4, prefix), 4000), outside) == mapped
    # Its sessions end with the prefix.
    assert nat64.reload(CONFIG) == (0, "")
    assert nat64.shown("sessions") == []


@all_datapaths
def test_an_address_leaves_the_pool(nat64: Nat64Network) -> None:
    """Its bindings and sessions end, and a socket that goes on gets another mapping."""
    nat64.nat64()
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    ask(inside, (V4_IN_IPV6, 4000), outside)
    connection = nat64.listener(V4, 4000)
    nat64.connect(V6, (V4_IN_IPV6, 4000)).sendall(b"before")
    assert connection.accept()[0].recv(10) == b"before"
    assert nat64.reload(TRANSLATOR + OTHER_POOL) == (0, "")
    assert nat64.shown("bindings") == nat64.shown("sessions") == []
    routes = nat64.run(nat64.translator, "ip", "route", "show", "dev", "diolkos0").stdout
    assert [line.split()[0] for line in routes.splitlines()] == ["192.0.2.64/30"]
    address, _ = ask(inside, (V4_IN_IPV6, 4000), outside)
    assert address.startswith("192.0.2.6")


@all_datapaths
def test_bindings_at_a_reload(nat64: Nat64Network) -> None:
    """Those of the configuration come and go with it, those of the operator stay; who is in the way makes room."""
    configured = static("udp", f"{BOUND}:80", f"[{V6}]:8080")
    nat64.nat64(CONFIG + configured)
    nat64.bind("add", "udp", f"{BOUND}:81", f"[{V6}]:8081")
    inside, outside = nat64.socket(V6, 8081), nat64.socket(V4, 4000)
    ask(outside, (BOUND, 81), inside)
    assert nat64.reload(CONFIG) == (0, "")
    assert [(binding["v4"], binding["origin"]) for binding in nat64.shown("bindings")] == [(f"{BOUND}:81", "operator")]
    ask(outside, (BOUND, 81), inside)
    assert nat64.reload(CONFIG + static("udp", f"{BOUND}:81", f"[{V6_OTHER}]:8081")) == (0, "")
    assert [(binding["v6"], binding["origin"]) for binding in nat64.shown("bindings")] == [(f"[{V6_OTHER}]:8081", "configured")]
    ask(outside, (BOUND, 81), nat64.socket(V6_OTHER, 8081))


@all_datapaths
def test_a_bound_address_outside_of_the_pool(nat64: Nat64Network) -> None:
    """A packet to it from behind the translator turns back in one hop, which only the slow path does, after a reload too."""
    elsewhere = "198.18.0.1"
    text = with_keys(f'routes4 = ["{POOL}", "{elsewhere}/32"]')
    nat64.nat64(text)
    nat64.bind("add", "udp", f"{elsewhere}:80", f"[{V6}]:8080")
    inside, other = nat64.socket(V6, 8080), nat64.socket(V6_OTHER)
    for _ in range(3):
        ask(other, (in_ipv6(elsewhere), 80), inside)
        assert nat64.reload(text) == (0, "")
    counters = nat64.counters()
    assert counters.get("fast.translated_6to4", 0) == counters.get("fast.translated_4to6", 0) == 0
    assert counters["slow.translated_6to4"] == 6


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (CONFIG.replace("pref64", 'device = "other0"\npref64'), RUN_TIME, "translator.device cannot change"),
        (CONFIG.replace("pref64", "queues = 3\npref64"), RUN_TIME, "translator.queues cannot change"),
        (CONFIG.replace('"nat64"', '"siit"').split("[[nat64")[0], RUN_TIME, "translator.mode cannot change"),
        (with_keys("max_sessions = 7"), RUN_TIME, "nat64.max_sessions cannot change"),
        (with_keys("max_bindings = 7"), RUN_TIME, "nat64.max_bindings cannot change"),
        (with_keys("metric = 7"), RUN_TIME, "nat64.metric cannot change"),
        (CONFIG + "[log]\nlevel = 'debug'\n", RUN_TIME, "log.level cannot change"),
        (CONFIG.replace(POOL, "192.0.2.0/33"), USAGE, "siit.toml:7:11: "),
        (CONFIG + "[nat64.timeouts]\nicmp = 5\n", USAGE, "nat64.timeouts.icmp: 5 s is below 60 s"),
    ],
)
def test_reload_refuses(nat64: Nat64Network, text: str, code: int, words: str) -> None:
    """The reason is told to who asked and in the log; the old configuration stays in force, and its sessions with it."""
    running = nat64.siit(command="run")
    inside, outside = nat64.socket(V6), nat64.socket(V4, 4000)
    mapped = ask(inside, (V4_IN_IPV6, 4000), outside)
    got, message = nat64.reload(text)
    assert got == code, message
    assert words in one_sentence(message)
    assert "the old configuration stays in force" in running.log()
    assert ask(inside, (V4_IN_IPV6, 4000), outside) == mapped
