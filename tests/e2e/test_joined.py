# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The slow path joins packets of a flow that arrive one by one. Whoever is behind it gets the packets that were sent."""

from __future__ import annotations

import hashlib
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from network import Running, create_socket
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_clat_offloads import wrong_checksums

PORT = 4000
DATAGRAMS = 40
SEGMENTS = 10  # the initial window of TCP (RFC 6928)
CHECKSUMS = ["left to the device", "whole"]

pytestmark = pytest.mark.parametrize("siit", ["tun"], indirect=True)


def prepare(siit: SiitNetwork, checksums: str) -> Running:
    """Links that carry no super-packets to the translator, and receivers that look at every checksum."""
    for name in (siit.v4, siit.v6):
        siit.ip(name, "link", "set", "a0", "mtu", "1500")
        siit.run(name, "ethtool", "-K", "a0", "tso", "off", "gso", "off", *(["tx", "off"] if checksums == "whole" else []))
    for link in ("b4", "b6"):
        siit.run(siit.translator, "ethtool", "-K", link, "tx", "off")
    return siit.siit()


def packets(siit: SiitNetwork) -> dict[str, int]:
    """What the program has read from its device (tx) and written to it (rx)."""
    stats = siit.ip_json(siit.translator, "-s", "link", "show", "diolkos0")[0]["stats64"]
    return {way: stats[way]["packets"] for way in ("tx", "rx")}


def forwarded(siit: SiitNetwork) -> int:
    """Packets that the translator's kernel has routed on, in both families."""
    lines = [line.split() for line in siit.run(siit.translator, "nstat", "-asz").stdout.splitlines()]
    return sum(int(fields[1]) for fields in lines if fields[0] in ("IpForwDatagrams", "Ip6OutForwDatagrams"))


@contextmanager
def held(siit: SiitNetwork, running: Running, count: int) -> Iterator[None]:
    """So many packets are sent while the translator is stopped; then it finds all of them at its device."""
    before = forwarded(siit)
    running.process.send_signal(signal.SIGSTOP)
    try:
        state = Path(f"/proc/{running.process.pid}/stat")
        siit.until(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T")
        yield
        siit.until(lambda: forwarded(siit) >= before + count)
    finally:
        running.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("checksums", CHECKSUMS)
def test_datagrams(siit: SiitNetwork, checksums: str) -> None:
    """Forty datagrams are one write; the receiver gets each as it was, in order."""
    running = prepare(siit, checksums)
    four = create_socket(siit.v4, socket.AF_INET, socket.SOCK_DGRAM)
    six = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_DGRAM)
    with four, six:
        four.bind((V4, PORT))
        six.bind((V6, PORT))
        for sock in (four, six):
            sock.settimeout(10)
        for sender, to, receiver in ((four, (V6_MAPPED, PORT), six), (six, (V4_IN_IPV6, PORT), four)):
            sender.sendto(b"neighbours know each other", to)
            receiver.recv(100)
            before = packets(siit)
            sent = [bytes([number]) * 1000 for number in range(DATAGRAMS - 1)] + [b"the rest"]
            with held(siit, running, DATAGRAMS):
                for datagram in sent:
                    sender.sendto(datagram, to)
            assert [receiver.recv(2000) for _ in sent] == sent
            after = packets(siit)
            assert {way: after[way] - before[way] for way in after} == {"tx": DATAGRAMS, "rx": 1}
    assert (wrong_checksums(siit, siit.v4), wrong_checksums(siit, siit.v6)) == ({}, {})


@pytest.mark.alone  # a sender that waits for long sends its last segment again
@pytest.mark.parametrize("checksums", CHECKSUMS)
def test_segments(siit: SiitNetwork, checksums: str) -> None:
    """A window of TCP is one write, or two: what asks to be given to the reader ends a super-packet."""
    running = prepare(siit, checksums)
    listener = create_socket(siit.v6, socket.AF_INET6, socket.SOCK_STREAM)
    asker = create_socket(siit.v4, socket.AF_INET, socket.SOCK_STREAM)
    with listener, asker:
        listener.bind((V6, PORT))
        listener.listen()
        for sock in (listener, asker):
            sock.settimeout(10)
        asker.connect((V6_MAPPED, PORT))
        answerer, _ = listener.accept()
        answerer.settimeout(10)
        with answerer:
            for sender, receiver in ((asker, answerer), (answerer, asker)):
                size = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) * SEGMENTS
                data = hashlib.shake_128(bytes([sender.family])).digest(size)
                before = packets(siit)
                with held(siit, running, SEGMENTS):
                    sender.sendall(data)
                received = b""
                while len(received) < size:
                    received += receiver.recv(size)
                assert received == data
                after = packets(siit)
                # Acknowledgements cross as they are.
                joined = (after["tx"] - before["tx"]) - (after["rx"] - before["rx"])
                assert joined >= SEGMENTS - 2
    assert (wrong_checksums(siit, siit.v4), wrong_checksums(siit, siit.v6)) == ({}, {})
