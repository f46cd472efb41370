# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The placement `auto`, which is the default: no packet bypasses a rule that this host had at the start, whatever kind of rule
it is and in whichever family; and a rule that appears later is in the status within seconds.

Each kind of rule drops something of a stateless translator's packets. With `direct` these packets arrive all the same, which
shows that the rule is one that a program can bypass.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

import pytest
from network import create_socket
from siit import CONFIG, PREF64, V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_ready import findings

FORBIDDEN, ALLOWED = 4711, 4712
# No route leads to it, so that only a host with a false source sends from there.
FALSE = "198.41.0.1"

FORWARD = f"""table inet guard {{
    chain forward {{ type filter hook forward priority 0; udp dport {FORBIDDEN} drop; }}
}}"""
INGRESS = f"""table netdev guard {{
    chain arriving {{ type filter hook ingress device "b6" priority 0; udp dport {FORBIDDEN} drop; }}
}}"""
OWN = """table inet own {
    chain input { type filter hook input priority 0; udp dport 1 drop; }
    chain output { type route hook output priority 0; udp dport 1 drop; }
}"""
OUT = ("src", f"{V6}/128", "dst", PREF64, "proto", "udp", "dport", str(FORBIDDEN), "dir", "out")
DROP = ("-A", "FORWARD", "-p", "udp", "--dport", str(FORBIDDEN), "-j", "DROP")
# The packet's port, behind an IPv6 header; what matches goes to a link that is down.
STEAL = f"""
ip link add none0 type veth peer none1
tc qdisc add dev b6 {{}}
tc filter add dev b6 {{}} prio 7 protocol ipv6 u32 match ip6 protocol 17 0xff match u16 {FORBIDDEN} 0xffff at 42 \
    action mirred egress redirect dev none0
"""


@dataclass(frozen=True)
class Guard:
    """A rule of the host: how it comes and goes, as a shell says it; and why `auto` keeps away from it, as a pattern."""

    add: str
    why: str
    reason: str = "netfilter"
    # None: the kernel keeps it for as long as the namespace lasts.
    remove: str | None = None
    of_false_sources: bool = False


GUARDS = {
    "nftables": Guard(f"echo '{FORWARD}' | nft -f -", "nftables has rules", remove="nft flush ruleset"),
    "nftables at an ingress": Guard(f"echo '{INGRESS}' | nft -f -", "nftables has rules", remove="nft flush ruleset"),
    "iptables-legacy": Guard(f"iptables-legacy {' '.join(DROP)}", r"iptables-legacy has tables \(filter of IPv4\)"),
    "ip6tables-legacy": Guard(f"ip6tables-legacy {' '.join(DROP)}", r"iptables-legacy has tables \(filter of IPv6\)"),
    # Of the family in which packets arrive: `inline` would bypass it, too.
    "an IPsec policy": Guard(
        f"ip xfrm policy add {' '.join(OUT)} action block",
        r"this host has IPsec policies \(1 of IPv6\)",
        reason="ipsec",
        remove="ip xfrm policy flush",
    ),
    "a reverse-path filter": Guard(
        "sysctl -qw net.ipv4.conf.b4.rp_filter=1",
        "b4 has a strict reverse-path filter",
        remove="sysctl -qw net.ipv4.conf.b4.rp_filter=0",
        of_false_sources=True,
    ),
    # Of the family in which packets arrive; the programs look routes up in the other one.
    "a policy rule": Guard(
        f"ip -6 rule add ipproto udp dport {FORBIDDEN} prohibit",
        "this host has policy rules of IPv6",
        remove=f"ip -6 rule del ipproto udp dport {FORBIDDEN} prohibit",
    ),
    "a tc filter": Guard(
        STEAL.format("clsact", "ingress"), "b6 has tc filters of another program", remove="tc qdisc del dev b6 clsact"
    ),
    "a tc filter at the older discipline": Guard(
        STEAL.format("ingress", "parent ffff:"), "b6 has tc filters of another program", remove="tc qdisc del dev b6 ingress"
    ),
}

every_guard = pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS.keys())


