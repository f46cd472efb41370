# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A router is ready only if packets can pass: what this host can see of its neighbours, its files, its sockets and its IPsec
policies is an obstacle or a trouble in the status, the log, the metrics and the probes, as long as it lasts."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from logs import COLLECTOR, PORT, collector
from nat64 import CONFIG, POOL, Nat64Network, ask, in_ipv6
from network import NOT_READY, create_socket
from prometheus import AT, METRICS, curl, scraped
from siit import PREF64, TRANSLATOR4, V4, V6
from test_nat64_state_file import fill

# In the network of b4; and a prefix in that of b6.
INSIDE = "198.51.100.8/29"
ON_LINK = "2001:db8:6:0:64::/96"
ANNOUNCE = '\n[[announce]]\ninterface = "b4"\n'


def findings(net: Nat64Network, kind: str) -> list[tuple[str, str]]:
    """Reasons and texts."""
    found = net.status(net.translator)["findings"]
    return [(its["reason"], its["text"]) for its in found if its["kind"] == kind]


def probe(net: Nat64Network, page: str) -> tuple[str, str]:
    """The code of a page, and what it says."""
    done = curl(net, net.translator, "--write-out", "%{http_code}", f"http://{AT}/{page}")
    return done.stdout[-3:], done.stdout[:-3].strip()


def test_a_pool_that_nobody_answers_for(nat64: Nat64Network) -> None:
    """Status, exit code, log, metrics and probe say it; each thing that ends it is seen without a restart."""
    inside = CONFIG.replace(POOL, INSIDE) + METRICS
    running = nat64.nat64(inside)
    said = f"nobody answers ARP for {INSIDE} on b4, which is in 198.51.100.0/24"
    assert f"not ready: nat64 on diolkos0, prefixes {PREF64}, pool {INSIDE}" in running.log()
    assert said in running.log()
    [(reason, text)] = findings(nat64, "obstacle")
    assert reason == "unannounced" and text.startswith(said) and "[[announce]]" in text
    shown = nat64.run(nat64.translator, str(nat64.program), "show", "status", check=False)
    assert (
        shown.returncode == NOT_READY
        and shown.stdout.startswith("diolkos0 is waiting")
        and f"\nobstacle  {text}\n" in shown.stdout
    )
    nat64.until(lambda: "metrics are served" in running.log())
    assert probe(nat64, "readyz") == ("503", text)
    assert probe(nat64, "healthz") == ("200", "healthy")
    series = scraped(nat64, nat64.translator)
    assert (series["diolkos_ready"], series['diolkos_obstacles{reason="unannounced"}']) == (0, 1)
    assert not any("198.51.100" in name for name in series)

    def is_ready() -> bool:
        return nat64.status(nat64.translator)["state"] == "ready"

    # The kernel answers for all that it routes elsewhere; for one address that it is told; or diolkos does.
    nat64.sysctl(nat64.translator, "net.ipv4.conf.b4.proxy_arp", "1")
    nat64.until(is_ready)
    nat64.until(lambda: f"no longer: {said}" in running.log())
    nat64.until(lambda: "INFO ready: nat64" in running.log())
    assert probe(nat64, "readyz") == ("200", "ready")
    nat64.sysctl(nat64.translator, "net.ipv4.conf.b4.proxy_arp", "0")
    nat64.until(lambda: not is_ready())
    nat64.ip(nat64.translator, "neighbour", "add", "proxy", "198.51.100.9", "dev", "b4")
    nat64.until(is_ready)
    nat64.ip(nat64.translator, "neighbour", "del", "proxy", "198.51.100.9", "dev", "b4")
    nat64.until(lambda: not is_ready())
    assert nat64.reload(inside + ANNOUNCE) == (0, "")
    # Not before it has asked whether another node has the addresses.
    assert not is_ready()
    nat64.until(is_ready)
    assert nat64.reload(CONFIG + METRICS) == (0, "")
    assert is_ready(), "another pool, outside of all networks"
    assert nat64.reload(inside) == (0, "")
    assert not is_ready()
    # Somebody routes it here, which no look at this host can tell: the first answer does.
    nat64.ip(nat64.v4, "route", "add", INSIDE, "via", TRANSLATOR4)
    ask(nat64.socket(V6), (in_ipv6(V4), 4711), nat64.socket(V4, 4711))
    nat64.until(is_ready)
    assert findings(nat64, "trouble") == []


