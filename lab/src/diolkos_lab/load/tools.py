# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which tool makes which load: what it needs, its command line, and the parser of what it prints."""

from collections.abc import Iterable

from diolkos_lab.experiment.loads import AnyLoad, CapacityLoad, DnsLoad, HttpLoad, NewFlowsLoad, PpsLoad, TcpLoad, asks_names
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.load import curl, dnsperf, iperf3, new_flows, ping, pktgen
from diolkos_lab.load.reading import Aim, Reading

# Program, and the packages of the distributions that have it.
REQUIRED = {
    "iperf3": "apt-get install iperf3",
    "ping": "apt-get install iputils-ping",
    "nsenter": "apt-get install util-linux",
    "setpriv": "apt-get install util-linux",
    "taskset": "apt-get install util-linux",
}
OF_HTTP = {
    "curl": "apt-get install curl",
    "nginx": "apt-get install nginx-light; the lab starts its own, so the service may be off",
    "timeout": "apt-get install coreutils",
}
OF_NAMES = {
    "unbound": "apt-get install unbound; the lab starts its own, so the service may be off",
    "unshare": "apt-get install util-linux",
    "mount": "apt-get install mount",
    "chroot": "apt-get install coreutils",
}
OF_DNS = {"dnsperf": "apt-get install dnsperf", "nft": "apt-get install nftables"}
OF_PACKETS = {
    "diolkos-pktgen": "build it with `make build`",
    "nice": "apt-get install coreutils",
    "unshare": "apt-get install util-linux",
    "mount": "apt-get install mount",
    "chroot": "apt-get install coreutils",
}


def required(loads: Iterable[AnyLoad | Procedure]) -> dict[str, str]:
    """Every program that these loads need, with how to get it."""
    wanted = dict(REQUIRED)
    for load in loads:
        wanted |= OF_HTTP if isinstance(load, HttpLoad) else {}
        wanted |= OF_NAMES if asks_names(load) else {}
        wanted |= OF_DNS if isinstance(load, DnsLoad) else {}
        wanted |= OF_PACKETS if isinstance(load, PpsLoad | NewFlowsLoad | CapacityLoad | Procedure) else {}
    return wanted


def prepare(load: AnyLoad, aim: Aim) -> list[list[str]]:
    """Write the files the client reads. Returns commands for the client's namespace that have to run before the trial."""
    if isinstance(load, PpsLoad):
        return [pktgen.opening_command(load, aim)] if aim.ends.keeps_state else []
    if not isinstance(load, DnsLoad):
        return []
    dnsperf.write_names(load, aim)
    return [dnsperf.warming_command(aim)] if load.cache == "warm" else []


def client_command(load: AnyLoad, aim: Aim) -> list[str]:
    if isinstance(load, TcpLoad):
        return iperf3.client_command(load, aim.target)
    if isinstance(load, DnsLoad):
        return dnsperf.client_command(load, aim)
    if isinstance(load, HttpLoad):
        return curl.client_command(load, aim)
    if isinstance(load, PpsLoad):
        return pktgen.measure_command(load, aim)
    if isinstance(load, NewFlowsLoad):
        return new_flows.client_command(load, aim)
    return ping.client_command(load, aim.target)


def parse(text: str, load: AnyLoad) -> Reading:
    if isinstance(load, TcpLoad):
        return iperf3.parse(text, load)
    if isinstance(load, DnsLoad):
        return dnsperf.parse(text, load)
    if isinstance(load, HttpLoad):
        return curl.parse(text, load)
    if isinstance(load, PpsLoad):
        return pktgen.parse(text, load)
    if isinstance(load, NewFlowsLoad):
        return new_flows.parse(text, load)
    return ping.parse(text, load)