def shell(net: SiitNetwork, script: str) -> None:
    """Run a script in the translator's namespace; no step may fail."""
    net.run(net.translator, "sh", "-ec", script)


def named(placement: str = "") -> str:
    """The configuration with named interfaces, and a placement if one is given."""
    keys = 'interfaces = ["b4", "b6"]\n' + (f'placement = "{placement}"\n' if placement else "")
    return CONFIG.replace("[translator]\n", f"[translator]\n{keys}")


def arrives(net: SiitNetwork, port: int, guard: Guard) -> bool:
    """Whether a datagram to this port crosses the translator, in the direction and from the source that the rule is about."""
    if guard.of_false_sources:
        ends = (net.v4, socket.AF_INET, FALSE if port == FORBIDDEN else V4, V6_MAPPED), (net.v6, socket.AF_INET6, V6)
    else:
        ends = (net.v6, socket.AF_INET6, V6, V4_IN_IPV6), (net.v4, socket.AF_INET, V4)
    (sends, its, source, to), (receives, other, address) = ends
    with create_socket(receives, other, socket.SOCK_DGRAM) as receiver, create_socket(sends, its, socket.SOCK_DGRAM) as sender:
        receiver.bind((address, port))
        receiver.settimeout(0.5)
        sender.bind((source, 0))
        sender.sendto(b"a question", (to, port))
        try:
            return receiver.recv(100) == b"a question"
        except TimeoutError:
            return False


@every_guard
def test_a_rule_that_is_there(siit: SiitNetwork, guard: Guard) -> None:
    """Without the key, every packet meets the rule, and one line says where packets are translated and why."""
    siit.batch(siit.v4, f"address add {FALSE}/32 dev lo")
    shell(siit, guard.add)
    siit.configure(named("direct"))
    direct = siit.siit()
    siit.until(lambda: arrives(siit, ALLOWED, guard))
    assert arrives(siit, FORBIDDEN, guard), "no program could bypass this rule"
    assert direct.stop() == 0
    siit.configure(named())
    running = siit.siit()
    assert re.search(f"placement auto: device: .*{guard.why}", running.log()), running.log()
    assert running.log().count("placement auto:") == 1
    assert findings(siit, "trouble") == []
    siit.until(lambda: arrives(siit, ALLOWED, guard))
    assert not arrives(siit, FORBIDDEN, guard)
    assert siit.diolkos("reload") == (0, "")
    assert not arrives(siit, FORBIDDEN, guard)


@every_guard
def test_a_rule_that_comes_later(siit: SiitNetwork, guard: Guard) -> None:
    """It is a trouble with its name while it is there; a restart obeys it."""
    siit.configure(named())
    running = siit.siit()
    assert "placement auto: direct" in running.log()
    assert findings(siit, "trouble") == []
    shell(siit, guard.add)
    siit.until(lambda: [reason for reason, _ in findings(siit, "trouble")] == [guard.reason])
    [(_, text)] = findings(siit, "trouble")
    assert re.search(guard.why, text) and 'restart diolkos, so that placement "auto" chooses "device"' in text
    assert text in running.log()
    if guard.remove is not None:
        shell(siit, guard.remove)
        siit.until(lambda: findings(siit, "trouble") == [])
        assert f"no longer: {text}" in running.log()
        shell(siit, "ip link del none0 2> /dev/null || true")
        shell(siit, guard.add)
    assert running.stop() == 0
    again = siit.siit()
    assert re.search(f"placement auto: device: .*{guard.why}", again.log()), again.log()
    assert findings(siit, "trouble") == []


def test_a_host_without_rules(siit: SiitNetwork) -> None:
    """With named interfaces packets are sent directly. Rules of the host's own packets do not matter."""
    shell(siit, f"echo '{OWN}' | nft -f -")
    shell(siit, "sysctl -qw net.ipv4.conf.b4.rp_filter=2; tc qdisc add dev b4 root tbf rate 1gbit burst 1mb latency 50ms")
    siit.configure(named())
    running = siit.siit()
    assert running.log().count("placement auto:") == 1 and "placement auto: direct" in running.log()
    assert ", direct between b4, b6" in running.log()
    siit.until(lambda: arrives(siit, ALLOWED, GUARDS["nftables"]))
    siit.until(lambda: arrives(siit, ALLOWED, GUARDS["nftables"]) and siit.counters()["fast.sent_direct"] > 0)
    assert findings(siit, "trouble") == []
    assert running.stop() == 0
    assert siit.leftovers() == []


