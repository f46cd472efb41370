# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An uplink without link-layer headers, such as a modem's: two TUN devices joined by a process stand for it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from network import SERVER6, Network

CLIENT6 = "2001:2:0:3::2"
ROUTER6 = "2001:2:0:3::1"

# Opens a TUN device in each of two namespaces and carries packets from one to the other.
PIPE = """
import ctypes, fcntl, os, select, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def tun(namespace, name):
    with open(f"/run/netns/{namespace}") as ns:
        assert libc.setns(ns.fileno(), 0x40000000) == 0
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x0001 | 0x1000))
    return fd
ends = [tun(sys.argv[1], "modem0"), tun(sys.argv[2], "modem0")]
print("ready", flush=True)
while True:
    for fd in select.select(ends, [], [])[0]:
        packet = os.read(fd, 65535)
        try:
            os.write(ends[1 - ends.index(fd)], packet)
        except OSError:
            pass  # the other end is not up yet
"""


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_link_without_ethernet(net: Network, datapath: str) -> None:
    """There are no neighbours to ask, and no header to make: packets go as they are."""
    arguments = [sys.executable, "-c", PIPE, net.client, net.router]
    pipe = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    net.running.append(pipe)
    assert pipe.stdout.readline() == "ready\n"
    net.ip(net.client, "link", "del", "wan0")
    for name, address in ((net.client, CLIENT6), (net.router, ROUTER6)):
        net.ip(name, "address", "add", f"{address}/64", "dev", "modem0", "nodad")
        net.ip(name, "link", "set", "modem0", "up")
    net.ip(net.client, "route", "add", "default", "via", ROUTER6)
    net.until(lambda: net.ping("-6", "-c1", "-W0.2", to=SERVER6).returncode == 0)

    clat = net.clat(datapath, "--uplink", "modem0")
    assert "5 received" in net.ping("-c5").stdout, clat.log()
    counters = net.counters()
    path = "fast" if datapath == "tc" else "slow"
    assert counters[f"{path}.translated_4to6"] == counters[f"{path}.translated_6to4"] == 5
    fits = net.ping("-c2", "-M", "do", "-s", str(1472 - 28))
    assert "2 received" in fits.stdout, fits.stdout
    assert clat.stop() == 0
