# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NAT64 with ports of the router's only IPv4 address: flows that conntrack has in another way than the rules would have it.

No flow of a node is lost for longer than a few seconds because of an entry of conntrack from before: not of an old address, nor
of a time without the rules, nor of a packet that somebody has forged.
"""

from __future__ import annotations

import socket
import threading
import time

from home import INSIDE, HomeNetwork, answered, is_of_nodes, shared
from nat64 import TRANSLATOR, UNSHARED, V4_OTHER, ask, in_ipv6
from siit import TRANSLATOR4, V4, V4_IN_IPV6, V6

NEW = "198.51.100.9"
MODEM = "192.168.100.2"
STATIC = (
    f'\n[[nat64.static]]\nprotocol = "udp"\nv4 = "{INSIDE}:40443"\nv6 = "[{V6}]:443"\n'
)


def until_heard(
    home: HomeNetwork, sender: socket.socket, to: tuple, receiver: socket.socket
) -> tuple:
    """Whom a receiver sees, once packets arrive, which go out all the time: no entry of conntrack ends by itself."""
    begun = time.monotonic()
    receiver.settimeout(0.3)
    try:
        while time.monotonic() < begun + 6:
            sender.sendto(b"again and again", to)
            try:
                return receiver.recvfrom(100)[1][:2]
            except TimeoutError:
                pass
    finally:
        receiver.settimeout(5)
    raise AssertionError(
        home.run(home.translator, "cat", "/proc/net/nf_conntrack", check=False).stdout
    )


def test_a_flow_from_outside_goes_on_with_the_new_address(home: HomeNetwork) -> None:
    """A peer has asked a node at the old address; the node never stops to answer it."""
    running = home.nat64(shared() + STATIC)
    server, peer = home.socket(V6, 443), home.socket(V4_OTHER, 4000)
    assert ask(peer, (TRANSLATOR4, 40443), server)[0] == in_ipv6(V4_OTHER)
    server.sendto(b"an answer", (in_ipv6(V4_OTHER), 4000))
    assert peer.recvfrom(100)[1] == (TRANSLATOR4, 40443)
    home.renumber(TRANSLATOR4, NEW)
    home.until_shared(running, NEW)
    assert until_heard(home, server, (in_ipv6(V4_OTHER), 4000), peer) == (NEW, 40443)


def test_flows_of_before_the_rules(home: HomeNetwork) -> None:
    """Somebody never stops to ask a node, also while diolkos does not run; those who have an answer of the router stay with it."""
    peer, other = home.socket(V4_OTHER, 4000), home.socket(V4_OTHER, 4001)
    service = home.at(home.translator, "0.0.0.0", 40444)
    assert ask(other, (TRANSLATOR4, 40444), service) == (V4_OTHER, 4001)
    service.sendto(b"an answer", (V4_OTHER, 4001))
    assert other.recvfrom(100)[1] == (TRANSLATOR4, 40444)
    listener = home.at(home.translator, "0.0.0.0", 40445, socket.SOCK_STREAM)
    listener.listen()
    client = home.connect(V4_OTHER, (TRANSLATOR4, 40445))
    accepted = listener.accept()[0]
    for _ in range(2):
        peer.sendto(b"too early", (TRANSLATOR4, 40443))
        running = home.nat64(shared() + STATIC)
        server = home.socket(V6, 443)
        assert until_heard(home, peer, (TRANSLATOR4, 40443), server) == (
            in_ipv6(V4_OTHER),
            4000,
        )
        server.close()
        assert ask(other, (TRANSLATOR4, 40444), service) == (V4_OTHER, 4001)
        accepted.sendall(b"the router")
        assert client.recv(100) == b"the router"
        running.stop()
        home.run(home.translator, "sh", "-c", "conntrack -F 2>/dev/null || true")


def test_ports_that_nodes_have_no_more(home: HomeNetwork) -> None:
    """A reload takes them away: they are the router's, for peers that never stop to send, too."""
    home.nat64(shared("40000-40999") + STATIC)
    server, peer = home.socket(V6, 443), home.socket(V4_OTHER, 4000)
    ask(peer, (TRANSLATOR4, 40443), server)
    assert home.reload(shared("40000-40399")) == (0, "")
    service = home.at(home.translator, "0.0.0.0", 40443)
    assert until_heard(home, peer, (TRANSLATOR4, 40443), service) == (V4_OTHER, 4000)
    assert home.reload(shared("40000-40999") + STATIC) == (0, "")
    service.close()
    assert until_heard(home, peer, (TRANSLATOR4, 40443), server) == (
        in_ipv6(V4_OTHER),
        4000,
    )


