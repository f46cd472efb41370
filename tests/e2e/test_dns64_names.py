# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Names that are never or always synthesised, and the query log; both follow a reload."""

from __future__ import annotations

import os

import pytest
from dns64 import DNS64, PREF64, RESOLVER, Dns64Network
from network import CLIENT6, PATIENCE, Running

USAGE = 2
V4 = ["2001:db8:64::c000:201", "2001:db8:64::c000:202"]
RATE = 20


@pytest.fixture
def net(dns64_network: Dns64Network) -> Dns64Network:
    """With unbound upstream."""
    dns64_network.unbound()
    return dns64_network


def section(more: str = "") -> str:
    """A configuration."""
    return f'[dns64]\nlisten = ["[{DNS64}]:53"]\nupstream = ["{RESOLVER}"]\npref64 = ["{PREF64}"]\n{more}\n'


def started(net: Dns64Network, more: str = "") -> Running:
    """A DNS64."""
    return net.dns64("--config", str(net.config(section(more))))


def reload(net: Dns64Network, more: str) -> None:
    """Another configuration."""
    net.config(section(more))
    assert net.once("reload", "--device", "dns64") == (0, "")


def test_lists_follow_a_reload(net: Dns64Network) -> None:
    """And so do answers that are in the cache. Whoever validates gets what upstream says."""
    running = started(net)
    assert net.dig("v4.example").data() == V4
    assert net.dig("both.example").data() == ["2001:db8::1"]
    reload(net, 'never_synthesize = ["v4.example"]\nalways_synthesize = ["example"]')
    denial = net.dig("v4.example")
    assert (denial.status, denial.data()) == ("NOERROR", [])
    assert net.dig("both.example").data() == ["2001:db8:64::c000:201"]
    assert net.dig("v6.example").data() == ["2001:db8::1"], "there is nothing to synthesise from"
    assert net.dig("both.example", "AAAA", "+dnssec", "+cdflag").data() == ["2001:db8::1"]
    assert len(net.dig("ipv4only.arpa").data()) == 2
    assert net.dig("www.example").data() == V4, "the alias decides, not the name behind it"
    code, text = net.once("show", "config", "--device", "dns64")
    assert (code, 'never_synthesize = ["v4.example"]' in text) == (0, True), text

    # A mistake, or a key that cannot change, leaves all as it is.
    for more, said in (
        ('never_synthesize = ["*.example"]', "write `example`"),
        ('never_synthesize = ["a.example"]\nalways_synthesize = ["A.example"]', "is in dns64.never_synthesize, too"),
        ("rate = 7", "dns64.rate cannot change while the DNS64 runs"),
    ):
        net.config(section(more))
        code, message = net.once("reload", "--device", "dns64")
        assert (code, said in message) == (USAGE, True), message
    assert net.dig("v4.example").data() == []
    reload(net, "")
    assert net.dig("v4.example").data() == V4
    assert net.dig("both.example").data() == ["2001:db8::1"]
    assert running.stop() == 0


def lines(running: Running) -> list[str]:
    """The query log."""
    return [line[line.index("query name=") :] for line in running.log().splitlines() if "query name=" in line]


def test_a_reader_of_the_log_that_ends_ends_nothing(net: Dns64Network) -> None:
    """Answers go on, and their lines are counted."""
    reader, writer = os.pipe()
    config = net.config(section('query_log = "full"'))
    process = net.start(net.router, str(net.program), "dns64", "--config", str(config), stderr=writer)
    os.close(writer)
    said = b""

    def says(what: bytes) -> bool:
        nonlocal said
        more = os.read(reader, 1 << 16)
        assert more, said
        said += more
        return what in said

    net.until(lambda: says(b"ready: dns64"))
    assert net.dig("v4.example").status == "NOERROR"
    net.until(lambda: says(b"query name=v4.example"))
    os.close(reader)
    assert net.dig("both.example").status == net.dig("short.example").status == "NOERROR"
    assert net.counters()["query_log.dropped"] == 2
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_the_query_log_says_what_it_may(net: Dns64Network) -> None:
    """Nothing at first; then names; then prefixes, of which an IPv4 client has none; then addresses."""
    running = started(net)
    net.dig("v4.example")
    assert lines(running) == []
    reload(net, 'query_log = "names"')
    net.dig("v4.example")
    reload(net, 'query_log = "prefixes"')
    net.dig("absent.example", "A", "+tcp")
    reload(net, 'query_log = "full"')
    # A name that would end its line, and forge another one.
    net.dig(r"a\010query\032name=b.example", "TXT")
    reload(net, "")
    net.dig("v4.example")
    assert lines(running) == [
        "query name=v4.example type=AAAA by=udp code=NOERROR answer=synthesised",
        "query name=absent.example type=A by=tcp code=NXDOMAIN answer=passed client=2001:2::/48",
        rf"query name=a\010query\032name\061b.example type=TXT by=udp code=NXDOMAIN answer=passed client={CLIENT6}",
    ]
    assert net.counters()["query_log.written"] == 3


def test_a_flood_leaves_the_log_its_room(net: Dns64Network) -> None:
    """Lines that are too many are counted, and the next line says how many; answers do not wait for them. The log's level is
    that of the rest."""
    text = section(f'query_log = "names"\nquery_log_rate = {RATE}\n[log]\nlevel = "warn"')
    # At this level the log does not say when it is ready.
    running = net.dns64("--config", str(net.config(text)), ready=False)
    net.until(lambda: net.once("show", "counters", "--device", "dns64")[0] == 0)
    code = """
import socket, sys
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.settimeout(10)
query = bytes.fromhex("123401000001000000000000") + b"\\x02v4\\x07example\\0" + bytes([0, 28, 0, 1])
for _ in range(400):
    udp.sendto(query, (sys.argv[1], 53))
    assert udp.recv(4096)[:2] == query[:2]
"""
    net.python(code, DNS64)
    counters = net.counters()
    assert counters["query_log.written"] + counters["query_log.dropped"] == 400
    assert counters["query_log.dropped"] >= 1

    def says_so() -> bool:
        net.dig("v4.example")
        return any(" lost=" in line for line in lines(running))

    net.until(says_so)
    counters = net.counters()
    said = sum(int(line.split(" lost=")[1]) for line in lines(running) if " lost=" in line)
    assert said <= counters["query_log.dropped"]
    assert len(lines(running)) == counters["query_log.written"]
