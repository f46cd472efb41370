# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Does a trial deserve trust? Each guard looks at the evidence and says nothing, or one sentence why not.

An untrusted trial is kept and marked, and another is made in its place. Guards look at the surroundings only, and know nothing
of what a trial brought: who leaves out trials by their outcome chooses the outcome. So no guard asks what was lost, how often
TCP sent again, how long it took or how fast it was, whether the path has a system under test, or which. A system that loses
packets, stalls, or falls back to its slow path is measured, not excused; a rate that something else limits is a lower bound.
A generator without CPU to spare is no reason to leave a trial out either, since a fast path is what uses it up: such trials
count, and the report marks them (`load.cpu_shares`). A claim that cannot be true, such as more than the link carries, is
another matter: it says that something else was counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from diolkos_lab.experiment.definition import Family, Guards, Topology
from diolkos_lab.experiment.loads import AnyLoad
from diolkos_lab.load import registry
from diolkos_lab.load.interface import Load
from diolkos_lab.load.reading import Reading
from diolkos_lab.run.counters import Device, NetCounters
from diolkos_lab.topology.processes import TICK_S

# What opening and closing a TCP connection puts through a TUN device: SYN, its answer, two FINs and their acknowledgements.
# Each crosses twice, in one family and in the other. A fast path may leave these packets to the slow one.
OPENING_BYTES = 6 * 2 * 80
RING = 256  # packets that wait where one veth device hands them to the other (VETH_RING_SIZE of its driver)
WITHIN_S = 5e-4  # before a stall is known to have begun: in the middle, if nothing speaks for another moment
# Of the loss that the search of the warm-up leads to expect: where a twentieth of all packets will be lost, one in 400 more
# says nothing else of the path. Of all packets: in saturation a stall takes its share off the throughput, and the verdict looks
# at differences of 1.5 % between two steps.
LITTLE, MOST = 0.05, 0.003
HELD_UP = 0.0005  # of all packets, whose delay is measured: half of those beyond the 99.9th percentile
BUSY = 0.9  # of one CPU: a resolver that works this much limits the rate itself


@dataclass(frozen=True)
class Tun:
    """A system's TUN device, None when it is not there, and whether the bulk of the bytes goes `through` or `past` it."""

    bulk: Literal["through", "past"]
    device: Device | None


@dataclass(frozen=True)
class RoleAccount:
    """CPU time that the kernel charged to a role, and how many CPUs it may have used at a time."""

    who: str
    used_s: float
    cpus: int


@dataclass(frozen=True)
class Evidence:
    """All that is known of one trial. Counters are what changed during it; times in seconds."""

    tuns: tuple[Tun, ...]  # of the programs on the path that say where the bulk goes
    server_family: Family  # what should arrive at the server
    cores: int
    elapsed_s: float
    foreign_s: float  # CPU time of other programs (`cpu_account`)
    steal_s: float
    clock_jump_s: float
    outside_drops: int  # in the host's backlogs and on the devices that are not the system's own
    server: NetCounters
    server_link: Device
    reading: Reading
    load: AnyLoad
    sink_drops: int = 0  # at the last link, where a packet sink stands that was too slow
    system_s: float = 0.0  # CPU time of the system under test's processes, the path's resolver among them
    authority_rate: float | None = None  # answers per second that the authority gave when it was asked alone
    still_s: float = 0.0  # for which the lab itself was stopped
    accounts: tuple[RoleAccount, ...] = ()

    @property
    def kind(self) -> Load[Any]:
        return registry.load_of(self.load)


@dataclass(frozen=True)
class Objection:
    guard: str
    detail: str


def judge(evidence: Evidence, limits: Guards, topology: Topology) -> list[Objection]:
    """Every guard that objects. An empty list means a valid trial."""
    found = []
    for guard in GUARDS:
        if detail := guard(evidence, limits, topology):
            found.append(Objection(guard.__name__.replace("_", "-"), detail))
    return found


def certain_share(used_s: float, cores: int, elapsed_s: float) -> float:
    """Share of all CPUs that somebody used at least. The kernel counts in ticks: one per CPU may be somebody else's."""
    return min(1.0, (used_s - cores * TICK_S) / (cores * elapsed_s))


def steal(e: Evidence, limits: Guards, _: Topology) -> str | None:
    share = certain_share(e.steal_s, e.cores, e.elapsed_s)
    return f"the hypervisor took {share:.1%} of the CPUs" if share > limits.steal_share else None


def foreign_cpu(e: Evidence, limits: Guards, _: Topology) -> str | None:
    share = certain_share(e.foreign_s, e.cores, e.elapsed_s)
    return f"other programs used {share:.0%} of the CPUs" if share > limits.foreign_cpu_share else None