def test_without_interfaces(siit: SiitNetwork) -> None:
    """The log says which key would let packets be sent directly."""
    running = siit.siit()
    assert "placement auto: device: no `interfaces` are named; name them to allow `direct` or `xdp`" in running.log()
    assert running.log().count("placement auto:") == 1
    siit.until(lambda: arrives(siit, ALLOWED, GUARDS["nftables"]))
    assert siit.counters()["fast.sent_direct"] == 0


def test_inline_obeys_policies_of_one_family(siit: SiitNetwork) -> None:
    """Those of the family in which packets leave. So `auto` is not `inline` where there are policies."""
    policy = GUARDS["an IPsec policy"]
    shell(siit, policy.add)
    siit.configure(named("inline"))
    siit.siit()
    siit.until(lambda: arrives(siit, ALLOWED, policy))
    assert arrives(siit, FORBIDDEN, policy)
    leaving = f"ip xfrm policy add src {V6_MAPPED}/32 dst {V4}/32 proto udp dport {FORBIDDEN} dir out action block"
    shell(siit, leaving)
    assert not arrives(siit, FORBIDDEN, policy)
    assert arrives(siit, ALLOWED, policy)


def test_a_port_of_a_bridge(siit: SiitNetwork) -> None:
    """What a bridge would filter or forward is not taken from it."""
    shell(siit, "ip link add br0 type bridge; ip link add p0 type veth peer p1; ip link set p0 master br0")
    siit.configure(named().replace('"b4", "b6"', '"b4", "b6", "p0"'))
    running = siit.siit()
    assert "placement auto: device: p0 is a port of br0" in running.log()


def test_the_slow_path_alone(siit: SiitNetwork) -> None:
    """Named interfaces do not contradict a datapath without programs, as they never did."""
    siit.configure(named())
    running = siit.siit("--datapath", "tun")
    assert "placement auto: device: `datapath` excludes the eBPF fast path" in running.log()
    assert "datapath tun" in running.log()
    siit.until(lambda: arrives(siit, ALLOWED, GUARDS["nftables"]))


@pytest.mark.parametrize("kind", ["blackhole", "prohibit", "unreachable", "throw"])
def test_a_route_that_discards(siit: SiitNetwork, kind: str) -> None:
    """A part of the prefix, in the family in which packets arrive: at the start and later."""
    add = f"ip -6 route add {kind} {V4_IN_IPV6}/128"
    said = f"routes of this host discard packets to the translator ({kind} {V4_IN_IPV6}/128)"
    siit.configure(named())
    running = siit.siit()
    siit.until(lambda: arrives(siit, ALLOWED, GUARDS["nftables"]))
    shell(siit, add)
    siit.until(lambda: [text.startswith(said) for _, text in findings(siit, "trouble")] == [True])
    shell(siit, add.replace(" add ", " del "))
    siit.until(lambda: findings(siit, "trouble") == [])
    shell(siit, f"ip -6 route add {kind} 2001:db8:ffff::/64")
    assert running.stop() == 0
    running = siit.siit()
    assert "placement auto: direct" in running.log()
    assert running.stop() == 0
    shell(siit, add)
    running = siit.siit()
    assert f"placement auto: device: {said}" in running.log()
    assert findings(siit, "trouble") == []


def test_a_link_layer_that_programs_cannot_read(siit: SiitNetwork) -> None:
    """The router starts, as it did without the placement."""
    siit.configure(named().replace('"b4", "b6"', '"b4", "b6", "lo"'))
    running = siit.siit()
    assert "placement auto: device: programs cannot read the link layer of lo" in running.log()
    siit.until(lambda: arrives(siit, ALLOWED, GUARDS["nftables"]))