def test_an_interface_with_two_addresses(home: HomeNetwork) -> None:
    """The first one only reaches the modem: nodes share the one by which the router speaks to the Internet, once it does."""
    home.renumber(TRANSLATOR4, None)
    home.batch(home.translator, f"address add {MODEM}/24 dev b4")
    home.renumber(None, TRANSLATOR4)
    running = home.nat64(shared())
    home.until_shared(running, MODEM)
    home.batch(home.translator, f"route add default via {V4}")
    home.until_shared(running, TRANSLATOR4)
    outside, other, node = (
        home.socket(V4, 4000),
        home.socket(V4_OTHER, 4000),
        home.socket(V6),
    )
    seen = ask(node, (V4_IN_IPV6, 4000), outside)
    assert seen[0] == TRANSLATOR4 and is_of_nodes(seen[1])
    assert ask(node, (in_ipv6(V4_OTHER), 4000), other) == seen
    # Beyond the next hop, from which the kernel would choose another source.
    home.batch(
        home.v4,
        "address add 198.18.0.80/32 dev lo",
        f"route replace default via {TRANSLATOR4}",
    )
    far = home.at(home.v4, "198.18.0.80", 4001)
    assert ask(node, (in_ipv6("198.18.0.80"), 4001), far) == seen
    # A route that names its source.
    home.batch(
        home.translator,
        f"address add {NEW}/24 dev b4",
        f"route replace default via {V4} src {NEW}",
    )
    home.until_shared(running, NEW)
    assert ask(node, (V4_IN_IPV6, 4000), outside)[0] == NEW


def test_a_forged_packet_to_the_address_inside(home: HomeNetwork) -> None:
    """Whoever knows that address cannot take the place of a node's flow in conntrack: not from the LAN, nor from outside."""
    home.nat64(shared())
    for name in ("all", "l4", "b4"):
        home.sysctl(home.translator, f"net.ipv4.conf.{name}.rp_filter", "0")
    # A firewall that lets everything pass.
    home.run(
        home.translator,
        "nft",
        "flush chain ip home forward; chain ip home forward { policy accept; }",
    )
    for name in (home.lan, home.v4):
        home.batch(home.lan, f"address replace {V4}/32 dev lo")
        home.batch(home.v4, f"route replace {INSIDE}/32 via {TRANSLATOR4}")
        outside, other, node = (
            home.socket(V4, 4000),
            home.socket(V4_OTHER, 4000),
            home.socket(V6),
        )
        seen = ask(node, (in_ipv6(V4_OTHER), 4000), other)
        if name == home.v4:
            outside.close()
        forger = home.at(name, V4, 4000)
        for _ in range(3):
            forger.sendto(b"forged", (INSIDE, seen[1]))
        assert answered(node) == b""
        if name == home.v4:
            outside = forger
        assert ask(node, (V4_IN_IPV6, 4000), outside) == seen
        for sock in (outside, other, node, forger):
            sock.close()


