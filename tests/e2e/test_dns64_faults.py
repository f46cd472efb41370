# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos dns64` where something is wrong: upstream, clients, privileges, the command line, the file."""

from __future__ import annotations

import signal
import sys

import pytest
from dns64 import DNS64, PREF64, RESOLVER, Dns64Network
from network import Network, Running

RUN_TIME, USAGE, MISSING = 1, 2, 3
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")

CONFIG = f"""
[dns64]
listen = ["[{DNS64}]:53"]
upstream = ["{RESOLVER}"]
pref64 = ["{PREF64}"]
"""
NEW = "2001:db8::98"


def quick(net: Dns64Network, more: str = "") -> Running:
    """Start with little patience."""
    return net.dns64("--config", str(net.config(CONFIG + "timeout_ms = 300\n" + more)))


def test_upstream_is_silent(dns64_network: Dns64Network) -> None:
    """SERVFAIL after a bounded time, and again from memory."""
    net = dns64_network
    net.resolver_that("is_silent")
    quick(net)
    assert net.dig("v4.example").status == "SERVFAIL"
    counters = net.counters()
    assert counters["upstream.timeout"] == 4, "two tries for AAAA, two for A"
    assert net.dig("v4.example").status == "SERVFAIL"
    assert net.counters()["upstream.udp"] == counters["upstream.udp"]


def test_upstream_is_silent_about_aaaa(dns64_network: Dns64Network) -> None:
    """RFC 6147 section 5.1.3: then the A records count."""
    net = dns64_network
    net.resolver_that("is_silent_about_aaaa")
    quick(net)
    assert net.dig("any.example").data() == ["2001:db8:64::c000:24d"]


def test_slow_names_do_not_fill_the_log(dns64_network: Dns64Network) -> None:
    """A client asks for names that time out and names that do not, in turn. The log says it once in ten seconds."""
    net = dns64_network
    net.resolver_that("is_silent_about_slow")
    running = quick(net, "tries = 1\n")
    for number in range(5):
        assert net.dig(f"slow{number}.example").status == "SERVFAIL"
        assert net.dig(f"quick{number}.example").status == "NOERROR"
    assert net.counters()["upstream.timeout"] >= 5
    # More than one where ten seconds have passed meanwhile.
    assert running.log().count("failed: no answer") < 5


def test_the_next_resolver_is_asked(dns64_network: Dns64Network) -> None:
    """The first one does not exist; after one question it is asked last."""
    net = dns64_network
    net.unbound()
    config = CONFIG.replace(f'["{RESOLVER}"]', f'["[{RESOLVER}]:5300", "{RESOLVER}"]')
    net.dns64("--config", str(net.config(config)))
    assert len(net.dig("v4.example").data()) == 2
    assert net.counters()["upstream.unreachable"] == 1
    assert len(net.dig("both.example").data()) == 1
    assert net.counters()["upstream.unreachable"] == 1


def test_upstream_lies(dns64_network: Dns64Network) -> None:
    """Wrong identification, wrong question, no message: only the true answer counts."""
    net = dns64_network
    net.resolver_that("lies")
    quick(net)
    assert net.dig("v4.example").data() == ["2001:db8:64::c000:24d"]
    assert net.counters()["upstream.unexpected"] >= 8


def test_somebody_guesses(dns64_network: Dns64Network) -> None:
    """Ports to which guesses come are given up, and the question goes by TCP, where the resolver listens as well."""
    net = dns64_network
    net.resolver_that("guesses")
    answers = """
import socket, struct
tcp = socket.socket(socket.AF_INET6)
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tcp.bind(("::", 53))
tcp.listen()
print("listening", flush=True)
while True:
    connection, _ = tcp.accept()
    query = connection.recv(4096)[2:]
    end = query.index(b"\\0", 12) + 5
    is_a = query[end - 4:end - 2] == bytes([0, 1])
    address = b"\\xc0\\x0c" + struct.pack("!HHIH4s", 1, 1, 300, 4, bytes([192, 0, 2, 77]))
    reply = query[:2] + struct.pack("!HHHHH", 0x8180, 1, is_a, 0, 0) + query[12:end] + address * is_a
    connection.sendall(struct.pack("!H", len(reply)) + reply)
    connection.close()
"""
    log = net.scratch / "resolver-tcp"
    with log.open("w") as sink:
        net.start(net.server, sys.executable, "-c", answers, stdout=sink)
    net.until(lambda: "listening" in log.read_text())
    net.dns64()
    assert net.dig("v4.example").data() == ["2001:db8:64::c000:24d"]
    counters = net.counters()
    assert counters["upstream.port_suspect"] == 4, "two for AAAA, two for A"
    assert counters["upstream.tcp"] == 2