def test_a_prefix_inside_a_lan(nat64: Nat64Network) -> None:
    """Its nodes ask neighbours for what they should send to the router."""
    running = nat64.nat64(CONFIG.replace(PREF64, ON_LINK))
    [(reason, text)] = findings(nat64, "obstacle")
    assert reason == "unannounced" and text.startswith(f"{ON_LINK} lies in 2001:db8:6::/64, the network of b6")
    assert text in running.log()
    nat64.ip(nat64.translator, "address", "del", "2001:db8:6::1/64", "dev", "b6")
    nat64.ip(nat64.translator, "address", "add", "2001:db8:6::1/128", "dev", "b6")
    nat64.until(lambda: findings(nat64, "obstacle") == [])


@pytest.fixture
def small(nat64: Nat64Network) -> Iterator[Path]:
    """A folder on a disk of its own, which is soon full."""
    folder = nat64.scratch / "small"
    folder.mkdir(mode=0o700)
    nat64.host("mount", "-t", "tmpfs", "-o", "size=128k,mode=700", "none", str(folder))
    yield folder
    nat64.host("umount", "--lazy", str(folder))


def test_troubles_leave_it_ready(nat64: Nat64Network, small: Path) -> None:
    """A state file that cannot be written and a port that is taken: packets pass, so it is ready, and says what is wrong."""
    taken = create_socket(nat64.translator, socket.AF_INET6, socket.SOCK_STREAM)
    nat64.sockets.append(taken)
    taken.bind(("::1", 9464))
    taken.listen(1)
    state = small / "state"
    config = CONFIG.replace("[[nat64", f'[nat64]\nstate = "{state}"\n[[nat64') + METRICS
    running = nat64.nat64(config + collector(to="syslog", address=f"{COLLECTOR}:{PORT}", transport="tcp"))

    def reasons() -> list[str]:
        return sorted(reason for reason, _ in findings(nat64, "trouble"))

    nat64.until(lambda: reasons() == ["log", "metrics"])
    text = dict(findings(nat64, "trouble"))["log"]
    assert text.startswith('log.bindings "syslog": the collector takes no records (Connection refused')
    text = dict(findings(nat64, "trouble"))["metrics"]
    assert text.startswith("metrics cannot be served at [::1]:9464 (")
    assert f"(process {os.getpid()}) has that port" in text
    filling = fill(small)
    nat64.diolkos("bind", "add", "udp", "192.0.2.1:53", f"[{V6}]:53")
    nat64.until(lambda: reasons() == ["log", "metrics", "state_file"])
    text = dict(findings(nat64, "trouble"))["state_file"]
    assert str(state) in text and "No space left on device" in text
    shown = nat64.run(nat64.translator, str(nat64.program), "show", "status").stdout
    assert shown.startswith("diolkos0 is ready") and f"\ntrouble   {text}\n" in shown
    filling.unlink()
    taken.close()
    listens = create_socket(nat64.translator, socket.AF_INET, socket.SOCK_STREAM)
    nat64.sockets.append(listens)
    listens.bind((COLLECTOR, PORT))
    listens.listen(1)
    # Each change is a reason to write again.
    nat64.bind("add", "udp", "192.0.2.1:54", f"[{V6}]:54")
    nat64.until(lambda: findings(nat64, "trouble") == [])
    nat64.until(lambda: "metrics are served at [::1]:9464" in running.log())
    assert scraped(nat64, nat64.translator)['diolkos_troubles{reason="state_file"}'] == 0


POLICY = ("xfrm", "policy", "add", "dir", "out", "src", PREF64, "dst", f"{V6}/128", "action", "block")


def placed(net: Nat64Network, placement: str, pool: str = POOL) -> None:
    """Have it translate where this says, at both interfaces."""
    keys = f'placement = "{placement}"\ninterfaces = ["b4", "b6"]'
    net.configure(CONFIG.replace("[translator]\n", f"[translator]\n{keys}\n").replace(POOL, pool))


def test_auto_does_not_bypass_ipsec(nat64: Nat64Network) -> None:
    """With a policy, `auto` is `device`, and the policy holds; it stays so over a reload of the same file."""
    nat64.run(nat64.translator, "ip", *POLICY)
    placed(nat64, "auto")
    running = nat64.siit(command="nat64")
    assert "placement auto: device: this host has IPsec policies (1 of IPv6)" in running.log()
    assert " at b4, b6" not in running.log() and "between" not in running.log()
    assert findings(nat64, "trouble") == []
    source, server = nat64.socket(V6), nat64.socket(V4, 4711)
    source.sendto(b"question", (in_ipv6(V4), 4711))
    _, peer = server.recvfrom(100)
    server.sendto(b"blocked", peer)
    nat64.until(lambda: int(nat64.counters()["fast.translated_4to6"]) + int(nat64.counters()["slow.translated_4to6"]) > 0)
    assert nat64.diolkos("reload") == (0, "")
    nat64.run(nat64.translator, "ip", "xfrm", "policy", "flush")
    server.sendto(b"passes", peer)
    assert source.recv(100) == b"passes", "what came before was blocked"


