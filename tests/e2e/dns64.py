# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A client that knows IPv6 only, a DNS64, and a resolver that knows the names.

    client ── DNS64 ── resolver (unbound)

The DNS64 is the router of `network`. unbound is the authority for two zones, so that no test asks the world.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from network import CLIENT6, ROUTER6, SERVER6, Network, Running
from pref64 import ROUTER, Option

DNS64 = ROUTER6
RESOLVER = SERVER6
CLIENT = CLIENT6
PREF64 = "2001:db8:64::/96"

ZONE = """
$TTL 300
@         IN SOA ns hostmaster 1 3600 600 86400 120
          IN NS ns
ns        IN A 192.0.2.53
v4        IN A 192.0.2.1
          IN A 192.0.2.2
          IN TXT "only IPv4"
short   7 IN A 192.0.2.1
long 3600 IN A 192.0.2.1
v6        IN AAAA 2001:db8::1
both      IN A 192.0.2.1
          IN AAAA 2001:db8::1
mapped    IN A 192.0.2.1
          IN AAAA ::ffff:192.0.2.1
mixed     IN AAAA ::ffff:192.0.2.1
          IN AAAA 2001:db8::2
none      IN TXT "no address"
www       IN CNAME alias
alias     IN CNAME v4
old       IN DNAME new
h.new     IN A 192.0.2.9
""" + "".join(f"many IN A 198.18.0.{host}\n" for host in range(1, 101))

REVERSE = """
$TTL 300
@ IN SOA ns.example. hostmaster.example. 1 3600 600 86400 120
  IN NS ns.example.
1 IN PTR v4.example.
"""

UNBOUND = """
server:
    interface: ::0
    port: {port}
    access-control: ::0/0 allow
    username: ""
    chroot: ""
    directory: "{folder}"
    pidfile: "{folder}/unbound.pid"
    use-syslog: no
    do-daemonize: no
    module-config: "iterator"
    local-zone: "2.0.192.in-addr.arpa." nodefault
    root-hints: ""
{more}remote-control:
    control-enable: no
auth-zone:
    name: "example."
    zonefile: "{folder}/zone"
    for-downstream: yes
    for-upstream: yes
auth-zone:
    name: "2.0.192.in-addr.arpa."
    zonefile: "{folder}/reverse"
    for-downstream: yes
    for-upstream: yes
auth-zone:
    name: "ipv4only.arpa."
    zonefile: "{folder}/ipv4only"
    for-downstream: yes
    for-upstream: yes
"""

# Further lines of its server, for those who ask by TLS.
BY_TLS = """
    interface: ::0@853
    tls-port: 853
    tls-service-pem: "{certificate}"
    tls-service-key: "{key}"
"""

# As the public one, and the AAAA records of a network that says its prefix (RFC 7050 section 3).
IPV4ONLY = """
$TTL 600
@ IN SOA ns.example. hostmaster.example. 1 3600 600 86400 120
  IN NS ns.example.
  IN A 192.0.0.170
  IN A 192.0.0.171
"""

# A second unbound, which asks the first one and validates. It believes that the zone is signed with a key that the zone
# does not have, so that nothing in it is valid.
VALIDATOR = f"""
server:
    interface: ::0
    port: 53
    access-control: ::0/0 allow
    username: ""
    chroot: ""
    directory: "{{folder}}"
    pidfile: "{{folder}}/validator.pid"
    use-syslog: no
    do-daemonize: no
    do-not-query-localhost: no
    root-hints: ""
    module-config: "validator iterator"
    trust-anchor: "example. DS 4711 13 2 {64 * "0"}"
remote-control:
    control-enable: no
stub-zone:
    name: "example."
    stub-addr: ::1@5399
"""