@pytest.mark.parametrize("how", ["loops", "loops_forever", "is_malformed", "refuses"])
def test_upstream_makes_no_sense(dns64_network: Dns64Network, how: str) -> None:
    """An error for the client, soon."""
    net = dns64_network
    net.resolver_that(how)
    quick(net)
    reply = net.dig("loop.example")
    assert reply.status == ("REFUSED" if how == "refuses" else "SERVFAIL")
    assert net.counters()["upstream.udp"] < 40


def test_upstream_truncates_without_tcp(dns64_network: Dns64Network) -> None:
    """There is no answer to be had."""
    net = dns64_network
    net.resolver_that("is_truncated")
    quick(net)
    assert net.dig("v4.example").status == "SERVFAIL"
    assert net.counters()["upstream.tcp"] > 0


def test_upstream_says_that_it_is_bogus(dns64_network: Dns64Network) -> None:
    """What does not validate is no reason for synthesis (RFC 6147 section 5.5)."""
    net = dns64_network
    net.resolver_that("is_bogus")
    quick(net)
    assert net.dig("v4.example").status == "SERVFAIL"
    assert len(net.dig("v4.example", "AAAA", "+cdflag").data()) == 1, "who does not want validation gets none"


def test_equal_questions_are_asked_once(dns64_network: Dns64Network) -> None:
    """Twenty clients, one question upstream."""
    net = dns64_network
    net.resolver_that("is_silent_about_aaaa")
    quick(net)
    digs = [net.start(net.client, "dig", f"@{DNS64}", "+short", "x.example", "AAAA") for _ in range(20)]
    assert [dig.wait(15) for dig in digs] == [0] * 20
    counters = net.counters()
    assert counters["coalesced"] + counters["cache_hit"] == 19
    assert counters["upstream.udp"] == 3


def test_too_many_questions_of_one_client(dns64_network: Dns64Network) -> None:
    """Beyond the rate half get nothing and half the word to come by TCP, where they are answered."""
    net = dns64_network
    net.unbound()
    quick(net, "rate = 1\nburst = 5\n")
    found = []

    def both() -> bool:
        found.append(net.dig("v4.example", "AAAA", "+ignore", "+time=1").flags)
        return [] in found and any("tc" in flags for flags in found)

    # Which half a question is of is drawn.
    net.until(both, 60)
    assert len(net.dig("v4.example", "AAAA", "+tcp").data()) == 2
    counters = net.counters()
    assert counters["limited.dropped"] >= 1
    assert counters["limited.truncated"] >= 1


def test_one_client_does_not_take_all_connections(dns64_network: Dns64Network) -> None:
    """A quarter of eight is two; a third one closes the first, and silent ones are closed after a second."""
    net = dns64_network
    net.unbound()
    quick(net, "max_tcp = 8\ntcp_idle_s = 1\n")
    code = """
import socket, sys
connections = [socket.create_connection((sys.argv[1], 53)) for _ in range(3)]
connections[0].settimeout(10)
print(connections[0].recv(1) == b"")
print(connections[2].recv(1) == b"")
"""
    assert net.python(code, DNS64).split() == ["True", "True"]
    assert net.counters()["tcp_evicted"] == 1
    assert len(net.dig("v4.example", "AAAA", "+tcp").data()) == 2


