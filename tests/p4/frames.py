# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Frames on a pipe ⇄ devices of this namespace, for switches that have no `--frames` (control.py): frames.py DEVICE …

The n-th device leads to port n of the switch. Each frame has to come out again, by whichever port: a switch that takes one
without a result ends this, and thereby the test.
"""

from __future__ import annotations

import select
import socket
import struct
import sys

SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 23, 3
END = 0xFFFF
ROOM = 1 << 17
# Seconds that only a lost frame reaches.
PATIENCE = 60


def opened(device: str) -> socket.socket:
    """What comes from a device, and nothing that goes there."""
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    found.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    found.bind((device, ETH_P_ALL))
    return found


def main(devices: list[str]) -> None:
    """Until the input ends."""
    sockets = [opened(device) for device in devices]
    print("ready", file=sys.stderr, flush=True)
    while header := sys.stdin.buffer.read(8):
        port, _, length = struct.unpack("!HHI", header)
        sockets[port].send(sys.stdin.buffer.read(length))
        wait = float(PATIENCE)
        while ready := select.select(sockets, [], [], wait)[0]:
            for found in ready:
                frame = found.recv(ROOM)
                sys.stdout.buffer.write(struct.pack("!HHI", sockets.index(found), 0, len(frame)) + frame)
            wait = 0
        if wait:
            sys.exit(f"nothing has come for {length} bytes to port {port}")
        sys.stdout.buffer.write(struct.pack("!HHI", END, 0, 0))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
