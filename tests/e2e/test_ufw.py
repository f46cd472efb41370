# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rules that docs/firewall.md names for ufw: without them nothing passes, with them everything does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from network import SERVER4, Network
from siit import V4_IN_IPV6, V6_MAPPED, SiitNetwork

# ufw keeps its rules in /etc/ufw: it gets a copy of its own, which nobody else sees and which goes with the command.
PRIVATE = """
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc
ufw --force enable
"""
PORT = 5201

pytestmark = pytest.mark.skipif(shutil.which("ufw", path="/usr/sbin:/usr/bin") is None, reason="no ufw here")


def ufw(net: Network, name: str, *rules: str) -> None:
    """The firewall of a namespace: these rules on top of ufw's defaults (deny incoming, allow outgoing, deny routed)."""
    script = PRIVATE + "\n".join(f"ufw {rule}" for rule in rules)
    net.run(name, "unshare", "--mount", "sh", "-c", script)


def recipe(section: str) -> list[str]:
    """The commands of docs/firewall.md below a heading."""
    page = (Path(__file__).resolve().parents[2] / "docs/firewall.md").read_text()
    block = page.split(f"### {section}\n", 1)[1].split("```\n", 2)[1]
    return [line.removeprefix("sudo ufw ") for line in block.splitlines()]


def tcp(net: Network, client: str, server: str, address: str) -> bool:
    """Whether a TCP connection carries data in both directions."""
    # The address is one of the other family.
    family, anywhere = ("AF_INET", "0.0.0.0") if ":" in address else ("AF_INET6", "::")
    echo = (
        f"import socket; s = socket.create_server(('{anywhere}', {PORT}), family=socket.{family}); print(flush=True)\n"
        "c, _ = s.accept(); c.sendall(c.recv(9))"
    )
    listener = net.start(server, "python3", "-c", echo, stdout=-1)
    listener.stdout.readline()
    ask = f"import socket; s = socket.create_connection(('{address}', {PORT}), 3); s.sendall(b'x'); print(s.recv(9))"
    done = net.run(client, "python3", "-c", ask, check=False)
    listener.kill()
    return "b'x'" in done.stdout


def passes(net: SiitNetwork) -> list[bool]:
    """Whether connections of both sides pass."""
    return [tcp(net, net.v4, net.v6, V6_MAPPED), tcp(net, net.v6, net.v4, V4_IN_IPV6)]


@pytest.mark.parametrize("placement", ["device", "inline", "direct"])
def test_a_router(siit: SiitNetwork, placement: str) -> None:
    """The rules are those of the placement."""
    placed = "auto" if placement == "device" else placement
    siit.datapath = placed
    siit.configure(siit.config.read_text())
    siit.siit()
    assert passes(siit) == [True, True], "without a firewall"
    ufw(siit, siit.translator)
    if placement != "direct":
        assert passes(siit) == [False, False]
    names = {"lan0": "b6", "wan0": "b4"}
    rules = recipe("device" if placement == "device" else "inline, direct, xdp")
    for ours, theirs in names.items():
        rules = [rule.replace(ours, theirs) for rule in rules]
    ufw(siit, siit.translator, *rules)
    assert passes(siit) == [True, True]


@pytest.mark.parametrize("datapath", ["tc", "tun"])
def test_a_clat(net: Network, datapath: str) -> None:
    """With tc it passes as it is; with tun the IPv6 packets are forwarded."""
    net.clat(datapath)

    def passes_to_server() -> bool:
        # ufw forwards pings in any case.
        return tcp(net, net.client, net.server, SERVER4)

    assert passes_to_server()
    ufw(net, net.client)
    assert passes_to_server() == (datapath == "tc")
    rules = [rule.replace("eth0", "wan0") for rule in recipe("A CLAT with `--datapath tun`")]
    ufw(net, net.client, *rules)
    assert passes_to_server()
