# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which tool makes which load: its command line and the parser of what it prints."""

from ipaddress import IPv4Address, IPv6Address

from diolkos_lab.experiment.definition import PingLoad, TcpLoad
from diolkos_lab.load import iperf3, ping
from diolkos_lab.load.reading import Reading

# Program, and the packages of the distributions that have it.
REQUIRED = {
    "iperf3": "apt-get install iperf3",
    "ping": "apt-get install iputils-ping",
    "nsenter": "apt-get install util-linux",
    "setpriv": "apt-get install util-linux",
    "taskset": "apt-get install util-linux",
}


def client_command(load: TcpLoad | PingLoad, target: IPv4Address | IPv6Address) -> list[str]:
    return iperf3.client_command(load, target) if isinstance(load, TcpLoad) else ping.client_command(load, target)


def parse(text: str, load: TcpLoad | PingLoad) -> Reading:
    return iperf3.parse(text, load) if isinstance(load, TcpLoad) else ping.parse(text, load)
