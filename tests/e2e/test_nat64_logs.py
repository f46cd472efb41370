# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Logs of bindings: whose an address and port were, told to files and to real collectors."""

from __future__ import annotations

import os
import re
import signal
import sys

import pytest
from logs import (
    COLLECTOR,
    PORT,
    Journald,
    Nfcapd,
    Rsyslog,
    collector,
    endpoints,
    ready,
    records,
    shown_bindings,
    to_file,
    until_listed,
)
from nat64 import CONFIG, UNSHARED, Nat64Network, ask, with_keys
from siit import V4, V4_IN_IPV6, V6
from stateful import end, start, state
from test_clat_faults import RUN_TIME, USAGE, one_sentence

paths = pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
# Opens a binding for each of so many ports, one packet each.
MANY = """
import socket, sys
address, to, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for port in range(first, first + count):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        sock.bind((address, port))
        sock.sendto(b"x", (to, 9))
"""


def send_from_many_ports(nat64: Nat64Network, first: int, count: int) -> None:
    """One datagram from each."""
    nat64.run(nat64.v6, sys.executable, "-c", MANY, V6, V4_IN_IPV6, str(first), str(count))


def open_both_ways(nat64: Nat64Network) -> None:
    """400 bindings, of ports from 20 000 on. Half of them are there before the others begin, which programs open by a lease."""
    send_from_many_ports(nat64, 20_000, 200)
    nat64.until(lambda: len(shown_bindings(nat64)) == 200)
    send_from_many_ports(nat64, 20_200, 200)
    nat64.until(lambda: len(shown_bindings(nat64)) == 400)


def counter(nat64: Nat64Network, name: str) -> int:
    """One of the counters of a log."""
    return nat64.counters()[f"log.{name}"]


@paths
def test_a_file_says_whose_each_port_is(nat64: Nat64Network) -> None:
    """Also of what a program in the kernel has opened; times are in order; what ends is said."""
    path = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(path))
    until_listed(nat64, path)
    server = nat64.socket(V4, 9)
    open_both_ways(nat64)
    nat64.until(lambda: len(records(path)) == 402)
    first, *rest = records(path)
    assert (first["event"], first["instance"]) == ("started", "diolkos0")
    created = [record for record in rest if record["event"] == "binding-created"]
    assert {endpoints(record) for record in created} == shown_bindings(nat64)
    assert len(created) == 400
    assert all("destination" not in record for record in rest)
    times = [record["time"] for record in created]
    assert times == sorted(times)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) for time in times)
    # What the peer has seen is what the log says.
    seen = {server.recvfrom(10)[1] for _ in range(10)}
    assert seen <= {(record["address"], record["port"]) for record in created}
    if nat64.datapath == "tc":
        assert nat64.counters()["fast.translated_6to4"] > 0

    ended = created[7]
    nat64.bind("del", "udp", f"{ended['address']}:{ended['port']}")
    nat64.until(lambda: records(path)[-1]["event"] == "binding-deleted")
    assert endpoints(records(path)[-1]) == endpoints(ended)
    assert counter(nat64, "file.written") == 401
    assert counter(nat64, "file.lost") == 0


@paths
def test_a_line_for_each_block(nat64: Nat64Network) -> None:
    """With blocks of ports: every port that a source gets is in a block of the log, and bindings have no lines."""
    path = nat64.scratch / "bindings.json"
    text = with_keys(*UNSHARED, "ports_per_block = 64", "max_blocks_per_source = 16")
    running = start(nat64, to_file(path, text))
    send_from_many_ports(nat64, 20_000, 600)
    nat64.until(lambda: len(shown_bindings(nat64)) == 600)

    def covered(events: set[str]) -> bool:
        blocks = [r for r in records(path) if r["event"] in events]
        assert {(r["source"], r["source_prefix_len"]) for r in blocks} <= {("2001:db8:6::", 64)}
        ranges = [(r["address"], range(r["first_port"], r["last_port"] + 1)) for r in blocks]
        return all(
            any(address == a and int(port) in ports for a, ports in ranges)
            for *_, address, port in shown_bindings(nat64)
            if port != "443"
        )

    nat64.until(lambda: covered({"block-allocated"}))
    assert 10 <= len([r for r in records(path) if r["event"] == "block-allocated"]) <= 16
    nat64.bind("add", "tcp", "192.0.2.7:443", f"[{V6}]:443")
    nat64.until(lambda: records(path)[-1].get("port") == 443)
    told = {r["event"] for r in records(path)}
    assert told == {"started", "listed", "block-allocated", "binding-created"}
    if nat64.datapath == "tc":
        # Programs open most sessions by leases, with blocks as without.
        assert nat64.counters()["fast.translated_6to4"] > 0

    end(running, signal.SIGKILL if nat64.datapath == "tc" else signal.SIGTERM)
    start(nat64)
    nat64.until(lambda: [r["event"] for r in records(path)].count("listed") == 2)
    assert covered({"block-in-force"})
    static = [endpoints(r) for r in records(path) if r["event"] == "binding-in-force"]
    assert static == [("tcp", V6, "443", "192.0.2.7", "443")]
    assert nat64.diolkos("stop")[0] == 0


