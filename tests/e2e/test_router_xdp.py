# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What drivers translate with the placement `xdp`, what they leave to tc, and where the placement is refused.

The suites of SIIT and NAT64 run with this placement, too. Virtual Ethernets stand for cards here: the hosts finish their
checksums and put VLAN tags into the frames, as a wire has them, and poll.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
from collections.abc import Callable

import pytest
from conftest import program
from direct import BOTH, DIRECT, FORWARDED, TO_IPV4, TO_IPV6, Probe
from network import Running, create_socket
from siit import CONFIG, TRANSLATOR4, V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_clat_faults import one_sentence
from test_clat_offloads import ETH_P_ALL, machine
from test_siit_traffic import transfer

pytestmark = pytest.mark.parametrize("siit", ["xdp"], indirect=True)

# Fewer than a second has room for, so that at most a few take the longer way; see bpf/xdp/neighbour.h.
MANY = 200
SHORTEST_FRAME = 60


@pytest.fixture
def probe(probe: Callable[..., Probe]) -> Callable[..., Probe]:
    """Makes probes that wait longer: drivers hand frames on in another moment."""
    return lambda way, patience=1: probe(way, patience)


def sent(siit: SiitNetwork) -> tuple[int, int]:
    """Packets that drivers have sent, and those that tc has."""
    counters = siit.counters()
    return counters["fast.sent_xdp"], counters["fast.sent_direct"]


def until_xdp(siit: SiitNetwork, probe: Probe) -> None:
    """Send until a driver has sent one."""
    before = sent(siit)[0]

    def goes() -> bool:
        assert probe.goes() in (DIRECT, FORWARDED)
        return sent(siit)[0] > before

    siit.until(goes)


def hardware_address(siit: SiitNetwork, name: str, link: str) -> bytes:
    """Of a link, six bytes."""
    return bytes.fromhex(siit.ip_json(name, "link", "show", link)[0]["address"].replace(":", ""))


