# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What docs/firewall.md says of Docker, beside the rules that Docker's documentation says it makes for both families.

Docker itself does not run here: only its rules for what is forwarded matter.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from network import SERVER4, Network
from siit import SiitNetwork
from test_ufw import passes, tcp

DOCKER = """
set -e
for tables in iptables ip6tables; do
    $tables -N DOCKER-USER
    $tables -A DOCKER-USER -j RETURN
    $tables -I FORWARD -j DOCKER-USER
    $tables -P FORWARD DROP
done
"""


def docker(net: Network, name: str) -> None:
    """Make Docker's rules in a namespace."""
    net.run(name, "sh", "-c", DOCKER)


def obey_page(net: Network, name: str) -> None:
    """Run the commands of docs/firewall.md."""
    page = (Path(__file__).resolve().parents[2] / "docs/firewall.md").read_text()
    block = page.split("## Docker\n", 1)[1].split("```\n", 2)[1]
    for line in block.splitlines():
        net.run(name, *line.removeprefix("sudo ").split())


@pytest.mark.parametrize("placement", ["device", "direct"])
def test_a_router(siit: SiitNetwork, placement: str) -> None:
    """`device` needs the rules; `direct` passes by."""
    siit.datapath = "auto" if placement == "device" else placement
    siit.configure(siit.config.read_text())
    siit.siit()
    docker(siit, siit.translator)
    assert passes(siit) == [placement == "direct"] * 2
    obey_page(siit, siit.translator)
    assert passes(siit) == [True, True]


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_clat(net: Network, datapath: str) -> None:
    """With tc it passes as it is; with tun the IPv6 packets are forwarded."""
    net.clat(datapath)
    docker(net, net.client)
    assert tcp(net, net.client, net.server, SERVER4) == (datapath == "tc")
    obey_page(net, net.client)
    assert tcp(net, net.client, net.server, SERVER4)
