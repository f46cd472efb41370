# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What goes through a CLAT, by real programs and by Scapy as a judge that shares no code with us."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from kernel import HOOKS
from network import SERVER4, SERVER6, SERVER_SYNTHESIZED, Network

TRANSFER = """
import hashlib, socket, sys
role, host, port, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def pump(sock):
    digest, chunk = hashlib.sha256(), None
    for i in range(megabytes):
        chunk = hashlib.shake_128(i.to_bytes(4, "big")).digest(1 << 20)
        digest.update(chunk)
        sock.sendall(chunk)
    sock.shutdown(socket.SHUT_WR)
    return digest.hexdigest()
def drain(sock):
    digest = hashlib.sha256()
    while chunk := sock.recv(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()
if role == "server":
    listener = socket.create_server((host, port), family=socket.AF_INET6)
    print("listening", flush=True)
    sock = listener.accept()[0]
    print(drain(sock), pump(sock), flush=True)
else:
    sock = socket.create_connection((host, port))
    print(pump(sock), drain(sock), flush=True)
"""


def server(net: Network, code: str, *arguments: str) -> subprocess.Popen:
    """Start Python code in the server that prints one line when it listens."""
    process = net.start(net.server, sys.executable, "-c", code, *arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "listening"
    return process


def fast(datapath: str) -> bool:
    """Whether the fast path should carry what is plain."""
    return datapath != "tun"


def test_ping(net: Network, datapath: str) -> None:
    """Echo requests and replies are translated; in `tc` by the fast path, in `tun` by the slow path."""
    clat = net.clat(datapath)
    done = net.ping("-c20")
    assert "20 received" in done.stdout, done.stdout + clat.log()
    counters = net.counters()
    path = "fast" if fast(datapath) else "slow"
    assert counters[f"{path}.translated_4to6"] == 20
    assert counters[f"{path}.translated_6to4"] == 20
    if fast(datapath):
        assert counters["slow.translated_4to6"] == counters["slow.translated_6to4"] == counters["fast.failed"] == 0
        assert ("clsact" if datapath == "clsact" else HOOKS[0]) in clat.log()


def test_tcp_arrives_unchanged_both_ways(net: Network, datapath: str) -> None:
    """Sixty-four megabytes each way, checked by their hash."""
    net.clat(datapath)
    peer = server(net, TRANSFER, "server", SERVER_SYNTHESIZED, "4000", "64")
    sent, received = net.run(net.client, sys.executable, "-c", TRANSFER, "client", SERVER4, "4000", "64").stdout.split()
    got, answered = peer.stdout.readline().split()
    assert (sent, received) == (got, answered)
    counters = net.counters()
    path = "fast" if fast(datapath) else "slow"
    assert counters[f"{path}.translated_4to6"] > 1000


@pytest.mark.parametrize("reverse", [False, True])
def test_super_packets_stay_whole(net: Network, datapath: str, reverse: bool) -> None:
    """TCP travels in packets larger than the MTU in the translator and on its far side, where the router's link counts."""
    net.clat(datapath)
    side = "tx" if reverse else "rx"
    before = net.ip_json(net.router, "-s", "link", "show", "down0")[0]["stats64"][side]
    iperf = net.start(net.server, "iperf3", "-s", "-1", stdout=subprocess.DEVNULL)
    net.until(lambda: ":5201" in net.run(net.server, "ss", "-ltn").stdout)
    net.run(net.client, "iperf3", "-c", SERVER4, "-t", "1", *(["-R"] if reverse else []))
    iperf.wait(10)
    after = net.ip_json(net.router, "-s", "link", "show", "down0")[0]["stats64"][side]
    size = (after["bytes"] - before["bytes"]) / (after["packets"] - before["packets"])
    assert size > 3000, f"{size:.0f} bytes on average are not super-packets"
    name = f"{'fast' if fast(datapath) else 'slow'}.translated_{'6to4' if reverse else '4to6'}"
    assert net.counters("bytes")[name] / net.counters()[name] > 3000


UDP_ECHO = """
import socket, sys
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
while True:
    data, peer = sock.recvfrom(65535)
    sock.sendto(data[::-1], peer)
"""

UDP_ASK = """
import os, socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(2)
sock.connect((sys.argv[1], int(sys.argv[2])))
for size in map(int, sys.argv[3:]):
    data = os.urandom(size)
    sock.send(data)
    answer = sock.recv(65535)
    assert answer == data[::-1], size
print("all")
"""


def test_udp_of_every_size_that_fits(net: Network, datapath: str) -> None:
    """From nothing to the most that the route's MTU allows: 1472 less 28 bytes of headers."""
    net.clat(datapath)
    server(net, UDP_ECHO, SERVER_SYNTHESIZED, "4000")
    sizes = ["0", "1", "2", "7", "8", "100", "1231", "1232", "1233", "1260", "1400", "1443", "1444"]
    assert net.run(net.client, sys.executable, "-c", UDP_ASK, SERVER4, "4000", *sizes).stdout == "all\n"


def test_no_full_size_packet_is_too_big(net: Network, datapath: str) -> None:
    """The IPv4 route's MTU leaves room for the larger header and for a Fragment header."""
    net.clat(datapath)
    route = next(r for r in net.ip_json(net.client, "-4", "route") if r["dst"] == "default")
    assert route["dev"] == "diolkos0"
    assert route["metrics"][0]["mtu"] == 1500 - 28
    assert route["prefsrc"] == "192.0.0.1"
    fits = net.ping("-c3", "-M", "do", "-s", str(1472 - 28))
    assert "3 received" in fits.stdout, fits.stdout
    too_big = net.ping("-c1", "-M", "do", "-s", str(1472 - 27))
    assert too_big.returncode != 0 and "mtu" in (too_big.stdout + too_big.stderr).lower()


def test_the_kernel_sees_both_packets(net: Network, datapath: str) -> None:
    """Routing and nftables meet the IPv4 packet on the TUN device, going and coming."""
    net.clat(datapath)
    net.run(net.client, "nft", "-f", "-", input="""
        table inet seen {
            chain out {
                type filter hook output priority 0;
                oifname "diolkos0" ip protocol icmp counter;
            }
            chain in {
                type filter hook input priority 0;
                iifname "diolkos0" ip protocol icmp counter;
            }
        }""")  # fmt: skip
    assert "5 received" in net.ping("-c5").stdout
    rules = net.run(net.client, "nft", "list", "ruleset").stdout
    assert re.findall(r"counter packets (\d+)", rules) == ["5", "5"], rules


def test_a_network_behind_the_host(net: Network, datapath: str) -> None:
    """A router may masquerade its own IPv4 network behind the CLAT's address."""
    net.clat(datapath)
    behind = net.add_network_behind()
    done = net.run(behind, "ping", "-c3", "-i0.2", "-W2", SERVER4, check=False)
    assert "3 received" in done.stdout, done.stdout


def test_only_its_own_address_is_translated(net: Network, datapath: str) -> None:
    """Another IPv4 source would claim an address of the IPv4 Internet; it is dropped, by name."""
    net.clat(datapath)
    net.run(net.client, "ip", "address", "add", "198.18.9.9/32", "dev", "lo")
    assert net.ping("-c3", "-I", "198.18.9.9").returncode != 0
    counters = net.counters()
    assert counters["slow.drop.source_unmapped"] == 3, {k: v for k, v in counters.items() if v}
    assert counters["slow.translated_4to6"] == 0


def test_ipv6_of_the_host_is_left_alone(net: Network, datapath: str) -> None:
    """The host's own IPv6 goes on as before, at full size, while a CLAT runs and after it."""
    clat = net.clat(datapath)
    for _ in range(2):
        done = net.ping("-6", "-c5", "-s", "1400", to=SERVER6)
        assert "5 received" in done.stdout, done.stdout
        clat.stop()


def test_the_router_may_change(net: Network, datapath: str) -> None:
    """The fast path knows the router behind the prefix, and follows the routes: nothing is lost for long."""
    net.clat(datapath)
    assert "3 received" in net.ping("-c3").stdout
    net.ip(net.router, "address", "add", "2001:2:0:1::99/64", "dev", "down0", "nodad")
    net.ip(net.client, "route", "replace", "default", "via", "2001:2:0:1::99")
    net.ip(net.router, "address", "del", "2001:2:0:1::1/64", "dev", "down0")
    net.ip(net.client, "neighbour", "flush", "dev", "wan0")
    # Until the program has read the kernel's news, which a busy machine delays, the fast path goes on to the old router.
    net.until(lambda: net.ping("-c1").returncode == 0)
    assert "5 received" in net.ping("-c5").stdout


def test_routes_inside_the_prefix_are_obeyed(net: Network, datapath: str) -> None:
    """A part of the IPv4 Internet may lie behind another router, or behind none."""
    net.clat(datapath)
    net.ip(net.client, "route", "add", "unreachable", "64:ff9b::c000:0/112")
    net.until(lambda: net.ping("-c1", "-W0.2").returncode != 0)
    net.ip(net.client, "route", "del", "unreachable", "64:ff9b::c000:0/112")
    net.until(lambda: net.ping("-c1", "-W0.2").returncode == 0)


def test_a_tunnel_of_the_host(net: Network, datapath: str) -> None:
    """VXLAN over the CLAT: its super-packets and checksums are those of the packets inside."""
    ours6 = net.clat(datapath).log().split("<-> ")[1].split()[0]
    vxlan = ("type", "vxlan", "id", "7", "dstport", "4789")
    net.run(net.client, "ip", "link", "add", "vx0", *vxlan, "local", "192.0.0.1", "remote", SERVER4)
    net.run(net.server, "ip", "link", "add", "vx0", *vxlan, "local", SERVER_SYNTHESIZED, "remote", ours6)
    for name, address in ((net.client, "198.18.7.1"), (net.server, "198.18.7.2")):
        net.run(name, "ip", "link", "set", "vx0", "mtu", "1300", "up")
        net.run(name, "ip", "address", "add", f"{address}/24", "dev", "vx0")
    peer = server(net, TRANSFER.replace("AF_INET6", "AF_INET"), "server", "198.18.7.2", "4000", "4")
    done = net.run(net.client, sys.executable, "-c", TRANSFER, "client", "198.18.7.2", "4000", "4")
    assert done.stdout.split() == peer.stdout.readline().split()