def is_disturbed(foreign_s: float, steal_s: float, cores: int, elapsed_s: float, limits: Guards) -> bool:
    """Whether `foreign_cpu` or `steal` would object to a trial of that length."""
    foreign, stolen = (certain_share(each_s, cores, elapsed_s) for each_s in (foreign_s, steal_s))
    return foreign > limits.foreign_cpu_share or stolen > limits.steal_share


def cpu_account(e: Evidence, limits: Guards, _: Topology) -> str | None:
    """Nobody can use a CPU for longer than the trial lasted: then the kernel's account, or its reading, is wrong."""
    for account in e.accounts:
        if account.used_s > account.cpus * e.elapsed_s + e.cores * TICK_S:
            cpus = "one CPU" if account.cpus == 1 else f"{account.cpus} CPUs"
            return f"{account.who} would have used {account.used_s:.2f} s of {cpus} in {e.elapsed_s:.2f} s"
    return None


def stopped(e: Evidence, limits: Guards, _: Topology) -> str | None:
    """Whoever stopped the lab may have stopped the load, the system or the whole machine with it."""
    return f"the lab was stopped for {e.still_s:.1f} s during the trial" if e.still_s else None


def clock_jump(e: Evidence, limits: Guards, _: Topology) -> str | None:
    jump = e.clock_jump_s
    return f"the clock was set by {jump:+.3f} s during the trial" if abs(jump) > limits.clock_jump_s else None


def pace(e: Evidence, limits: Guards, _: Topology) -> str | None:
    """The packet generator did not offer what it was asked to."""
    if abs(e.reading.pace_error) > limits.pace_ratio:
        return f"the generator sent {e.reading.pace_error:+.1%} beside the offered rate"
    if e.reading.behind_s > limits.behind_s:
        return f"the generator was {e.reading.behind_s * 1e3:.1f} ms late with one burst in a hundred"
    return None


def stall(e: Evidence, limits: Guards, _: Topology) -> str | None:
    """A CPU of the path stood still, as one does that the hypervisor gives to others, for longer than packets can wait."""
    stream = e.kind.stream(e.load, e.reading)
    if stream is None or not e.reading.stalls_s:
        return None
    longest_ms = max(e.reading.stalls_s) * 1e3
    if stream.saturates:
        stood = sum(e.reading.stalls_s) / stream.seconds
        return (
            f"CPUs stood still for {stood:.1%} of the time, {longest_ms:.1f} ms at the longest"
            if stood > limits.steal_share
            else None
        )
    if stream.timed:
        held_up = sum(stall_s + WITHIN_S / 2 for stall_s in e.reading.stalls_s) / stream.seconds
        if held_up <= HELD_UP:
            return None
        return f"a CPU stood still for {longest_ms:.1f} ms, and {held_up:.2%} of all packets may have waited for one that did"
    lost = sum(max(0.0, (stall_s + WITHIN_S / 2) * stream.rate - RING) for stall_s in e.reading.stalls_s)
    share = lost / (stream.rate * stream.seconds)
    # Where a rate is looked for at which nothing is lost, every packet counts, whether or not it was lost this time.
    allowed = 0.0 if stream.lossless else max(limits.stall_ratio, min(LITTLE * stream.expected_loss, MOST))
    if share <= allowed:
        return None
    return f"a CPU stood still for {longest_ms:.1f} ms, and no ring holds the {lost:.0f} packets that this may have cost"


def slow_sink(e: Evidence, limits: Guards, _: Topology) -> str | None:
    """Packets that the system under test had forwarded were lost in front of the sink."""
    # A load that is answered slows down where the sink loses packets.
    watched = e.kind.counted_by == "sink" and not e.kind.answered
    if not watched or e.sink_drops <= limits.drop_ratio * max(1, e.reading.packets):
        return None
    return f"{e.sink_drops} packets were lost in front of the sink"


def outside_drops(e: Evidence, limits: Guards, _: Topology) -> str | None:
    # Where packets are offered at any rate, the queues on the way are the system under test.
    if e.kind.counted_by == "sink":
        return None
    packets = max(1, e.server_link.rx_packets + e.server_link.tx_packets)
    if e.outside_drops / packets <= limits.drop_ratio:
        return None
    return f"{e.outside_drops} of {packets} packets were dropped outside the system under test"


def link_rate(e: Evidence, limits: Guards, topology: Topology) -> str | None:
    """What the receiver claims cannot be more than the link carries, nor more than its device counted.

    The rate of a sender is never asked: datagrams that it wrote may be lost before the link.
    """
    rate = e.reading.metrics.get("throughput", 0)
    if topology.link_rate and rate > topology.link_rate:
        return f"the receiver claims {rate:.4g} bit/s on a link of {topology.link_rate:.4g} bit/s"
    counted = max(e.server_link.rx_bytes, e.server_link.tx_bytes)
    if e.reading.received_bytes > counted:
        return f"the receiver claims {e.reading.received_bytes} bytes, the server's device counted {counted}"
    return None


