# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the set-up installs, by its own text."""

import re
from pathlib import Path

SETUP = Path(__file__).resolve().parents[1] / "packaging/setup.sh"


def packages_of(function: str) -> set[str]:
    """The packages that a function of the set-up asks for."""
    body = re.search(rf"^{function}\(\) {{\n(.*?)^}}", SETUP.read_text(), re.MULTILINE | re.DOTALL)
    assert body, f"{SETUP} has no function {function}"
    return {name for line in re.findall(r'^\s*want "[^"]*" "[^"]*" "([^"]*)"$', body[1], re.MULTILINE) for name in line.split()}


def test_the_demo_installs_nothing_that_manages_the_network_or_lets_others_in() -> None:
    unasked = {
        *("ufw", "firewalld", "network-manager", "dhcpcd-base", "dnsmasq-base", "systemd", "dbus-daemon"),
        *("openssh-server", "coturn", "frr", "etcd-server", "rsyslog", "prometheus", "nfdump", "radvd"),
    }
    assert {"iperf3", "tayga", "iproute2"} <= packages_of("wanted_for_demo")
    assert not packages_of("wanted_for_demo") & unasked
    assert {"ufw", "firewalld", "network-manager"} <= packages_of("wanted_to_run"), "the names are those of the set-up"