def test_policies_that_come_later(nat64: Nat64Network) -> None:
    """The status names them while they are there."""
    placed(nat64, "direct")
    running = nat64.siit(command="nat64")
    assert findings(nat64, "trouble") == []
    nat64.run(nat64.translator, "ip", *POLICY)
    nat64.until(lambda: [reason for reason, _ in findings(nat64, "trouble")] == ["ipsec"])
    assert "translated packets bypass them: set translator.placement" in running.log()
    nat64.run(nat64.translator, "ip", "xfrm", "policy", "flush")
    nat64.until(lambda: findings(nat64, "trouble") == [])


def test_a_default_that_blocks_is_a_policy(nat64: Nat64Network) -> None:
    """`auto` keeps away from what would bypass it, and the status of `direct` names it as soon as it is set."""
    default = ("ip", "xfrm", "policy", "setdefault", "fwd")
    nat64.run(nat64.translator, *default, "block")
    placed(nat64, "auto")
    running = nat64.siit(command="nat64")
    assert "placement auto: device: this host has IPsec policies (the default blocks)" in running.log()
    assert running.stop() == 0
    nat64.run(nat64.translator, *default, "accept")
    placed(nat64, "direct")
    running = nat64.siit(command="nat64")
    assert findings(nat64, "trouble") == []
    nat64.run(nat64.translator, *default, "block")
    nat64.until(lambda: [reason for reason, _ in findings(nat64, "trouble")] == ["ipsec"])
    nat64.run(nat64.translator, *default, "accept")
    nat64.until(lambda: findings(nat64, "trouble") == [])


NAT = """table ip nat {{
chain post {{ type nat hook postrouting priority 100; oifname "b4" ip saddr {pool} masquerade; }}
}}
"""
PRIVATE = "192.168.64.0/29"


def masquerade(net: Nat64Network) -> None:
    """A router with one address gives the pool private addresses."""
    net.run(net.translator, "nft", "-f", "-", input=NAT.format(pool=PRIVATE))


def test_auto_does_not_bypass_nftables(nat64: Nat64Network) -> None:
    """With rules for forwarded packets, `auto` is `device`: every packet leaves with the address that they give it."""
    masquerade(nat64)
    placed(nat64, "auto", PRIVATE)
    running = nat64.siit(command="nat64")
    assert "placement auto: device: nftables has rules for packets that this host forwards" in running.log()
    assert findings(nat64, "trouble") == []
    source, server = nat64.socket(V6), nat64.socket(V4, 4711)
    for number in range(3):
        source.sendto(bytes([number]), (in_ipv6(V4), 4711))
        data, peer = server.recvfrom(100)
        assert (data, peer[0]) == (bytes([number]), TRANSLATOR4)
        server.sendto(b"answer", peer)
        assert source.recv(100) == b"answer"
    assert nat64.diolkos("reload") == (0, "")


def test_rules_that_come_later(nat64: Nat64Network) -> None:
    """`auto` has chosen without them: the status names them while they are there."""
    placed(nat64, "auto")
    running = nat64.siit(command="nat64")
    assert "placement auto: direct" in running.log()
    assert findings(nat64, "trouble") == []
    masquerade(nat64)
    nat64.until(lambda: [reason for reason, _ in findings(nat64, "trouble")] == ["netfilter"])
    assert 'restart diolkos, so that placement "auto" chooses "device"' in running.log()
    nat64.run(nat64.translator, "nft", "flush", "ruleset")
    nat64.until(lambda: findings(nat64, "trouble") == [])


def test_a_private_pool_that_nobody_masquerades(nat64: Nat64Network) -> None:
    """With a chosen `direct`, the pool's private addresses would leave as they are. A pool of the Internet needs no NAT."""
    masquerade(nat64)
    placed(nat64, "direct", PRIVATE)
    running = nat64.siit(command="nat64")
    [(reason, text)] = findings(nat64, "trouble")
    assert reason == "netfilter"
    assert f"the pool has private addresses ({PRIVATE}), and translated packets bypass the NAT of nftables" in text
    placed(nat64, "direct")
    assert nat64.diolkos("reload") == (0, "")
    nat64.until(lambda: findings(nat64, "trouble") == [])
    assert running.process.poll() is None


