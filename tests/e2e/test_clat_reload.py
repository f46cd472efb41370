# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A CLAT follows another configuration while applications hold connections."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

from kernel import remains
from network import SERVER4, SERVER6, SERVER_SYNTHESIZED, Network, Running, create_socket

RUN_TIME, USAGE = 1, 2
OTHER_PREFIX, OTHER_SYNTHESIZED = "2001:2:0:64::/96", "2001:2:0:64::c000:ab"
OTHER6 = "2001:2:0:1::464"
BEGIN = '[translator]\ninterfaces = ["wan0"]\n'


class Talk:
    """A TCP connection from an IPv4 application of the client to the server."""

    def __init__(self, net: Network, address: str = SERVER_SYNTHESIZED) -> None:
        listener = create_socket(net.server, socket.AF_INET6, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, 9000))
        listener.listen()
        self.here = create_socket(net.client, socket.AF_INET, socket.SOCK_STREAM)
        self.here.settimeout(15)
        self.here.connect((SERVER4, 9000))
        self.there, peer = listener.accept()
        self.there.settimeout(15)
        self.peer = peer[0]
        listener.close()

    def goes_on(self) -> bool:
        """Both directions carry more than one packet."""
        for one, other in ((self.here, self.there), (self.there, self.here)):
            one.sendall(b"x" * 5000)
            got = 0
            while got < 5000:
                got += len(other.recv(5000))
        return True

    def close(self) -> None:
        self.here.close()
        self.there.close()


def start(net: Network, datapath: str, text: str = BEGIN) -> tuple[Running, Path]:
    """A CLAT with a file, which is returned. Its hook is in the file where that is what is tried."""
    path = net.scratch / "clat.toml"
    options = ["--config", str(path)]
    if datapath == "clsact":
        text = text.replace("[translator]\n", '[translator]\ndatapath = "tc"\nhook = "clsact"\n')
        datapath = "tc"
    path.write_text(with_prefix(text))
    return net.clat(datapath, *options), path


def with_prefix(text: str) -> str:
    """A file that says a prefix: this one, if it says none."""
    prefix = '[translator]\npref64 = ["64:ff9b::/96"]\n'
    return text if "pref64" in text else text.replace("[translator]\n", prefix)


def reload(net: Network, path: Path, text: str) -> tuple[int, str]:
    """Write another configuration and have it read; exit code and last words."""
    head = '[translator]\ndatapath = "tc"\nhook = "clsact"\n'
    if "clsact" in path.read_text():
        text = text.replace("[translator]\n", head)
    path.write_text(with_prefix(text))
    done = net.run(net.client, str(net.program), "reload", check=False)
    return done.returncode, done.stderr.strip()


def routes(net: Network) -> list[tuple[str, int, int]]:
    """Destination, metric and MTU of the routes to the device."""
    shown = net.ip_json(net.client, "-4", "route", "show", "dev", "diolkos0")
    return sorted((route["dst"], route["metric"], route["metrics"][0]["mtu"]) for route in shown)


def test_a_connection_survives_what_can_change(net: Network, datapath: str) -> None:
    """Routes, their metric, MTUs, and what concerns single packets."""
    clat, path = start(net, datapath)
    talk = Talk(net)
    assert talk.goes_on()
    assert routes(net) == [("default", 2048, 1472)]
    config = BEGIN + 'mtu6 = 1400\ntraffic_class = "zero"\nudp_zero_checksum = "compute"\n[icmp]\nrate = 1\n'
    config += '[clat]\nmetric = 77\nroutes = ["192.0.0.0/24", "198.51.100.0/24"]\n'
    assert reload(net, path, config) == (0, ""), clat.log()
    assert routes(net) == [("192.0.0.0/24", 77, 1372), ("198.51.100.0/24", 77, 1372)]
    assert talk.goes_on()
    assert "3 received" in net.ping("-c3", "-Mdo", f"-s{1372 - 28}").stdout, clat.log()
    shown = net.run(net.client, str(net.program), "show", "config").stdout
    assert 'traffic_class = "zero"' in shown and "metric = 77" in shown
    assert reload(net, path, BEGIN) == (0, "")
    assert routes(net) == [("default", 2048, 1472)]
    assert talk.goes_on()
    talk.close()
    assert clat.stop() == 0
    assert remains(net) == []


def test_another_address_of_each_family(net: Network, datapath: str) -> None:
    """The IPv6 address is tried out first; the IPv4 address changes at once. New connections use both."""
    clat, path = start(net, datapath)
    first = Talk(net)
    assert reload(net, path, BEGIN + f'[clat]\nv6 = "{OTHER6}"\n') == (0, "")
    net.until(lambda: f"<-> {OTHER6} on wan0" in clat.log())
    second = Talk(net)
    assert second.peer == OTHER6 != first.peer and second.goes_on()
    assert reload(net, path, BEGIN + f'[clat]\nv6 = "{OTHER6}"\nv4 = "192.0.0.2"\n') == (0, "")
    third = Talk(net)
    assert third.here.getsockname()[0] == "192.0.0.2" and third.peer == OTHER6 and third.goes_on()
    # Back to an address of our own making, which is the same for the same IPv4 address.
    assert reload(net, path, BEGIN) == (0, "")
    net.until(lambda: clat.log().count(f"192.0.0.1 <-> {first.peer} on wan0") == 2)
    assert Talk(net).peer == first.peer
    assert clat.stop() == 0
    assert remains(net) == []