class Wire:
    """Whole frames from the IPv4 host's end of its link, and to it."""

    def __init__(self, siit: SiitNetwork) -> None:
        self.here, self.there = hardware_address(siit, siit.v4, "a0"), hardware_address(siit, siit.translator, "b4")
        self.socket = create_socket(siit.v4, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind(("a0", ETH_P_ALL))
        self.socket.settimeout(2)

    def send(self, packet: bytes, to: bytes = b"", tags: bytes = b"", fill: int = 0) -> None:
        """An IPv4 packet in a frame."""
        frame = (to or self.there) + self.here + tags + b"\x08\x00" + packet
        self.socket.send(frame.ljust(fill, b"\xaa"))

    def frame_to(self, port: int) -> bytes:
        """The next frame with a UDP datagram to a port of the host."""
        while True:
            frame = self.socket.recv(9100)
            if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == port.to_bytes(2, "big"):
                return frame


def folded(data: bytes) -> int:
    """The ones' complement sum (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def datagram(payload: bytes, port: int = 4000, ttl: int = 64) -> bytes:
    """From the IPv4 host to the IPv6 host, with all its checksums."""
    addresses = socket.inet_aton(V4) + socket.inet_aton(V6_MAPPED)
    udp = struct.pack("!HHHH", 5000, port, 8 + len(payload), 0) + payload
    even = udp + b"\0" * (len(udp) % 2)
    check = 0xFFFF ^ folded(addresses + struct.pack("!HH", 17, len(udp)) + even)
    udp = udp[:6] + struct.pack("!H", check or 0xFFFF) + udp[8:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, ttl, 17, 0) + addresses
    return head[:10] + struct.pack("!H", 0xFFFF ^ folded(head)) + head[12:] + udp


@BOTH
def test_the_driver_sends(siit: SiitNetwork, probe, way) -> None:
    """Every packet arrives one hop further, whoever has sent it, and drivers have sent nearly all."""
    running = siit.siit()
    assert "XDP: b4 (veth) sends frames in any number of buffers; b6 (veth)" in running.log()
    assert "direct and XDP between b4, b6" in running.log()
    there = probe(way)
    there.until(siit, DIRECT)
    before = sent(siit)
    assert [there.goes() for _ in range(MANY)] == [DIRECT] * MANY
    xdp, tc = (after - before for after, before in zip(sent(siit), before, strict=True))
    assert xdp + tc == MANY
    assert xdp > tc
    assert running.stop() == 0
    assert "xdp" not in siit.run(siit.translator, "ip", "link").stdout


def test_unfinished_checksums_are_left_to_tc(siit: SiitNetwork, probe) -> None:
    """A checksum that was left to a device: no frame of XDP would ever get it."""
    siit.siit()
    siit.offload("tx")
    there, back = probe(TO_IPV6), probe(TO_IPV4)
    there.until(siit, DIRECT)
    back.until(siit, DIRECT)
    before = sent(siit)[0]
    assert [there.goes(), back.goes()] == [DIRECT, DIRECT]
    transfer(siit, (siit.v4, siit.v6, V4, V6_MAPPED, V6), 2)
    transfer(siit, (siit.v6, siit.v4, V6, V4_IN_IPV6, V4), 2)
    assert sent(siit)[0] == before


def test_drivers_that_send_nothing_are_said(siit: SiitNetwork, probe) -> None:
    """tc sends what they leave, so nothing is lost, and nobody would notice. Once they send, that is said, too."""
    running = siit.siit()
    siit.offload("tx")
    there = probe(TO_IPV6)
    there.until(siit, DIRECT)
    crowd = create_socket(siit.v4, socket.AF_INET, socket.SOCK_DGRAM)
    crowd.bind((V4, 0))
    before = sent(siit)[0]

    def is_said() -> bool:
        for _ in range(1000):
            crowd.sendto(b"x", (V6_MAPPED, 4001))
        return "have sent none of the last" in running.log()

    siit.until(is_said)
    assert sent(siit)[0] == before
    assert sent(siit)[1] > 10_000
    siit.run(siit.v4, "ethtool", "-K", "a0", "tx", "off")

    def is_over() -> bool:
        # One packet among ten thousands is an accident, so more than one is sent.
        assert there.goes() in (DIRECT, FORWARDED)
        return "drivers send packets again" in running.log()

    siit.until(is_over)
    assert sent(siit)[0] > before
    assert running.log().count("have sent none of the last") == 1


def test_finished_checksums_are_right(siit: SiitNetwork, probe) -> None:
    """TCP both ways, whose receivers look at each checksum, and both drivers send."""
    siit.siit()
    probe(TO_IPV6).until(siit, DIRECT)
    transfer(siit, (siit.v4, siit.v6, V4, V6_MAPPED, V6), 2)
    transfer(siit, (siit.v6, siit.v4, V6, V4_IN_IPV6, V4), 2)
    xdp, tc = sent(siit)
    assert xdp > tc


@pytest.mark.parametrize("size", [4000, 8000])
@BOTH
def test_frames_in_several_buffers(siit: SiitNetwork, way, size: int) -> None:
    """Longer than a page of memory, with every byte at its place."""
    siit.siit()
    asker, source, to, heard_at, hearer = way
    families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in (source, heard_at)]
    sender = create_socket(getattr(siit, asker), families[0], socket.SOCK_DGRAM)
    sender.bind((source, 0))
    heard = create_socket(getattr(siit, hearer), families[1], socket.SOCK_DGRAM)
    heard.bind((heard_at, 4000))
    heard.settimeout(2)
    payload = bytes(range(251)) * (size // 251)

    def goes() -> bool:
        before = sent(siit)[0]
        sender.sendto(payload, (to, 4000))
        assert heard.recv(10_000) == payload
        return sent(siit)[0] > before

    siit.until(goes)


def test_frames_that_are_filled_up(siit: SiitNetwork) -> None:
    """What fills a short frame is no part of the packet; and a short packet fills its frame, with zeros."""
    siit.siit()
    wire = Wire(siit)
    hears = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_DGRAM)
    hears.bind((V6, 4000))
    hears.settimeout(2)

    def there() -> bool:
        before = sent(siit)[0]
        wire.send(datagram(b"x"), fill=SHORTEST_FRAME)
        assert hears.recv(100) == b"x"
        return sent(siit)[0] > before

    def back() -> bool:
        before = sent(siit)[0]
        hears.sendto(b"y", (V4_IN_IPV6, 4000))
        frame = wire.frame_to(4000)
        if sent(siit)[0] == before:
            return False
        assert (len(frame), frame[42:]) == (SHORTEST_FRAME, b"y".ljust(SHORTEST_FRAME - 42, b"\0"))
        return True

    siit.until(there)
    siit.until(back)


def test_frames_that_are_not_for_this_host(siit: SiitNetwork) -> None:
    """Another's address, and VLANs: no packet comes out. A priority is tc's."""
    siit.siit()
    siit.ip(siit.translator, "link", "set", "b4", "promisc", "on")
    wire = Wire(siit)
    hears = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_DGRAM)
    hears.bind((V6, 4000))
    hears.settimeout(2)
    wire.send(datagram(b"first"))
    assert hears.recv(100) == b"first"
    before = siit.counters()
    wire.send(datagram(b"another's"), to=bytes.fromhex("020000000001"))
    wire.send(datagram(b"everybody's"), to=b"\xff" * 6)
    wire.send(datagram(b"in a VLAN"), tags=bytes.fromhex("8100a005"))
    wire.send(datagram(b"priority"), tags=bytes.fromhex("8100a000"))
    assert hears.recv(100) == b"priority"
    after = siit.counters()
    moved = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert moved == {"fast.translated_4to6": 1, "fast.sent_direct": 1}


def test_segments_that_are_too_long(siit: SiitNetwork, probe) -> None:
    """The route's MTU counts: the kernel answers what is too big, and the rest goes on."""
    siit.siit()
    there = probe(TO_IPV6)
    there.until(siit, DIRECT)
    siit.narrow(1400)
    refused = siit.run(siit.v4, "ping", "-c1", "-W2", "-Mdo", "-s1400", V6_MAPPED, check=False)
    assert "mtu = 1380" in refused.stdout + refused.stderr
    until_xdp(siit, there)


@BOTH
def test_the_next_hop_changes_its_link_layer_address(siit: SiitNetwork, probe, way) -> None:
    """Nobody tells the router; it finds out, as it does when it forwards."""
    siit.siit()
    there = probe(way, 0.3)
    there.until(siit, DIRECT)
    hearer, link = (siit.v6, "b6") if way is TO_IPV6 else (siit.v4, "b4")
    family = "ipv6" if way is TO_IPV6 else "ipv4"
    for key, value in (("delay_first_probe_time", "1"), ("retrans_time_ms", "100")):
        siit.sysctl(siit.translator, f"net.{family}.neigh.{link}.{key}", value)
    # Known once, not confirmed for long, and nobody but the programs uses it.
    known = siit.ip_json(hearer, "link", "show", "a0")[0]["address"]
    siit.run(siit.translator, "ip", "neigh", "replace", way[3], "lladdr", known, "dev", link, "nud", "stale")
    siit.ip(hearer, "link", "set", "a0", "address", "02:00:00:00:00:77")
    assert there.goes() is None
    there.until(siit, DIRECT)
    until_xdp(siit, there)


@BOTH
def test_neighbours_are_confirmed_beside_the_packets(siit: SiitNetwork, probe, way) -> None:
    """A stale one is asked although no packet takes the way of tc."""
    siit.siit()
    there = probe(way)
    there.until(siit, DIRECT)
    until_xdp(siit, there)
    hearer, link = (siit.v6, "b6") if way is TO_IPV6 else (siit.v4, "b4")
    known = siit.ip_json(hearer, "link", "show", "a0")[0]["address"]
    neighbour = (way[3], "lladdr", known, "dev", link)
    siit.run(siit.translator, "ip", "neigh", "replace", *neighbour, "nud", "stale")
    before = sent(siit)[1]

    def is_asked() -> bool:
        assert there.goes() == DIRECT
        return siit.ip_json(siit.translator, "neigh", "show", way[3])[0]["state"] != ["STALE"]

    siit.until(is_asked)
    assert sent(siit)[1] == before


@BOTH
def test_neighbours_that_the_operator_sets_stay(siit: SiitNetwork, probe, way) -> None:
    """The kernel forgets that an entry is permanent when a program says that it uses it, as the daemon does of
    next hops before the driver sends to them."""
    hearer, link = (siit.v6, "b6") if way is TO_IPV6 else (siit.v4, "b4")
    known = siit.ip_json(hearer, "link", "show", "a0")[0]["address"]
    siit.run(siit.translator, "ip", "neigh", "replace", way[3], "lladdr", known, "dev", link, "nud", "permanent")
    siit.siit()
    there = probe(way)
    there.until(siit, DIRECT)
    until_xdp(siit, there)
    assert [entry["state"] for entry in siit.ip_json(siit.translator, "neigh", "show", way[3])] == [["PERMANENT"]]


def test_the_translator_changes_its_link_layer_address(siit: SiitNetwork, probe) -> None:
    """What is sent to the new address is translated in the driver again."""
    siit.siit()
    there = probe(TO_IPV6)
    there.until(siit, DIRECT)
    siit.ip(siit.translator, "link", "set", "b4", "address", "02:00:00:00:00:66")
    siit.run(siit.v4, "ip", "neigh", "flush", "all")
    until_xdp(siit, there)


def test_a_peer_that_does_not_poll(siit: SiitNetwork, probe) -> None:
    """Its end takes no frames of XDP: tc sends what goes there. Once it polls, the driver does."""
    siit.run(siit.v6, "ethtool", "-K", "a0", "gro", "off")
    running = siit.siit()
    assert "b6 (veth) sends nothing: its peer has neither GRO" in running.log()
    there = probe(TO_IPV6)
    there.until(siit, DIRECT)
    before = sent(siit)[0]
    assert [there.goes() for _ in range(5)] == [DIRECT] * 5
    assert sent(siit)[0] == before
    siit.run(siit.v6, "ethtool", "-K", "a0", "gro", "on")
    until_xdp(siit, there)


@pytest.mark.parametrize("gro", ["off", "on"])
def test_back_to_where_it_came_from(siit: SiitNetwork, gro: str) -> None:
    """Both families are behind one interface. Its peer is not woken for what XDP sends back, so tc sends it."""
    here, there = "2001:db8:4::1", "2001:db8:4::2"
    siit.run(siit.v4, "ethtool", "-K", "a0", "gro", gro)
    siit.ip(siit.translator, "address", "add", f"{here}/64", "dev", "b4", "nodad")
    siit.ip(siit.v4, "address", "add", f"{there}/64", "dev", "a0", "nodad")
    siit.ip(siit.v4, "address", "add", f"{V6}/128", "dev", "lo")
    siit.ip(siit.translator, "route", "add", f"{V6}/128", "via", there, "dev", "b4")
    siit.siit()
    asks = create_socket(siit.v4, socket.AF_INET, socket.SOCK_DGRAM)
    asks.bind((V4, 0))
    hears = create_socket(siit.v4, socket.AF_INET6, socket.SOCK_DGRAM)
    hears.bind((V6, 4000))
    hears.settimeout(0.5)
    arrived = []
    for number in range(20):
        asks.sendto(bytes([number]), (V6_MAPPED, 4000))
        with contextlib.suppress(TimeoutError):
            arrived += hears.recv(100)
    assert arrived == list(range(20)), siit.counters()
    assert sent(siit)[0] == 0


OTHER = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("xdp")
int somebody_s(struct xdp_md *ctx) { return XDP_PASS; }
char LICENSE[] SEC("license") = "Dual MIT/GPL";
"""


def attach_other(siit: SiitNetwork, link: str) -> str:
    """Have somebody else's XDP program at a link, by netlink; its name."""
    source, program = siit.scratch / "other.bpf.c", siit.scratch / "other.o"
    source.write_text(OTHER)
    subprocess.run(
        ["clang", "-O2", "-g", "-target", "bpf", f"-I/usr/include/{machine()}", "-c", source, "-o", program], check=True
    )
    siit.ip(siit.translator, "link", "set", "dev", link, "xdpdrv", "obj", str(program), "sec", "xdp")
    return "somebody_s"


def attach_generator(siit: SiitNetwork, link: str) -> str:
    """The same by a BPF link, which only its owner can take off."""
    pktgen = str(program().with_name("diolkos-pktgen"))
    siit.start(siit.translator, pktgen, "sink", "--interface", link, stdout=subprocess.DEVNULL)
    siit.until(lambda: any("xdp" in shown for shown in siit.ip_json(siit.translator, "-d", "link", "show", link)))
    return "pktgen_sink"


def refusal(siit: SiitNetwork) -> str:
    """Why it does not start, in one sentence."""
    running: Running = siit.siit(ready=False)
    assert running.wait() != 0
    return one_sentence(running.log().splitlines()[-1])


@pytest.mark.parametrize("attach", [attach_other, attach_generator], ids=["by-netlink", "by-link"])
def test_another_program_is_there(siit: SiitNetwork, attach) -> None:
    """It is named, it stays, and nothing is left behind."""
    # It takes frames in one buffer only.
    siit.ip(siit.v6, "link", "set", "a0", "mtu", "1500")
    name = attach(siit, "b6")
    said = refusal(siit)
    assert re.search(rf'b6 has another XDP program already, "{name}" \(number \d+\): detach it', said), said
    links = siit.ip_json(siit.translator, "-d", "link")
    assert [link["ifname"] for link in links if "xdp" in link] == ["b6"]
    assert siit.leftovers() == []


def test_a_vlan_on_a_virtual_ethernet(siit: SiitNetwork) -> None:
    """Its peer may keep tags beside the frames, whatever this end says of itself: what is sent in the VLAN looks untagged."""
    if not siit.has_vlan(siit.translator, "b4", 5):
        pytest.skip("this kernel has no VLANs")
    siit.run(siit.translator, "ethtool", "-K", "b4", "rxvlan", "off")
    said = refusal(siit)
    assert 'of b4: a virtual Ethernet may hide VLAN tags from XDP, and "b4.5" is a VLAN on it; correct that' in said
    assert siit.leftovers() == []


@pytest.mark.parametrize("kind", ["bridge", "macvlan"])
def test_a_driver_without_it(siit: SiitNetwork, kind: str) -> None:
    """The kernel could run the program behind the driver. It is not asked to."""
    below = () if kind == "bridge" else ("link", "b6")
    siit.ip(siit.translator, "link", "add", *below, "name", "other0", "type", kind)
    siit.config.write_text(CONFIG.replace("pref64", 'placement = "xdp"\ninterfaces = ["b4", "other0"]\npref64'))
    said = refusal(siit)
    assert f'in the driver (XDP) of other0: its driver "{kind}" has no native XDP' in said
    assert 'set translator.placement to "direct"' in said
    assert siit.leftovers() == []


@BOTH
def test_auto_does_without_it(siit: SiitNetwork, probe, way) -> None:
    """On virtual Ethernets; and it says why. With a datapath of its own, a failure of XDP is none of the fast path."""
    siit.config.write_text(CONFIG.replace("pref64", 'placement = "auto"\ninterfaces = ["b4", "b6"]\npref64'))
    running = siit.siit()
    assert "placement auto: direct: on virtual Ethernets (veth)" in running.log()
    assert "direct between b4, b6" in running.log()
    probe(way).until(siit, DIRECT)
    assert sent(siit)[0] == 0


def test_an_interface_goes_and_comes(siit: SiitNetwork, probe) -> None:
    """While packets are sent out of it; then its driver translates again."""
    running = siit.siit()
    for way in (TO_IPV6, TO_IPV4):
        before = probe(way)
        before.until(siit, DIRECT)
        before.close()
    load = siit.start(siit.v6, "ping", "-q", "-f", "-w60", V4_IN_IPV6, stdout=subprocess.DEVNULL)
    siit.ip(siit.translator, "link", "del", "b4")
    siit.host("ip", "link", "add", "a0", "netns", siit.v4, "type", "veth", "peer", "b4", "netns", siit.translator)
    siit.run(siit.v4, "ethtool", "-K", "a0", "gro", "on", "tx", "off")
    siit.until(lambda: "b4 is back" in running.log())
    for name, address in ((siit.v4, V4), (siit.translator, TRANSLATOR4)):
        link = "a0" if name == siit.v4 else "b4"
        siit.run(name, "ip", "address", "add", f"{address}/24", "dev", link)
        siit.run(name, "ip", "link", "set", link, "up")
    siit.run(siit.v4, "ip", "route", "add", "default", "via", TRANSLATOR4)
    for family in ("ipv4", "ipv6"):
        siit.sysctl(siit.translator, f"net.{family}.conf.b4.forwarding", "1")
    for way in (TO_IPV6, TO_IPV4):
        again = probe(way)
        again.until(siit, DIRECT)
        until_xdp(siit, again)
        again.close()
    load.terminate()
    assert running.stop() == 0


def test_an_interface_comes_with_another_program(siit: SiitNetwork, probe) -> None:
    """Then tc translates what comes there, and who is there is said."""
    running = siit.siit()
    siit.ip(siit.translator, "link", "set", "b4", "name", "was4")
    siit.ip(siit.translator, "link", "del", "was4")
    siit.host("ip", "link", "add", "a0", "netns", siit.v4, "type", "veth", "peer", "c4", "netns", siit.translator)
    attach_other(siit, "c4")
    siit.ip(siit.translator, "link", "set", "c4", "name", "b4")
    siit.until(lambda: '"somebody_s"' in running.log())
    for name, address, link in ((siit.v4, V4, "a0"), (siit.translator, TRANSLATOR4, "b4")):
        siit.run(name, "ip", "address", "add", f"{address}/24", "dev", link)
        siit.run(name, "ip", "link", "set", link, "up")
    siit.run(siit.v4, "ip", "route", "add", "default", "via", TRANSLATOR4)
    for family in ("ipv4", "ipv6"):
        siit.sysctl(siit.translator, f"net.{family}.conf.b4.forwarding", "1")
    probe(TO_IPV6).until(siit, DIRECT)