def test_what_followers_hear(nat64: Nat64Network) -> None:
    """The interface's file describes what is sent."""
    nat64.nat64(CONFIG.replace(POOL, INSIDE))
    shown = nat64.run(nat64.translator, str(nat64.program), "show", "status", "--json", check=False).stdout
    assert list(json.loads(shown)["findings"][0]) == ["kind", "reason", "text"]


FAR = "198.41.0.0/16"
ISP = "198.51.100.2"


def is_waiting(net: Nat64Network, text: str) -> bool:
    """Whether the only obstacle is this, and scripts see it."""
    code = net.diolkos("status")[0]
    return code == NOT_READY and [why for why, its in findings(net, "obstacle") if text in its] == ["way"]


def is_ready(net: Nat64Network) -> bool:
    """Whether nothing stands in the way, also for scripts."""
    return net.diolkos("status")[0] == 0 and findings(net, "obstacle") == []


def test_a_default_that_goes(nat64: Nat64Network) -> None:
    """BGP withdraws it and the network of the uplink stays; or somebody discards what it led to."""
    nat64.run(nat64.translator, "ip", "route", "add", "default", "via", ISP)
    running = nat64.nat64(CONFIG)
    assert is_ready(nat64)
    nat64.run(nat64.translator, "ip", "route", "del", "default")
    nat64.until(lambda: is_waiting(nat64, "have no route any more"))
    assert "IPv4 packets to other networks, such as to 198.41.0.4, have no route any more: packets that" in running.log()
    nat64.run(nat64.translator, "ip", "route", "add", FAR, "via", ISP)
    nat64.until(lambda: is_ready(nat64))
    nat64.run(nat64.translator, "ip", "route", "del", FAR)
    nat64.until(lambda: is_waiting(nat64, "have no route any more"))
    nat64.run(nat64.translator, "ip", "route", "add", "default", "via", ISP, "metric", "100")
    nat64.until(lambda: is_ready(nat64))
    for kind in ("blackhole", "unreachable", "prohibit"):
        nat64.run(nat64.translator, "ip", "route", "add", kind, "default", "metric", "5")
        nat64.until(lambda kind=kind: is_waiting(nat64, f"are discarded by a route or rule ({kind})"))
        nat64.run(nat64.translator, "ip", "route", "del", kind, "default", "metric", "5")
        nat64.until(lambda: is_ready(nat64))
        # A rule that is unreachable is to IPv4 as no route at all.
        nat64.run(nat64.translator, "ip", "rule", "add", "from", POOL, "pref", "100", kind)
        nat64.until(lambda: is_waiting(nat64, "IPv4 packets to other networks"))
        nat64.run(nat64.translator, "ip", "rule", "del", "pref", "100")
        nat64.until(lambda: is_ready(nat64))
    # Whoever takes it away for good says so by a reload.
    nat64.run(nat64.translator, "ip", "route", "del", "default")
    nat64.until(lambda: is_waiting(nat64, "have no route any more"))
    assert nat64.diolkos("reload") == (0, "")
    assert is_ready(nat64)


def test_routers_without_a_default(nat64: Nat64Network) -> None:
    """Neither one that is connected to all it serves nor one with routes to everywhere lacks one; only discards are wrong."""
    running = nat64.nat64(CONFIG)
    assert is_ready(nat64)
    nat64.run(nat64.translator, "ip", "route", "add", "blackhole", "default")
    nat64.until(lambda: is_waiting(nat64, "are discarded by a route or rule (blackhole)"))
    nat64.run(nat64.translator, "ip", "route", "add", "203.0.113.0/24", "via", ISP)
    nat64.until(lambda: is_ready(nat64))
    assert running.stop() == 0
    nat64.nat64(CONFIG)
    assert is_ready(nat64)


def test_no_way_is_lost_without_forwarding(nat64: Nat64Network) -> None:
    """Without it the kernel refuses all packets, and that is what is said."""
    nat64.run(nat64.translator, "ip", "route", "add", "default", "via", ISP)
    nat64.nat64(CONFIG)
    nat64.sysctl(nat64.translator, "net.ipv4.conf.diolkos0.forwarding", "0")
    nat64.until(lambda: findings(nat64, "obstacle") != [])
    assert not any("discarded" in text for _, text in findings(nat64, "obstacle"))
    assert nat64.diolkos("reload") == (0, "")
    nat64.until(lambda: is_ready(nat64))
    nat64.run(nat64.translator, "ip", "route", "del", "default")
    nat64.until(lambda: is_waiting(nat64, "have no route any more"))