def test_clients_and_questions_that_are_refused(dns64_network: Dns64Network) -> None:
    """Strangers, those who do not want recursion, transfers."""
    net = dns64_network
    net.unbound()
    running = quick(net, 'clients = ["2001:db8::/32"]\n')
    assert net.dig("v4.example").status == "REFUSED"
    assert net.counters()["refused.client"] == 1
    assert running.stop() == 0
    quick(net)
    assert net.dig("v4.example", "AAAA", "+norecurse").status == "REFUSED"
    assert "failed" in net.dig("example", "AXFR").text
    assert net.dig("v4.example", "AAAA", "+edns=1", "+noednsneg").status == "BADVERS"
    assert net.dig("v4.example", "AAAA", "+opcode=4").status == "NOTIMP"


def test_junk_is_survived(dns64_network: Dns64Network) -> None:
    """Random bytes by UDP and TCP; the seed is fixed."""
    net = dns64_network
    net.unbound()
    quick(net)
    code = """
import random, socket, sys
draw = random.Random(64)
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for _ in range(2000):
    udp.sendto(draw.randbytes(draw.randrange(600)), (sys.argv[1], 53))
for _ in range(20):
    tcp = socket.create_connection((sys.argv[1], 53))
    tcp.sendall(draw.randbytes(draw.randrange(1, 3000)))
    tcp.close()
"""
    net.python(code, DNS64)
    assert len(net.dig("v4.example").data()) == 2


def test_no_privileges_are_needed(dns64_network: Dns64Network) -> None:
    """But for a port below 1024."""
    net = dns64_network
    net.unbound()
    code, message = net.once("dns64", "--listen", f"[{DNS64}]:53", "--upstream", RESOLVER, wrapper=NOBODY)
    assert code == MISSING
    assert "CAP_NET_BIND_SERVICE" in message
    running = net.dns64("--listen", f"[{DNS64}]:5353", wrapper=NOBODY)
    assert len(net.dig("v4.example", "AAAA", "-p", "5353").data()) == 2
    assert running.stop() == 0


def test_the_limit_of_open_files_is_too_low(dns64_network: Dns64Network) -> None:
    """For the connections of clients, of which it would refuse some much later."""
    limited = ("sh", "-c", 'ulimit -n 300 && exec "$0" "$@"')
    listen = ("--listen", f"[{DNS64}]:53", "--upstream", RESOLVER)
    code, message = dns64_network.once("dns64", *listen, wrapper=limited)
    assert code == MISSING
    assert "the limit of open files is 300" in message
    assert "`dns64.max_tcp`" in message


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it(dns64_network: Dns64Network, how: int) -> None:
    """With success, while questions are on their way."""
    net = dns64_network
    net.resolver_that("is_silent")
    running = net.dns64()
    net.start(net.client, "dig", f"@{DNS64}", "+tries=1", "+time=1", "v4.example", "AAAA")
    net.until(lambda: net.counters()["upstream.udp"] > 0)
    assert running.stop(how) == 0


def test_an_address_that_is_still_tried_out(dns64_network: Dns64Network) -> None:
    """RFC 4862 section 5.4: nobody can bind it before Duplicate Address Detection has ended."""
    net = dns64_network
    for key in ("accept_dad", "dad_transmits"):
        net.sysctl(net.router, f"net.ipv6.conf.down0.{key}", "1")
    net.ip(net.router, "address", "add", f"{NEW}/64", "dev", "down0")
    assert "tentative" in net.run(net.router, "ip", "address", "show", "to", NEW).stdout
    running = net.dns64("--listen", f"[{NEW}]:53")
    assert "tentative" not in net.run(net.router, "ip", "address", "show", "to", NEW).stdout
    assert running.stop() == 0