def unknown_authority(e: Evidence, limits: Guards, _: Topology) -> str | None:
    """What limits the rate of a resolver can only be told if it is known what the server gives that it asks."""
    if e.kind.unpaced_lookups_s(e.load) is None or e.authority_rate is not None:
        return None
    return "it is not known how many answers per second the authority can give"


def wrong_path(e: Evidence, limits: Guards, _: Topology) -> str | None:
    """Traffic must reach the server in the right family, and go through each TUN device that the datapath says it goes through:
    otherwise something else was measured. Queries must reach the authority if, and only if, the names are new.

    What goes through a device that it should pass by is no matter of trust: see `slow_share`.
    """
    if e.kind.counted_by == "authority":
        return _wrong_cache(e, e.kind.asks_new_names(e.load), limits)
    if e.kind.counted_by == "sink":
        # The sink takes packets before the kernel counts them by family. It knows them by their signature.
        return next((detail for tun in e.tuns if (detail := _wrong_side(tun, e, e.reading.packets, limits))), None)
    counts = e.server.protocols
    if e.reading.received_bytes:
        arrived = {
            "ipv6": counts["Ip6InOctets"] + counts["Ip6OutOctets"],
            "ipv4": counts["IpExtInOctets"] + counts["IpExtOutOctets"],
        }
    else:
        arrived = {"ipv6": counts["Icmp6InEchos"], "ipv4": counts["IcmpInEchos"]}
    share = arrived[e.server_family] / max(1, sum(arrived.values()))
    if share < 1 - limits.bypass_ratio:
        return f"only {share:.0%} of the traffic reached the server as {e.server_family}"
    return next((detail for tun in e.tuns if (detail := _wrong_side(tun, e, arrived[e.server_family], limits))), None)


def _wrong_cache(e: Evidence, new: bool, limits: Guards) -> str | None:
    asked = e.server.protocols["UdpInDatagrams"] + e.server.protocols["Udp6InDatagrams"]
    share = asked / max(1, e.reading.answers)
    if new and share < 1 - limits.bypass_ratio:
        return f"the authority was asked for only {share:.0%} of the answers although every name was new"
    if not new and share > limits.bypass_ratio:
        return f"the authority was asked for {share:.0%} of the answers although every name was known"
    return None


def _wrong_side(tun: Tun, e: Evidence, echos: int, limits: Guards) -> str | None:
    if tun.device is None:
        return "the system's TUN device is not there"
    crossed = _share_through(tun, tun.device, e, echos)
    if tun.bulk == "through" and crossed < 1 - limits.bypass_ratio:
        return f"only {crossed:.0%} of the traffic went through the TUN device"
    return None


def _share_through(tun: Tun, device: Device, e: Evidence, echos: int) -> float:
    """Share of the traffic that went through the device, without what may open connections and sessions there."""
    if e.reading.received_bytes:
        opening = e.reading.connections * OPENING_BYTES if tun.bulk == "past" else 0
        return max(0, device.rx_bytes + device.tx_bytes - opening) / e.reading.received_bytes
    # Each echo crosses twice: the request out of the device, the reply into it. So does a packet that is translated, but a
    # system that joins packets puts many in as one.
    packets = device.rx_packets + device.tx_packets
    if e.kind.counted_by == "sink":
        packets = max(packets, 2 * device.tx_packets)
    opening = e.kind.opening_packets(e.load) if tun.bulk == "past" else 0
    return max(0, packets - opening) / max(1, 2 * echos)


# ---- what else the evidence says of a trial


def slow_share(e: Evidence) -> float | None:
    """The share of the traffic that took the slow path of a system that has a fast one; None where there is none.

    It is the system's own result, and counts."""
    devices = [(tun, tun.device) for tun in e.tuns if tun.bulk == "past" and tun.device]
    if not devices:
        return None
    echos = e.reading.packets if e.kind.counted_by == "sink" else _echos(e)
    return min(1.0, max(_share_through(tun, device, e, echos) for tun, device in devices))


def _echos(e: Evidence) -> int:
    return e.server.protocols["Icmp6InEchos"] + e.server.protocols["IcmpInEchos"]


def limited_by_authority(e: Evidence, limits: Guards) -> bool:
    """The rate of a resolver is at least what was measured: the server that it asks has too little in reserve (RFC 8219
    §9.2.1), and it had time to spare itself."""
    seconds = e.kind.unpaced_lookups_s(e.load)
    if seconds is None or e.authority_rate is None:
        return False
    rate = e.reading.metrics.get("rate", 0.0)
    return e.authority_rate < limits.authority_ratio * rate and e.system_s / (e.reading.seconds or seconds) < BUSY


Guard = Callable[[Evidence, Guards, Topology], str | None]
GUARDS: tuple[Guard, ...] = (
    steal,
    foreign_cpu,
    cpu_account,
    stopped,
    clock_jump,
    pace,
    stall,
    slow_sink,
    outside_drops,
    link_rate,
    unknown_authority,
    wrong_path,
)
