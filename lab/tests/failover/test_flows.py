# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The program that sends flows tells what it has lost itself."""

import socket
from contextlib import ExitStack

import pytest

from diolkos_lab.failover import evaluate
from diolkos_lab.failover.programs import flows


def test_what_was_not_read_in_time_is_counted() -> None:
    """Of two sockets, only the one that is asked about, by either family."""
    with ExitStack() as stack:
        small, other, sender = (stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) for _ in range(3))
        for one in (small, other):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.bind(("::1", 0))
            one.setblocking(False)
            for _ in range(200):
                sender.sendto(b"x" * 100, one.getsockname())
        found = 0
        while True:
            try:
                small.recv(200)
            except BlockingIOError:
                break
            found += 1
        assert 0 < found < 200
        assert flows.unread([small]) == 200 - found
        assert flows.unread([small, other]) > flows.unread([other]) > 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as four:
            assert flows.unread([four]) == 0


def test_a_program_that_did_not_read_in_time_decides_nothing() -> None:
    report = {"latest_ns": 0, "unread": 0}
    reports = {"many-client": report, "many-server": {**report, "unread": 450}}
    assert [each.detail for each in evaluate.guards(reports, {"many": 10.0})] == [
        "the program of many-server did not read 450 datagrams in time"
    ]


@pytest.mark.root
def test_buffers_are_larger_than_the_kernel_gives_to_others() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        flows.buffer(one, flows.SOCKET_BYTES)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * flows.SOCKET_BYTES  # socket(7): the kernel doubles it
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * flows.SOCKET_BYTES