def test_another_prefix(net: Network, datapath: str) -> None:
    """The next connection goes by it."""
    net.ip(net.server, "address", "add", f"{OTHER_SYNTHESIZED}/128", "dev", "lo")
    net.ip(net.router, "route", "add", OTHER_PREFIX, "via", SERVER6)
    clat, path = start(net, datapath)
    assert reload(net, path, BEGIN + f'pref64 = ["{OTHER_PREFIX}"]\n') == (0, "")
    net.until(lambda: f"prefix {OTHER_PREFIX}, datapath" in clat.log())
    assert Talk(net, OTHER_SYNTHESIZED).goes_on()
    assert clat.stop() == 0
    assert remains(net) == []


def test_learning_the_prefix_begins_without_a_gap(net: Network) -> None:
    """Nobody offers one: the prefix in force stays until that is clear, and one that is given comes back."""
    clat, path = start(net, "auto")
    talk = Talk(net)
    config = BEGIN + 'pref64 = "auto"\n[clat]\nresolvers = ["2001:2:0:2::53"]\n'
    assert reload(net, path, config) == (0, "")
    assert routes(net) != [] and talk.goes_on()
    net.until(lambda: "no longer has a translation prefix" in clat.log(), 60)
    assert routes(net) == []
    assert reload(net, path, BEGIN) == (0, "")
    net.until(lambda: routes(net) != [])
    assert talk.goes_on()


def test_what_cannot_change_is_refused_whole(net: Network, datapath: str) -> None:
    """One sentence that names the key; nothing of the rest is taken either."""
    clat, path = start(net, datapath)
    talk = Talk(net)
    cases = [
        (BEGIN + 'device = "other"\n', "translator.device cannot change", RUN_TIME),
        (BEGIN + "queues = 3\n", "translator.queues cannot change", RUN_TIME),
        (BEGIN + '[log]\nlevel = "debug"\n', "log.level cannot change", RUN_TIME),
        (BEGIN + "mtu6 = 1279\n", "1279", USAGE),
        (BEGIN + "nonsense = 1\n", "has no key `nonsense`", USAGE),
        (BEGIN + '[clat]\nv4 = "127.0.0.1"\n', "clat.v4", USAGE),
    ]
    for text, words, code in cases:
        done, message = reload(net, path, text)
        assert (done, words in message) == (code, True), (text, message)
    assert routes(net) == [("default", 2048, 1472)]
    assert talk.goes_on()
    net.run(net.client, "ip", "address", "add", "192.0.0.9/32", "dev", "lo")
    done, message = reload(net, path, BEGIN + '[clat]\nv4 = "192.0.0.9"\n')
    assert done == RUN_TIME and "192.0.0.9 is already the address of lo" in message
    assert talk.goes_on()
    assert clat.log().count("not reloaded, the old configuration stays in force") >= 7
    # An address that another host has: the CLAT keeps the one it has.
    net.ip(net.client, "address", "add", "2001:2:0:1::77/64", "dev", "wan0", "nodad")
    assert reload(net, path, BEGIN + '[clat]\nv6 = "2001:2:0:1::77"\n') == (0, "")
    net.until(lambda: "the CLAT keeps its address" in clat.log())
    assert talk.goes_on()
    assert clat.stop() == 0
    assert remains(net) == []


def test_a_hangup_reads_the_file_again(net: Network, datapath: str) -> None:
    """SIGHUP does as `reload`: what is right is taken whole, what is wrong not at all, and connections go on."""
    clat, path = start(net, datapath)
    talk = Talk(net)
    begin = path.read_text()

    def hang_up(text: str, words: str) -> None:
        path.write_text(text)
        before = clat.log().count(words)
        clat.process.send_signal(signal.SIGHUP)
        net.until(lambda: clat.log().count(words) > before)
        assert talk.goes_on()

    hang_up(begin + "[clat]\nmetric = 77\n", "reloaded")
    assert routes(net) == [("default", 77, 1472)]
    hang_up(begin + "[clat]\nmetric = 78\nnonsense = 1\n", "has no key `nonsense`")
    hang_up(begin + '[clat]\nmetric = 78\n[log]\nlevel = "debug"\n', "log.level cannot change")
    assert routes(net) == [("default", 77, 1472)]
    hang_up(begin, "reloaded")
    assert routes(net) == [("default", 2048, 1472)]
    path.unlink()
    clat.process.send_signal(signal.SIGHUP)
    net.until(lambda: clat.log().count("not reloaded, the old configuration stays in force") == 3)
    assert talk.goes_on()
    talk.close()
    assert clat.stop() == 0
    assert remains(net) == []


def test_without_a_file_there_is_nothing_to_read(net: Network) -> None:
    """The command line cannot change."""
    net.clat("auto")
    done = net.run(net.client, str(net.program), "reload", check=False)
    assert done.returncode == USAGE
    assert "start with `--config FILE`" in done.stderr
    assert net.ping("-c1").returncode == 0
