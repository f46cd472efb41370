# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cluster of NAT64 gateways on one link, with a client, a server and an engine (nats-server).

    client ─┐            ┌─ gw1
            ├── switch ──┼─ gw2
    server ─┘            ├─ gw3
                         └─ engine

Everything is on one link: 2001:db8:6::/64 and 198.51.100.0/24. Routes of the client and the server stand for what routers do:
a test moves them as BGP with BFD would.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from network import PATIENCE, Network, Running
from pyroute2.netns import create_socket

PREF64 = "2001:db8:64::/96"
POOL = "192.0.2.0/28"
CLIENT, SERVER = "2001:db8:6::100", "198.51.100.200"
ENGINE = "198.51.100.9"
PORT = 4222
BUCKET = "$KV.DIOLKOS_lab"
NODES = ("gw1", "gw2", "gw3")


def address6(node: str) -> str:
    """Of a gateway on the link."""
    return f"2001:db8:6::{node[2:]}"


def address4(node: str) -> str:
    """The same of IPv4."""
    return f"198.51.100.{node[2:]}"


def in_ipv6(v4: str) -> str:
    """As which address the client knows an IPv4 address."""
    return str(IPv6Address(int(IPv6Network(PREF64)[0]) + int(IPv4Address(v4))))


@dataclass
class ClusterNetwork(Network):
    """Gateways that share a pool."""

    sockets: list[socket.socket] = field(default_factory=list)
    secret: str = field(default_factory=lambda: secrets.token_hex(32))
    # Sections of every node's file beside those of the cluster.
    sections: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.router = f"{self.tag}-engine"
        self.switch = f"{self.tag}-switch"
        self.gateways = {node: f"{self.tag}-{node}" for node in NODES}
        self.further += [self.switch, *self.gateways.values()]
        self.engine: subprocess.Popen | None = None
        self.nodes: dict[str, Running] = {}

    def build(self) -> None:
        """Make namespaces, the link, addresses and routes."""
        self.host("ip", "netns", "add", self.switch)
        self.run(self.switch, "ip", "link", "add", "br0", "type", "bridge")
        self.run(self.switch, "ip", "link", "set", "br0", "up")
        ends = [(self.client, CLIENT, None), (self.server, None, SERVER), (self.router, None, ENGINE)]
        ends += [(self.gateways[node], address6(node), address4(node)) for node in NODES]
        for number, (name, v6, v4) in enumerate(ends):
            self.add_namespace(name)
            for interface in ("all", "default"):
                self.sysctl(name, f"net.ipv4.conf.{interface}.rp_filter", "0")
            port = f"p{number}"
            self.host("ip", "link", "add", "a0", "netns", name, "type", "veth", "peer", port, "netns", self.switch)
            self.run(self.switch, "ip", "link", "set", port, "master", "br0", "up")
            self.run(name, "ip", "link", "set", "a0", "up")
            if v6:
                self.ip(name, "address", "add", f"{v6}/64", "dev", "a0", "nodad")
            if v4:
                self.run(name, "ip", "address", "add", f"{v4}/24", "dev", "a0")
        (self.scratch / "secret").write_text(self.secret)
        self.lead_client(NODES[0])
        self.lead_server(NODES[0])
        pings = [(self.client, address6(node)) for node in NODES] + [(self.server, address4(node)) for node in NODES]
        for name, to in pings:
            self.until(lambda name=name, to=to: self.run(name, "ping", "-c1", "-W0.2", to, check=False).returncode == 0)

    def remove(self) -> None:
        """End what runs and remove the namespaces."""
        for process in self.running:
            process.send_signal(signal.SIGCONT)
        for sock in self.sockets:
            sock.close()
        super().remove()

    # --- what routers would do

    def lead_client(self, node: str) -> None:
        """From now on packets of the client go to this gateway."""
        self.ip(self.client, "route", "replace", PREF64, "via", address6(node))

    def lead_server(self, node: str, to: str = POOL) -> None:
        """The same of packets of the server to the pool, or to one address of it."""
        self.run(self.server, "ip", "route", "replace", to, "via", address4(node))

    # --- what runs

    def start_engine(self, *options: str, wiped: bool = False) -> None:
        """Start the nats-server, with all that it had unless that is to be gone."""
        store = self.scratch / "store"
        if wiped:
            shutil.rmtree(store, ignore_errors=True)
        command = ["nats-server", "-a", ENGINE, "-p", str(PORT), "-js", "-sd", str(store), *options]
        with (self.scratch / "log-engine").open("a") as log:
            self.engine = self.start(self.router, *command, stdout=log, stderr=log)
        self.until(self.engine_answers)

    def engine_answers(self) -> bool:
        """Whether its port is open."""
        with create_socket(self.router, socket.AF_INET, socket.SOCK_STREAM) as sock:
            return sock.connect_ex((ENGINE, PORT)) == 0

    def stop_engine(self) -> None:
        """Kill it."""
        assert self.engine is not None
        self.engine.kill()
        self.engine.wait()

    def remove_entries(self, *keys: str) -> None:
        """Delete entries of the bucket as `nats kv del` does, which leaves a mark of each."""
        header = "NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
        self._publish(*(f"HPUB {BUCKET}.{key} {len(header)} {len(header)}\r\n{header}\r\n" for key in keys))

    def purge_entries(self, *keys: str) -> None:
        """Purge entries from the stream of the bucket, which leaves nothing."""
        asked = [json.dumps({"filter": f"{BUCKET}.{key}"}) for key in keys]
        subject = "$JS.API.STREAM.PURGE.KV_DIOLKOS_lab"
        self._publish(*(f"PUB {subject} _INBOX.purge {len(payload)}\r\n{payload}\r\n" for payload in asked))

    def _publish(self, *messages: str) -> None:
        """Give these to the engine, and wait until it has them."""
        options = json.dumps({"headers": True, "verbose": False})
        with create_socket(self.router, socket.AF_INET, socket.SOCK_STREAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect((ENGINE, PORT))
            sock.sendall("".join([f"CONNECT {options}\r\n", *messages, "PING\r\n"]).encode())
            heard = b""
            while b"PONG" not in heard:
                part = sock.recv(4096)
                assert part, heard
                heard += part
            assert b"-ERR" not in heard, heard

    def configuration(self, **changes: str) -> str:
        """The file of all nodes; a change is another text of a line of `[cluster]`."""
        keys = {
            "name": '"lab"',
            "servers": f'["nats://{ENGINE}:{PORT}"]',
            "plaintext": "true",
            "secret_file": f'"{self.scratch}/secret"',
            "replicas": "1",
            "lease": "3",
        } | changes
        lines = [f"{key} = {value}" for key, value in keys.items() if value]
        nodes = [f'[[cluster.node]]\nname = "{n}"\nid = {n[2:]}\naddress = "{address6(n)}"' for n in NODES]
        head = ["[translator]", 'mode = "nat64"', f'pref64 = ["{PREF64}"]', "[[nat64.pool4]]", f'address = "{POOL}"']
        return "\n".join([*head, "[cluster]", *lines, *nodes, self.sections]) + "\n"

    def gateway(self, node: str, *options: str, ready: bool = True, **changes: str) -> Running:
        """Start a node and wait until it is ready."""
        config = self.scratch / f"{node}.toml"
        config.write_text(self.configuration(**changes))
        log = self.scratch / f"log-{node}-{len(self.running)}"
        with log.open("w") as sink:
            command = (str(self.program), "nat64", "--config", str(config), "--node", node, *options)
            process = self.start(self.gateways[node], *command, stderr=sink, stdout=sink)
        running = Running(process, log)
        if ready:
            self.until(lambda: " ready: " in running.log() or process.poll() is not None)
            assert process.poll() is None, running.log()
        return running

    def status(self, node: str) -> dict:
        """What a node says of itself and its cluster."""
        return json.loads(self.tell(node, "status", "--json"))

    def tell(self, node: str, *words: str) -> str:
        """Run `diolkos cluster` in a gateway."""
        return self.run(self.gateways[node], str(self.program), "cluster", *words).stdout

    def counter(self, node: str, name: str) -> int:
        """One of a node's counters of its cluster."""
        found = [counter["packets"] for counter in self.status(node)["counters"] if counter["name"] == f"cluster.{name}"]
        assert len(found) == 1, name
        return found[0]

    def settled(self, *nodes: str, patience: float = 40) -> None:
        """Wait until these nodes have all slices, about as many each, and nothing moves."""

        def is_so() -> bool:
            found = [self.status(node) for node in nodes]
            opened = [status["open"] for status in found]
            return sum(opened) == found[0]["slices"] and not any(s["moving"] for s in found) and min(opened) > 0

        self.until(is_so, patience)

    def owner(self, address: str) -> str:
        """Which gateway leads an address of the pool to itself by a route of its own."""
        for node, name in self.gateways.items():
            routes = self.run(name, "ip", "route", "show", f"{address}/32").stdout
            if "diolkos0" in routes:
                return node
        raise AssertionError(f"nobody owns {address}")

    def socket(self, address: str, port: int = 0, kind: int = socket.SOCK_DGRAM) -> socket.socket:
        """A socket of the client or the server."""
        name, family = (self.client, socket.AF_INET6) if ":" in address else (self.server, socket.AF_INET)
        sock = create_socket(name, family, kind)
        self.sockets.append(sock)
        sock.settimeout(PATIENCE)
        sock.bind((address, port))
        return sock

    def connection(self, port: int) -> tuple[socket.socket, socket.socket]:
        """A TCP connection to a port of the server: the client's end, the server's."""
        at = self.socket(SERVER, port, socket.SOCK_STREAM)
        at.listen()
        near = self.socket(CLIENT, kind=socket.SOCK_STREAM)
        near.connect((in_ipv6(SERVER), port))
        far, _ = at.accept()
        far.settimeout(PATIENCE)
        self.sockets.append(far)
        return near, far


class Call:
    """A call over UDP: a packet every 20 ms each way, with a number. It knows the longest silence of either side, seconds."""

    def __init__(self, network: ClusterNetwork, port: int = 5000) -> None:
        self.far = network.socket(SERVER, port)
        self.near = network.socket(CLIENT)
        self.near.connect((in_ipv6(SERVER), port))
        self.silence = {"near": 0.0, "far": 0.0}
        self.heard = {"near": 0, "far": 0}
        self.seen_as: set[tuple[str, int]] = set()
        self.said = 0
        self.stopping = False
        self.failure: Exception | None = None
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=part, daemon=True) for part in (self._near, self._far)]
        for thread in self.threads:
            thread.start()

    def _near(self) -> None:
        self.near.settimeout(0.02)
        last = time.monotonic()
        while not self.stopping:
            self.said += 1
            with contextlib.suppress(OSError):  # an ICMP error of a gateway that has gone
                self.near.send(self.said.to_bytes(4, "big"))
            until = time.monotonic() + 0.02
            while time.monotonic() < until:
                try:
                    self.near.recv(100)
                except OSError:
                    continue
                last = self._note("near", last)

    def _far(self) -> None:
        self.far.settimeout(0.5)
        last = time.monotonic()
        while not self.stopping:
            try:
                packet, peer = self.far.recvfrom(100)
            except OSError:
                continue
            self.seen_as.add(peer[:2])
            last = self._note("far", last)
            self.far.sendto(packet, peer)

    def _note(self, side: str, last: float) -> float:
        now = time.monotonic()
        with self.lock:
            self.silence[side] = max(self.silence[side], now - last)
            self.heard[side] += 1
        return now

    def fresh(self) -> None:
        """Forget the silences so far."""
        with self.lock:
            self.silence = dict.fromkeys(self.silence, 0.0)

    def goes_on(self, packets: int = 25, patience: float = PATIENCE) -> None:
        """Wait until so many packets more have come, each way."""
        wanted = {side: heard + packets for side, heard in self.heard.items()}
        Network.until(lambda: all(self.heard[side] >= n for side, n in wanted.items()), patience)

    def hang_up(self) -> None:
        """End it."""
        self.stopping = True
        for thread in self.threads:
            thread.join()


def freeze(process: subprocess.Popen) -> None:
    """Stop a process without its knowledge; `thaw` lets it go on."""
    os.kill(process.pid, signal.SIGSTOP)


def thaw(process: subprocess.Popen) -> None:
    """Let it go on."""
    os.kill(process.pid, signal.SIGCONT)