@paths
def test_sessions_are_logged_if_they_are_wanted(nat64: Nat64Network) -> None:
    """With both ends, and the peer as the node knows it."""
    path = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(path, sessions=True))
    until_listed(nat64, path)
    inside, outside = nat64.socket(V6, 30_000), nat64.socket(V4, 4001)
    address, port = ask(inside, (V4_IN_IPV6, 4001), outside)
    nat64.until(lambda: any(r["event"] == "session-created" for r in records(path)))
    [session] = [r for r in records(path) if r["event"] == "session-created"]
    assert endpoints(session) == ("udp", V6, "30000", address, str(port))
    assert (session["destination"], session["destination_port"]) == (V4, 4001)
    assert session["destination6"] == V4_IN_IPV6


def test_a_file_that_is_moved_away_is_followed(nat64: Nat64Network) -> None:
    """As logrotate does it; nothing is lost. A symbolic link is not followed."""
    path, moved = nat64.scratch / "bindings.json", nat64.scratch / "bindings.json.1"
    nat64.nat64(to_file(path))
    until_listed(nat64, path)
    path.rename(moved)

    def written() -> bool:
        send_from_many_ports(nat64, written.port, 1)
        written.port += 1
        return bool(records(path))

    written.port = 20_000
    nat64.until(written)
    nat64.until(lambda: len(records(path)) + len(records(moved)) == 2 + written.port - 20_000)
    assert (path.stat().st_mode & 0o777) == 0o640

    path.unlink()
    path.symlink_to(nat64.scratch / "elsewhere")
    nat64.until(lambda: (send_from_many_ports(nat64, 25_000, 1), counter(nat64, "file.away"))[1] == 1)
    assert not (nat64.scratch / "elsewhere").exists()
    path.unlink()
    nat64.until(lambda: records(path) and records(path)[-1]["source_port"] == 25_000)


def test_after_a_restart_it_is_said_what_is_in_force(nat64: Nat64Network) -> None:
    """Whether the program ended or was killed: what was there and what is there now can be told from the log."""
    path = nat64.scratch / "bindings.json"
    running = start(nat64, to_file(path))
    until_listed(nat64, path)
    send_from_many_ports(nat64, 20_000, 1000)
    nat64.until(lambda: len(shown_bindings(nat64)) == 1000)
    for how in (signal.SIGTERM, signal.SIGKILL):
        before = shown_bindings(nat64)
        nat64.until(lambda: counter(nat64, "file.waiting") == 0)
        end(running, how)
        logged = records(path)
        assert (logged[-1]["event"] == "stopped") == (how == signal.SIGTERM)
        running = start(nat64)
        lists = [r["event"] for r in logged].count("listed")
        nat64.until(lambda lists=lists: [r["event"] for r in records(path)].count("listed") > lists)
        new = records(path)[len(logged) :]
        assert new[0]["event"] == "started"
        assert {endpoints(r) for r in new if r["event"] == "binding-in-force"} == before
        [listed] = [r for r in new if r["event"] == "listed"]
        assert listed["bindings"] == len(before) == 1000
    assert state(nat64).exists()
    assert nat64.diolkos("stop")[0] == 0


def test_nfdump_reads_ipfix(nat64: Nat64Network) -> None:
    """nfcapd keeps the events of RFC 8158 with all addresses and ports."""
    ready(nat64)
    nfcapd = Nfcapd(nat64)
    nat64.until(lambda: f":{PORT} " in nat64.run(nat64.translator, "ss", "-lun").stdout)
    running = nat64.nat64(CONFIG + collector(to="ipfix", address=f"{COLLECTOR}:{PORT}", sessions=True))
    send_from_many_ports(nat64, 20_000, 200)
    nat64.until(lambda: len(shown_bindings(nat64)) == 200)
    bindings = shown_bindings(nat64)
    ended = next(iter(bindings))
    nat64.bind("del", "udp", f"{ended[3]}:{ended[4]}")
    nat64.until(lambda: counter(nat64, "ipfix.written") >= 402)
    assert running.stop() == 0
    kept = nfcapd.finish()

    def of(event: int) -> list[tuple]:
        keys = ("proto", "src6_addr", "src_port", "src4_xlt_ip", "src_xlt_port")
        return [tuple(str(row[key]) for key in keys) for row in kept if row["nat_event_id"] == str(event)]

    as_kept = {("17", *binding[1:]) for binding in bindings}
    # What was opened before the first list is in that, too.
    assert min(len(of(10)), len(of(6))) >= 200, kept[:2]
    assert set(of(10)) == set(of(6)) == as_kept
    assert of(11) == of(7) == [("17", *ended[1:])]
    assert f"Flows: {len(kept)}, Packets: 0, Bytes: 0, Sequence Errors: 0, Bad Packets: 0" in nfcapd.log.read_text()


