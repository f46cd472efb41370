# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What docs/firewall.md says of firewalld: without its commands nothing passes, with them everything does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from network import SERVER4, Network
from siit import SiitNetwork
from test_ufw import passes, tcp

# firewalld keeps its configuration in /etc and is told by D-Bus: it gets both for itself, and they go with the command. Its
# rules stay.
PRIVATE = """
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc
mount -t tmpfs none /run
mkdir -p /run/dbus
sed -i 's/^CleanupOnExit=.*/CleanupOnExit=no/' /etc/firewalld/firewalld.conf
dbus-daemon --system --fork --nopidfile
firewalld --nofork --nopid &
server=$!
until firewall-cmd --state > /dev/null 2>&1; do kill -0 $server; sleep 0.05; done
"""

pytestmark = pytest.mark.skipif(shutil.which("firewalld", path="/usr/sbin:/usr/bin") is None, reason="no firewalld here")


def firewalld(net: Network, name: str, commands: list[str]) -> None:
    """The firewall of a namespace: firewalld's defaults, changed by these commands."""
    script = "\n".join([PRIVATE, *commands, "kill $server", "wait $server || true"])
    net.run(name, "unshare", "--mount", "--pid", "--fork", "sh", "-c", script)
    rules = net.run(name, "nft", "list", "table", "inet", "firewalld").stdout
    assert "chain filter_FORWARD" in rules


def recipe() -> list[str]:
    """The commands of docs/firewall.md."""
    page = (Path(__file__).resolve().parents[2] / "docs/firewall.md").read_text()
    block = page.split("## firewalld\n", 1)[1].split("```\n", 2)[1]
    return [line.removeprefix("sudo ") for line in block.splitlines()]


@pytest.mark.parametrize("placement", ["device", "inline", "direct"])
def test_a_router(siit: SiitNetwork, placement: str) -> None:
    """`device` needs the policies; `direct` passes by; with `inline` no policy helps, as the page says."""
    siit.datapath = "auto" if placement == "device" else placement
    siit.configure(siit.config.read_text())
    siit.siit()
    assert passes(siit) == [True, True], "without a firewall"
    firewalld(siit, siit.translator, [])
    assert passes(siit) == [placement == "direct"] * 2
    firewalld(siit, siit.translator, recipe())
    assert passes(siit) == [placement != "inline"] * 2


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_clat(net: Network, datapath: str) -> None:
    """With tc it passes as it is; with tun the IPv6 packets are forwarded."""
    net.clat(datapath)
    firewalld(net, net.client, [])
    assert tcp(net, net.client, net.server, SERVER4) == (datapath == "tc")
    firewalld(net, net.client, recipe())
    assert tcp(net, net.client, net.server, SERVER4)
