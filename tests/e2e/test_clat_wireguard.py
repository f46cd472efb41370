# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host whose whole traffic goes through WireGuard to an IPv4 endpoint, over the CLAT of an IPv6-only network."""

from __future__ import annotations

import subprocess

import pytest
from network import SERVER4, Network
from test_clat_ways import counted, status
from test_tunnels import exchange

INNER = {"client": ("198.18.7.4", "fd00:7::4"), "server": ("198.18.7.6", "fd00:7::6")}
PORT = TABLE = MARK = "51820"
# Its socket lies below /run, which is therefore one of its own.
WIREGUARD = "mount -t tmpfs none /run; exec wireguard-go -f wg0"


def add_end(net: Network, role: str, mtu: int) -> subprocess.Popen:
    """An interface wg0 with its addresses."""
    name = getattr(net, role)
    process = net.start(name, "unshare", "-m", "sh", "-c", WIREGUARD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    net.until(lambda: net.run(name, "ip", "link", "show", "wg0", check=False).returncode == 0)
    for address in INNER[role]:
        net.run(name, "ip", "address", "add", address, "dev", "wg0", *(["nodad"] if ":" in address else []))
    net.run(name, "ip", "link", "set", "wg0", "mtu", str(mtu), "up")
    return process


def wg(process: subprocess.Popen, *arguments: str, given: str = "") -> str:
    """Run wg(8) where the socket of an end is."""
    command = ["nsenter", "-t", str(process.pid), "-m", "-n", "wg", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=given, timeout=30).stdout.strip()


def tunnel(net: Network, mtu: int) -> None:
    """As wg-quick makes it on the client, with AllowedIPs 0.0.0.0/0 and ::/0."""
    ends = {role: add_end(net, role, mtu) for role in ("client", "server")}
    public = {}
    for role, end in ends.items():
        private = subprocess.run(["wg", "genkey"], check=True, capture_output=True, text=True).stdout
        net.until(lambda end=end: socket_is_there(end))
        wg(end, "set", "wg0", "listen-port", PORT, "private-key", "/dev/stdin", given=private)
        public[role] = wg(end, "pubkey", given=private)
    inner = ",".join(INNER["client"])
    wg(ends["server"], "set", "wg0", "peer", public["client"], "allowed-ips", inner)
    wg(ends["client"], "set", "wg0", "fwmark", MARK, "peer", public["server"], "allowed-ips", "0.0.0.0/0,::/0",
       "endpoint", f"{SERVER4}:{PORT}")  # fmt: skip
    for address in INNER["client"]:
        family = "-6" if ":" in address else "-4"
        net.run(net.server, "ip", family, "route", "add", address, "dev", "wg0")
        net.run(net.client, "ip", family, "route", "add", "default", "dev", "wg0", "table", TABLE)
        net.run(net.client, "ip", family, "rule", "add", "not", "fwmark", MARK, "table", TABLE)
        net.run(net.client, "ip", family, "rule", "add", "table", "main", "suppress_prefixlength", "0")


def socket_is_there(end: subprocess.Popen) -> bool:
    """It can be told what to do."""
    look = ["nsenter", "-t", str(end.pid), "-m", "test", "-S", "/run/wireguard/wg0.sock"]
    return subprocess.run(look, check=False).returncode == 0


# wireguard-go needs more CPU time than the rest of a test together, and beside others a connection may take longer than 10 s.
@pytest.mark.alone
@pytest.mark.parametrize("datapath", ["tc", "tun"])
# With the second, what leaves the tunnel is longer than the CLAT's way, and is sent in fragments.
@pytest.mark.parametrize("mtu", [1420, 1460])
def test_all_traffic_through_wireguard(net: Network, datapath: str, mtu: int) -> None:
    """Both families inside, in datagrams and streams; the CLAT does not translate its own output."""
    clat = net.clat(datapath)
    tunnel(net, mtu)
    for address in INNER["server"]:
        net.until(lambda address=address: net.ping("-c1", "-W1", to=address).returncode == 0)
        assert "3 received" in net.ping("-c3", "-s1300", to=address).stdout, clat.log()
    exchange(net.client, INNER["client"][0], net.server, INNER["server"][0], 300_000)
    assert counted(net, "fast.translated_4to6", "slow.translated_4to6") < 5000, clat.log()
    assert (status(net)["state"], status(net)["obstacles"]) == ("ready", [])