def test_nfdump_reads_blocks(nat64: Nat64Network) -> None:
    """With their source and address."""
    ready(nat64)
    path = nat64.scratch / "bindings.json"
    nfcapd = Nfcapd(nat64)
    nat64.until(lambda: f":{PORT} " in nat64.run(nat64.translator, "ss", "-lun").stdout)
    text = with_keys(*UNSHARED, "ports_per_block = 64")
    nat64.nat64(to_file(path, text) + collector(to="ipfix", address=f"{COLLECTOR}:{PORT}"))
    send_from_many_ports(nat64, 20_000, 100)
    nat64.until(lambda: len(shown_bindings(nat64)) == 100)
    nat64.until(lambda: counter(nat64, "ipfix.written") == counter(nat64, "file.written") > 0)
    blocks = [r for r in records(path) if r["event"] == "block-allocated"]
    kept = [row for row in nfcapd.finish() if row["nat_event_id"] == "16"]
    # nfdump 1.7.1 does not keep portRangeStart and portRangeEnd.
    seen = sorted((row["src6_addr"], row["src_mask"], row["src4_xlt_ip"]) for row in kept)
    assert seen == sorted((r["source"], r["source_prefix_len"], r["address"]) for r in blocks)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_rsyslog_understands_syslog(nat64: Nat64Network, transport: str) -> None:
    """The structured data of RFC 5424, by datagrams and by a connection."""
    ready(nat64)
    rsyslog = Rsyslog(nat64, transport)
    rsyslog.start()
    nat64.until(lambda: f":{PORT} " in nat64.run(nat64.translator, "ss", "-lunt").stdout)
    keys = {"address": f"{COLLECTOR}:{PORT}", "transport": transport, "facility": "local3"}
    nat64.nat64(CONFIG + collector(to="syslog", **keys) + '\n[log]\ninstance = "cgn-1"\n')
    send_from_many_ports(nat64, 20_000, 100)
    nat64.until(lambda: len(shown_bindings(nat64)) == 100)
    nat64.until(lambda: len([r for r in rsyslog.seen() if r["event"] == "binding-created"]) == 100)
    created = [r for r in rsyslog.seen() if r["event"] == "binding-created"]
    assert {endpoints(r) for r in created} == shown_bindings(nat64)
    heads = {(r["instance"], r["syslogfacility-text"], r["syslogseverity-text"], r["app-name"]) for r in created}
    assert heads == {("cgn-1", "local3", "info", "diolkos")}


def test_journalctl_finds_a_binding(nat64: Nat64Network) -> None:
    """By its fields, as the manual says."""
    journald = Journald(nat64)
    nat64.nat64(CONFIG + collector(to="journal", path=str(journald.socket)))
    send_from_many_ports(nat64, 20_000, 100)
    nat64.until(lambda: len(shown_bindings(nat64)) == 100)
    nat64.until(lambda: len(journald.search("SYSLOG_IDENTIFIER=diolkos", "DIOLKOS_EVENT=binding-created")) == 100)
    for binding in sorted(shown_bindings(nat64))[::10]:
        protocol, source, source_port, address, port = binding
        fields = {"PROTOCOL": protocol, "ADDRESS": address, "PORT": port}
        wanted = {"EVENT": "binding-created"} | fields
        [found] = journald.search(*(f"DIOLKOS_{name}={value}" for name, value in wanted.items()))
        assert (found["DIOLKOS_SOURCE"], found["DIOLKOS_SOURCE_PORT"]) == (source, source_port)
        assert found["MESSAGE"] == f"binding-created {protocol} [{source}]:{source_port} as {address}:{port}"