# A resolver that misbehaves, in a way that is its first argument; it prints a line once it listens.
RESOLVER_THAT = """
import socket, struct, sys
how = sys.argv[1]
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.bind(("::", 53))
print("listening", flush=True)
name = lambda text: b"".join(bytes([len(l)]) + l.encode() for l in text.split(".")) + b"\\0"
while True:
    query, client = udp.recvfrom(4096)
    end = query.index(b"\\0", 12) + 5
    question, qtype = query[12:end], struct.unpack("!H", query[end - 4:end - 2])[0]
    def reply(id_=query[:2], question=question, flags=0x8180, answers=(), more=b""):
        head = id_ + struct.pack("!HHHHH", flags, 1, len(answers), 0, 0)
        return head + question + b"".join(answers) + more
    address = b"\\xc0\\x0c" + struct.pack("!HHIH4s", 1, 1, 300, 4, bytes([192, 0, 2, 77]))
    good = reply(answers=[address] if qtype == 1 else [])
    if how == "is_silent":
        continue
    if how == "is_silent_about_aaaa" and qtype == 28:
        continue
    if how == "is_silent_about_slow" and question[1:5] == b"slow":
        continue
    if how == "lies" or how == "guesses":
        wrong = bytes([query[0] ^ 1, query[1]])
        bad = b"\\xc0\\x0c" + struct.pack("!HHIH4s", 1, 1, 300, 4, bytes([203, 0, 113, 66]))
        other = name("other.example") + question[-4:]
        for lie in (reply(id_=wrong, answers=[bad]), reply(question=other, answers=[bad]), b"", query, b"\\xff" * 40):
            udp.sendto(lie, client)
    if how == "guesses":
        for guess in range(40):
            udp.sendto(reply(id_=struct.pack("!H", guess), answers=[bad]), client)
    if how == "loops":
        alias = lambda a, b: name(a) + struct.pack("!HHIH", 5, 1, 60, len(name(b))) + name(b)
        good = reply(answers=[alias("loop.example", "pool.example"), alias("pool.example", "loop.example")])
    if how == "loops_forever":
        label = question[0]
        target = b"\\x08" + (b"%08d" % (int(question[1:9]) + 1 if question[1:9].isdigit() else 0)) + name("example")
        good = reply(answers=[b"\\xc0\\x0c" + struct.pack("!HHIH", 5, 1, 60, len(target)) + target])
    if how == "is_malformed":
        good = reply(answers=[b"\\xc0\\x0c\\x00"])
    if how == "is_truncated":
        good = reply(flags=0x8380)
    if how == "refuses_aaaa" and qtype == 28:
        good = reply(flags=0x8185)
    if how == "refuses":
        good = reply(flags=0x8185)
    if how == "is_bogus":
        checking_disabled = query[3] & 0x10
        good = good if checking_disabled else reply(flags=0x8182)
    udp.sendto(good, client)
"""


@dataclass
class Reply:
    """What dig showed."""

    status: str
    flags: list[str]
    answers: list[list[str]]
    text: str

    def data(self, rtype: str = "AAAA") -> list[str]:
        """Data of the answers of a type."""
        return sorted(line[4] for line in self.answers if line[3] == rtype)

    def ttls(self, rtype: str = "AAAA") -> list[int]:
        """TTLs of the answers of a type."""
        return [int(line[1]) for line in self.answers if line[3] == rtype]