def test_a_port_that_is_taken(dns64_network: Dns64Network) -> None:
    """And a name that is, and an address that is not there."""
    net = dns64_network
    first = net.dns64()
    listen = ("--upstream", RESOLVER, "--listen")
    code, message = net.once("dns64", *listen, f"[{DNS64}]:53", "--name", "second")
    assert (code, f"diolkos (process {first.process.pid}) has UDP port 53 there" in message) == (RUN_TIME, True), message
    code, message = net.once("dns64", *listen, f"[{DNS64}]:54")
    assert (code, "a diolkos with the name dns64 already runs" in message) == (RUN_TIME, True), message
    code, message = net.once("dns64", *listen, "[2001:db8::99]:53", "--name", "third")
    assert (code, "this host has no such address" in message) == (RUN_TIME, True), message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (CONFIG.replace("upstream", "upstrem"), "dns64.toml:4:1: [dns64] has no key `upstrem`; did you mean `upstream`?"),
        (
            CONFIG.replace(RESOLVER, "resolver.example"),
            "dns64.toml:4:12: dns64.upstream: `resolver.example` is not the address of a resolver",
        ),
        (CONFIG.replace("/96", "/95"), "dns64.toml:5:11: dns64.pref64[0]: 2001:db8:64::/95"),
        (CONFIG + "udp_size = 100\n", "dns64.toml:6:12: dns64.udp_size: 100 is not between 512 and 4096"),
        (CONFIG.replace(f'"{RESOLVER}"', f'"[{DNS64}]:53"'), "dns64.toml:4:13: dns64.upstream[0]: "),
        ("[dns64]\n", "dns64.toml:1:1: dns64.upstream: no resolver is configured"),
        (CONFIG + "[[dns64.range]]\nv4 = '10.0.0.1/8'\npref64 = []\n", "dns64.toml:7:6: dns64.range[0].v4: "),
    ],
)
def test_a_wrong_file(dns64_network: Dns64Network, text: str, place: str) -> None:
    """Exit 2, and file, line and column, from `check` and from `run`."""
    path = str(dns64_network.config(text))
    for command in (("check", path), ("run", "--config", path), ("dns64", "--config", path)):
        code, message = dns64_network.once(*command)
        assert code == USAGE, message
        assert place in message


def test_a_wrong_command_line(dns64_network: Dns64Network) -> None:
    """Exit 2."""
    for arguments in (
        (),
        ("--upstream", "nobody"),
        ("--upstream", RESOLVER, "--pref64", "64:ff9b::/97"),
        ("--upstream", RESOLVER, "--listen", "53"),
    ):
        assert dns64_network.once("dns64", *arguments)[0] == USAGE, arguments


def test_check_prints_what_run_takes(dns64_network: Dns64Network) -> None:
    """Every key, and nothing of a translator that the file does not speak of."""
    net = dns64_network
    code, text = net.once("check", str(net.config(CONFIG)))
    assert code == 0
    assert "[translator]" not in text
    assert "cache_bytes = 67108864" in text
    assert net.once("check", str(net.config(text))) == (0, text)
    net.diolkos("run", "--config", str(net.config(text)))
    assert net.once("show", "config", "--device", "dns64") == (0, text)
    assert net.once("reload", "--device", "dns64") == (0, "")
    assert net.once("show", "config", "--device", "dns64") == (0, text)


@pytest.mark.parametrize("command", ["clat", "siit", "nat64"])
def test_a_translator_alone_starts_no_dns64(net: Network, command: str) -> None:
    """A file may be that of `diolkos dns64`, too. That the section has no effect is said before anything else happens."""
    file = net.scratch / "both.toml"
    pool = '\n[[nat64.pool4]]\naddress = "192.0.2.1"\n' if command == "nat64" else ""
    file.write_text(f'[dns64]\nlisten = ["[::1]:5353"]\nupstream = ["::1"]\n[translator]\npref64 = ["2001:db8:64::/96"]\n'
                    f'interfaces = ["absent0"]\n{pool}')  # fmt: skip
    _, said = net.refused(command, "--config", str(file))
    assert f"both.toml:1:1: dns64: `diolkos {command}` starts no DNS64: `diolkos dns64 --config FILE` does" in said
    assert "absent0" in said