def test_what_a_collector_misses_is_counted(nat64: Nat64Network) -> None:
    """A queue of 4096 while nobody listens: the collector gets these, and then hears how many are missing."""
    ready(nat64)
    rsyslog = Rsyslog(nat64, "tcp")
    text = with_keys(*UNSHARED) + collector(to="syslog", address=f"{COLLECTOR}:{PORT}", transport="tcp", queue=4096)
    running = nat64.nat64(text)
    nat64.until(lambda: "takes no records" in running.log())
    send_from_many_ports(nat64, 20_000, 6000)
    nat64.until(lambda: len(nat64.shown("bindings")) == 6000)
    lost = counter(nat64, "syslog.lost")
    assert 6000 - 4096 - 1024 <= lost <= 6000 - 4096 + 2
    rsyslog.start()
    nat64.until(lambda: "is back" in running.log(), 30)
    nat64.until(lambda: any(r["event"] == "lost" for r in rsyslog.seen()))
    seen = rsyslog.seen()
    assert [int(r["records"]) for r in seen if r["event"] == "lost"] == [lost]
    # What is in force is listed again within a minute, which may have begun.
    created = [r for r in seen if r["event"] == "binding-created"]
    assert len(created) == 6000 - lost <= counter(nat64, "syslog.written")
    assert f"{lost} records are missing" in running.log()


def test_reload_changes_collectors(nat64: Nat64Network) -> None:
    """One that stays misses nothing and lists nothing; a new one hears what is in force; one that is gone is told so."""
    first, second = nat64.scratch / "first.json", nat64.scratch / "second.json"
    nat64.nat64(to_file(first))
    until_listed(nat64, first)
    send_from_many_ports(nat64, 20_000, 10)
    both = to_file(second, to_file(first), name="second")
    assert nat64.reload(both) == (0, "")
    until_listed(nat64, second)
    send_from_many_ports(nat64, 30_000, 10)
    nat64.until(lambda: len(records(first)) == len(records(second)) == 22)
    assert {endpoints(r) for r in records(second) if "source" in r} == shown_bindings(nat64)
    assert nat64.reload(to_file(second, name="second")) == (0, "")
    nat64.until(lambda: records(first)[-1]["event"] == "stopped")
    assert "log.file.written" not in nat64.counters()

    code, message = nat64.reload(to_file(nat64.scratch, name="second"))
    assert code == RUN_TIME
    assert "cannot be written: " in message
    assert counter(nat64, "second.written") == 20
    code, message = nat64.reload(CONFIG + collector(to="syslog"))
    assert code == USAGE
    assert 'needs the key `address`, as "192.0.2.7:514"' in message


def test_reload_divides_the_pool(nat64: Nat64Network) -> None:
    """The log begins anew, and says of each port whose it is, by its block or by itself."""
    path = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(path, with_keys(*UNSHARED)))
    send_from_many_ports(nat64, 20_000, 300)
    nat64.until(lambda: len(shown_bindings(nat64)) == 300)
    for text in (with_keys(*UNSHARED, "ports_per_block = 64", "max_blocks_per_source = 16"), with_keys(*UNSHARED)):
        before = len(records(path))
        assert nat64.reload(to_file(path, text)) == (0, "")
        nat64.until(lambda: records(path)[-1]["event"] == "listed")
        new = [r for r in records(path)[before:] if r["event"].endswith("-in-force")]
        whole = {(r["address"], port) for r in new if "first_port" in r for port in range(r["first_port"], r["last_port"] + 1)}
        single = {endpoints(r) for r in new if "port" in r}
        assert bool(whole) == ("ports_per_block" in text)
        assert all(b in single or (b[3], int(b[4])) in whole for b in shown_bindings(nat64))
        assert len(shown_bindings(nat64)) == 300


def test_a_file_that_cannot_be_written_is_an_error(nat64: Nat64Network) -> None:
    """At the start, with the path and the reason."""
    path = nat64.scratch / "nowhere" / "bindings.json"
    nat64.configure(to_file(path))
    running = nat64.siit(command="nat64", ready=False)
    assert running.wait() == RUN_TIME
    said = one_sentence(running.log().strip())
    assert f"{path} cannot be written: No such file or directory" in said


def test_a_full_disk_costs_no_line(nat64: Nat64Network) -> None:
    """Lines wait until there is room; none is written half or twice."""
    folder = nat64.scratch / "small"
    folder.mkdir()
    nat64.host("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder))
    try:
        path = folder / "bindings.json"
        running = nat64.nat64(to_file(path, with_keys(*UNSHARED)))
        until_listed(nat64, path)
        send_from_many_ports(nat64, 20_000, 1000)
        nat64.until(lambda: "takes no records: No space left on device" in running.log())
        nat64.until(lambda: len(nat64.shown("bindings")) == 1000)
        # What has room is there, though no batch has.
        nat64.until(lambda: path.stat().st_size > 56 << 10)
        nat64.host("mount", "-o", "remount,size=8m", str(folder))
        nat64.until(lambda: len(records(path)) == 1002)
        created = [endpoints(r) for r in records(path) if "source" in r]
        assert len(created) == len(set(created)) == 1000
        assert running.stop() == 0
        assert records(path)[-1]["event"] == "stopped"
    finally:
        os.sync()
        nat64.host("umount", "-l", str(folder))