class Dns64Network(Network):
    """A client, a DNS64, and a resolver upstream."""

    def unbound(self, bogus: bool = False, reveals: tuple[str, ...] = (), tls: tuple[Path, Path] | None = None) -> Running:
        """Start the resolver and wait until it answers; where it validates, example is bogus. It gives ipv4only.arpa these
        addresses, and answers by TLS with a certificate and its key, too."""
        folder = self.scratch / "unbound"
        folder.mkdir(exist_ok=True)
        more = BY_TLS.format(certificate=tls[0], key=tls[1]) if tls else ""
        (folder / "zone").write_text(ZONE)
        (folder / "reverse").write_text(REVERSE)
        (folder / "ipv4only").write_text(IPV4ONLY + "".join(f"  IN AAAA {address}\n" for address in reveals))
        (folder / "conf").write_text(UNBOUND.format(folder=folder, port=5399 if bogus else 53, more=more))
        (folder / "validator").write_text(VALIDATOR.format(folder=folder))
        # Under its own path AppArmor may keep it from files that are not below /etc/unbound.
        program = folder / "unbound"
        if not program.exists():
            shutil.copy(shutil.which("unbound") or "/usr/sbin/unbound", program)
        for conf in ("conf", "validator") if bogus else ("conf",):
            path = self.scratch / f"unbound-{conf}.log"
            log = path.open("w")
            process = self.start(self.server, str(program), "-d", "-c", str(folder / conf), stdout=log, stderr=log)
        self.until(lambda: self.dig("v4.example", "A", "+cdflag", server=RESOLVER).status == "NOERROR")
        return Running(process, path)

    def advertise(self, *options: Option) -> None:
        """Send a router advertisement to the DNS64 from the side of the resolver."""
        links = self.ip_json(self.server, "-6", "address", "show", "dev", "in0", "scope", "link")
        (address,) = [a["local"] for link in links for a in link.get("addr_info", []) if "local" in a]
        packet = f'IPv6(dst="ff02::1", src="{address}", hlim=255)/ICMPv6ND_RA(routerlifetime=0)'
        packet += "".join(f"/{option}" for option in options)
        self.run(self.server, sys.executable, "-c", ROUTER.replace("down0", "in0"), "now", packet)

    def prefixes(self) -> list[dict]:
        """What `show prefix` says."""
        command = (str(self.program), "show", "prefix", "--json", "--device", "dns64")
        return json.loads(self.run(self.router, *command).stdout)["prefixes"]

    def resolver_that(self, how: str) -> None:
        """Start a resolver that misbehaves."""
        log = self.scratch / f"resolver-{how}"
        with log.open("w") as sink:
            self.start(self.server, sys.executable, "-c", RESOLVER_THAT, how, stdout=sink)
        self.until(lambda: "listening" in log.read_text())

    def dns64(self, *options: str, wrapper: tuple[str, ...] = (), ready: bool = True) -> Running:
        """Start `diolkos dns64` in the router and wait until it is ready."""
        arguments = list(options)
        for option, value in (("--listen", f"[{DNS64}]:53"), ("--upstream", RESOLVER), ("--pref64", PREF64)):
            if option not in arguments and "--config" not in arguments:
                arguments += [option, value]
        return self.diolkos("dns64", *arguments, wrapper=wrapper, ready=ready)

    def diolkos(self, *arguments: str, wrapper: tuple[str, ...] = (), ready: bool = True) -> Running:
        """Start diolkos in the router and wait until it is ready."""
        log = self.scratch / f"log-{len(self.running)}"
        with log.open("w") as sink:
            process = self.start(self.router, *wrapper, str(self.program), *arguments, stderr=sink, stdout=sink)
        running = Running(process, log)
        if ready:
            self.until(lambda: "ready: dns64" in running.log() or process.poll() is not None)
            assert process.poll() is None, running.log()
        return running

    def config(self, text: str) -> Path:
        """A configuration file."""
        path = self.scratch / "dns64.toml"
        path.write_text(text)
        return path

    def once(self, *arguments: str, wrapper: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run diolkos in the router to its end; its exit code and what it said."""
        done = self.run(self.router, *wrapper, str(self.program), *arguments, check=False, timeout=15)
        return done.returncode, (done.stdout + done.stderr).strip()

    def dig(self, name: str, rtype: str = "AAAA", *options: str, server: str = DNS64) -> Reply:
        """Ask from the client."""
        command = ["dig", f"@{server}", "+tries=1", "+time=12", "+nocookie", name, rtype, *options]
        done = self.run(self.client, *command, check=False)
        return parse(done.stdout)

    def counters(self) -> dict[str, int]:
        """What happened, by name, without `dns64.`."""
        shown = self.run(self.router, str(self.program), "show", "counters", "--json", "--device", "dns64").stdout
        counters = json.loads(shown)["counters"]
        return {name.removeprefix("dns64."): count for name, count in counters.items()}

    def python(self, code: str, *arguments: str) -> str:
        """What Python code prints in the client."""
        return self.run(self.client, sys.executable, "-c", code, *arguments).stdout


def parse(text: str) -> Reply:
    """Read what dig printed."""
    reply = Reply("none", [], [], text)
    in_answers = False
    for line in text.splitlines():
        if "status: " in line:
            reply.status = line.split("status: ")[1].split(",")[0]
        if line.startswith(";; flags: "):
            reply.flags = line.removeprefix(";; flags: ").split(";")[0].split()
        if line.startswith(";; ANSWER SECTION"):
            in_answers = True
        elif not line.strip() or line.startswith(";"):
            in_answers = False
        elif in_answers:
            reply.answers.append(line.split(None, 4))
    return reply
