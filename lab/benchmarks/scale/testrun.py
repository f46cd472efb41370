# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A loaded tc program, run by the kernel on frames that never were on a wire (BPF_PROG_TEST_RUN), from one CPU or two at once.

Each CPU has a process of its own, which runs this file: orders in, durations out. The kernel measures each run by itself, so
that the way into the kernel, 1 to 2 µs between two runs, is not part of it. Packets are about as far from each other.
"""

import ctypes
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

SYS_BPF, PROG_TEST_RUN, PROG_GET_FD_BY_ID, MAP_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 321, 10, 13, 14, 15
PROG_INFO, MAP_IDS_AT, MOST_MAPS = 64, 52, 64  # the beginning of struct bpf_prog_info
CONTEXT, IFINDEX_AT = 192, 40  # struct __sk_buff
START_S = 0.4  # so that every worker is there
BREATH = 8  # frames
REDIRECT = 7  # TC_ACT_REDIRECT: translated, and on its way
SPREAD = (0.01, 0.25, 0.5, 0.75, 0.99)


def udp6(src: str, dst: str, sport: int, dport: int, mac: str) -> bytes:
    """An Ethernet frame with a datagram of 18 bytes, whose checksum is right."""
    payload = bytes(18)
    length = 8 + len(payload)
    pseudo = IPv6Address(src).packed + IPv6Address(dst).packed + struct.pack("!IHBB", length, 0, 0, 17)
    udp = struct.pack("!HHHH", sport, dport, length, 0) + payload
    words = struct.unpack(f"!{len(pseudo + udp) // 2}H", pseudo + udp)
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    udp = udp[:6] + struct.pack("!H", ~total & 0xFFFF or 0xFFFF) + udp[8:]
    ip = struct.pack("!IHBB", 6 << 28, length, 17, 64) + IPv6Address(src).packed + IPv6Address(dst).packed
    return bytes.fromhex(mac.replace(":", "")) + bytes(6) + b"\x86\xdd" + ip + udp


def embedded(prefix: str, v4: str) -> str:
    """An IPv4 address behind a prefix of 96 bits."""
    return str(IPv6Address(int(IPv6Address(prefix.split("/", maxsplit=1)[0])) | int(IPv4Address(v4))))


def at_once(netns: str, orders: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Carry out orders, each on its own CPU, from the same moment on."""
    begin = time.monotonic() + START_S
    workers = []
    for order in orders:
        command = ["nsenter", f"--net=/run/netns/{netns}", sys.executable, __file__]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert worker.stdin
        worker.stdin.write(json.dumps({**order, "begin": begin}))
        worker.stdin.close()
        workers.append(worker)
    found = []
    for worker in workers:
        assert worker.stdout
        found.append(json.loads(worker.stdout.read()))
        if worker.wait():
            raise SystemExit("a worker failed")
    return found


def map_bytes(programs: Iterable[int]) -> int:
    """Kernel memory of all maps of some programs, as the kernel counts it."""
    libc = ctypes.CDLL(None, use_errno=True)

    def opened(command: int, number: int) -> int:
        asked = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 16)
        fd: int = libc.syscall(SYS_BPF, command, asked, 16)
        if fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return fd

    maps: set[int] = set()
    for program in programs:
        fd, numbers = opened(PROG_GET_FD_BY_ID, program), (ctypes.c_uint32 * MOST_MAPS)()
        info = ctypes.create_string_buffer(PROG_INFO)
        struct.pack_into("=IQ", info, MAP_IDS_AT, MOST_MAPS, ctypes.addressof(numbers))
        asked = ctypes.create_string_buffer(struct.pack("=IIQ", fd, PROG_INFO, ctypes.addressof(info)), 16)
        if libc.syscall(SYS_BPF, OBJ_GET_INFO_BY_FD, asked, 16):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        maps |= set(numbers[: struct.unpack_from("=I", info, MAP_IDS_AT)[0]])
        os.close(fd)
    total = 0
    for number in maps:
        fd = opened(MAP_GET_FD_BY_ID, number)
        fields = dict(line.split(":\t", 1) for line in Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines())
        total += int(fields["memlock"])
        os.close(fd)
    return total


class _Run(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("fd", "retval", "size_in", "size_out")),
        *((name, ctypes.c_uint64) for name in ("data_in", "data_out")),
        *((name, ctypes.c_uint32) for name in ("repeat", "duration", "context_in_size", "context_out_size")),
        *((name, ctypes.c_uint64) for name in ("context_in", "context_out")),
        *((name, ctypes.c_uint32) for name in ("flags", "cpu", "batch", "pad")),
    )


def _obey(order: dict[str, Any]) -> dict[str, Any]:
    os.sched_setaffinity(0, {order["cpu"]})
    libc = ctypes.CDLL(None, use_errno=True)
    asked = struct.pack("=III", order["program"], 0, 0) + bytes(116)
    fd = libc.syscall(SYS_BPF, PROG_GET_FD_BY_ID, asked, 16)
    if fd < 0:
        raise SystemExit(f"no program {order['program']}: {os.strerror(ctypes.get_errno())}")
    frames = [ctypes.create_string_buffer(bytes.fromhex(frame), len(frame) // 2) for frame in order["frames"]]
    context = ctypes.create_string_buffer(CONTEXT)
    struct.pack_into("=I", context, IFINDEX_AT, socket.if_nametoindex(order["interface"]))
    run = _Run(fd=fd, repeat=1, context_in=ctypes.addressof(context), context_in_size=CONTEXT)
    attr, size = ctypes.byref(run), ctypes.sizeof(run)
    places = [(ctypes.addressof(frame), len(frame)) for frame in frames]
    durations, left, at = [], 0, 0
    while time.monotonic() < order["begin"]:
        pass
    end = order["begin"] + order["seconds"]
    while time.monotonic() < end and (not order["once"] or at < len(places)):
        run.data_in, run.size_in = places[at % len(places)]
        run.retval = run.duration = run.size_out = 0
        if libc.syscall(SYS_BPF, PROG_TEST_RUN, attr, size):
            raise SystemExit(f"BPF_PROG_TEST_RUN: {os.strerror(ctypes.get_errno())}")
        at += 1
        # Whoever fills leases and takes records over needs a CPU, too.
        if order["once"] and at % BREATH == 0:
            time.sleep(1e-4)
        if run.retval == REDIRECT:
            durations.append(run.duration)
        else:
            left += 1
    durations.sort()
    spread = [durations[int(share * (len(durations) - 1))] for share in SPREAD] if durations else []
    mean = statistics.fmean(durations[: int(0.99 * len(durations)) or 1]) if durations else None
    return {"runs": len(durations), "left_to_others": left, "quantiles_ns": spread, "mean_ns": mean}


if __name__ == "__main__":
    print(json.dumps(_obey(json.load(sys.stdin))))
