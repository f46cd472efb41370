# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What 1 to 1 048 576 explicit address mappings of a SIIT cost: `check`, start, reload, memory, packets.

Two routers side by side: one maps every host by itself, the other all of them by one mapping of a network. Both get the same
packets, each from another host than the one before. With `scattered`, no two networks are neighbours, so that no two routes
can become one.
"""

from ipaddress import IPv4Address, IPv6Address

from network import Daemon, Network, Report, network_section, pktgen

LEVELS = (1, 1 << 10, 1 << 14, 1 << 17, 1 << 20)
FIRST4, FIRST6 = int(IPv4Address("10.0.0.0")), int(IPv6Address("2001:2:0:1::"))
SERVER6 = f"2001:2:64::{0xC612:x}:{0x0002:x}"


def config(network: Network, placement: str, mappings: int, scattered: bool) -> str:
    """A SIIT with so many hosts in its table."""
    step = 2 if scattered else 1
    pairs = ((IPv4Address(FIRST4 + step * i), IPv6Address(FIRST6 + i)) for i in range(mappings))
    table = "".join(f'[[eam]]\nv4 = "{v4}/32"\nv6 = "{v6}/128"\n' for v4, v6 in pairs)
    return f'[translator]\nmode = "siit"\n{network_section(placement, network)}\n{table}'


def config_of_one(network: Network, placement: str, hosts: int) -> str:
    """A SIIT with one mapping for so many hosts."""
    bits = (hosts - 1).bit_length()
    table = f'[[eam]]\nv4 = "{IPv4Address(FIRST4)}/{32 - bits}"\nv6 = "{IPv6Address(FIRST6)}/{128 - bits}"\n'
    return f'[translator]\nmode = "siit"\n{network_section(placement, network)}\n{table}'


def passing(network: Network, mappings: int, seconds: float) -> float:
    """Nanoseconds a packet, from the generator to the sink, on one CPU."""
    near, far = network.ends()
    bits = (mappings - 1).bit_length()
    looks = ["--src", f"{IPv6Address(FIRST6)}/{128 - bits}", "--dst", SERVER6, "--sport", "1024-1024", "--dport", "7000-7000"]
    amount = ["--flows", str(mappings), "--rate", "max", "--seconds", f"{seconds:g}", "--settle", "0.2", "--no-verify"]
    report = pktgen("measure", "--from", near, "--to", far, *looks, *amount, "--cpu", "0")
    [forth] = report["directions"]
    return 1e9 / float(forth["received"]["rate_pps"])


def level(mappings: int, placement: str, repeat: int, seconds: float, scattered: bool) -> Report:
    """Everything about so many mappings."""
    found: Report = {"part": "mappings", "mappings": mappings, "placement": placement, "scattered": scattered}
    with (
        Network() as network,
        Network() as other,
        Daemon(other, config_of_one(other, placement, mappings)),
        Daemon(network, config(network, placement, mappings, scattered)) as daemon,
    ):
        found["check_s"] = daemon.timed("check", str(daemon.config))
        found["start_s"], found["memory"] = daemon.ready_s, daemon.memory()
        found["ns"], found["ns_of_one"] = [], []
        for _ in range(repeat):
            found["ns_of_one"].append(passing(other, mappings, seconds))
            found["ns"].append(passing(network, mappings, seconds))
        found["reload_s"] = daemon.timed("reload")
        found["memory_after_reload"] = daemon.memory()
        found["counters"] = daemon.counters()
        found["end_s"] = daemon.end()
    return found