def test_a_reload_that_the_kernel_refuses(home: HomeNetwork) -> None:
    """Another table has the name. Nothing has changed, and the reload fails; afterwards it does not."""
    alone = shared().replace('interface = "b4"\n', "")
    home.nat64(alone)
    home.run(home.translator, "nft", "add", "table", "ip", "diolkos0")
    code, said = home.reload(shared())
    assert code != 0 and "cannot be shared" in said, (code, said)
    home.batch(home.v4, f"route replace {INSIDE}/32 via {TRANSLATOR4}")
    home.run(
        home.translator,
        "nft",
        "add chain ip home post2 { type nat hook postrouting priority 90; }",
    )
    home.run(
        home.translator, "nft", "add rule ip home post2 ip saddr", INSIDE, "accept"
    )
    home.run(
        home.translator, "nft", "insert rule ip home post ip saddr", INSIDE, "accept"
    )
    outside, node = home.socket(V4, 4000), home.socket(V6)
    assert ask(node, (V4_IN_IPV6, 4000), outside)[0] == INSIDE
    home.run(home.translator, "nft", "delete", "table", "ip", "diolkos0")
    assert home.reload(shared()) == (0, "")
    assert (
        until_heard(home, home.socket(V6), (V4_IN_IPV6, 4000), outside)[0]
        == TRANSLATOR4
    )


def test_a_placement_that_bypasses_conntrack_gets_no_shared_address(
    home: HomeNetwork,
) -> None:
    """`auto` has chosen `direct`, as there are no rules yet; the file has `auto` before and after."""
    home.run(home.translator, "nft", "delete", "table", "ip", "home")
    named = shared().replace("[nat64]\n", 'interfaces = ["b4", "b6"]\n[nat64]\n', 1)
    running = home.nat64(named.replace('interface = "b4"\n', ""))
    assert "placement auto: device" not in running.log()
    code, said = home.reload(named)
    assert code != 0 and "nat64.pool4[0].interface" in said and "conntrack" in said


def test_an_interface_of_a_vrf_is_refused(home: HomeNetwork) -> None:
    """By name, at the start and at a reload: packets of nodes would be routed by another table."""
    home.batch(
        home.translator,
        "link add blue type vrf table 77",
        "link set blue up",
        "link set b4 master blue",
    )
    home.configure(shared())
    running = home.siit(command="nat64", ready=False)
    assert running.wait() == 2
    assert 'nat64.pool4.interface: "b4" belongs to the VRF "blue"' in running.log()
    home.nat64(shared().replace('interface = "b4"\n', ""))
    code, said = home.reload(shared())
    assert code != 0 and '"b4" belongs to the VRF "blue"' in said


def test_more_rules_than_a_socket_has_room_for_answers(home: HomeNetwork) -> None:
    """Each part of a pool is some rules for each protocol."""
    part = '\n[[nat64.pool4]]\naddress = "{}"\ninterface = "b4"\nports = "{}-{}"\n'
    parts = "".join(
        part.format(INSIDE, 40000 + 10 * at, 40007 + 10 * at) for at in range(40)
    )
    home.nat64(f"{TRANSLATOR}[nat64]\n" + "\n".join(UNSHARED) + parts)
    outside = home.socket(V4, 4000)
    seen = ask(home.socket(V6), (V4_IN_IPV6, 4000), outside)
    assert seen[0] == TRANSLATOR4 and is_of_nodes(seen[1])


def test_nothing_leaves_with_the_address_inside_at_an_end(home: HomeNetwork) -> None:
    """The rules are the last to go: nodes send all the time, and no other rules replace their addresses."""
    home.run(home.translator, "nft", "delete", "table", "ip", "home")
    for _ in range(5):
        running = home.nat64(shared())
        ends = threading.Event()

        def send(node: socket.socket, ends: threading.Event = ends) -> None:
            while not ends.is_set():
                for port in range(1024, 1224):
                    node.sendto(b"the next", (V4_IN_IPV6, port))

        senders = [
            threading.Thread(target=send, args=[home.socket(V6)]) for _ in range(2)
        ]
        with home.sniffed() as sniffer:
            for sender in senders:
                sender.start()
            try:
                home.until(lambda sniffer=sniffer: len(sniffer.read()) > 2000)
                running.stop()
                time.sleep(0.2)
            finally:
                ends.set()
                for sender in senders:
                    sender.join()
            assert sniffer.sources() <= {TRANSLATOR4, V4}
