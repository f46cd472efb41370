#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the P4 program on BMv2's simple_switch, behind the control socket of p4/PROTOCOL.md, as diolkos-switch does.

    switch.py --program nat64.json --control /run/switch.sock --port DEVICE=SHADOW --port DEVICE=SHADOW

simple_switch and simple_switch_CLI are those of the path, or of the folder that BMV2_PROGRAMS names. What differs
from diolkos-switch: a datagram is applied record by record (all or none, but packets may see a part), and a shadow does not
follow the carrier and the MTU of its device. simple_switch listens on a TCP port of every address, for every local user, too:
keep others away from it.

    devices → simple_switch → CLI → control socket → loop
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from links import Pair, add, check, pair, remove
from program import read as read_program
from records import Failed
from runtime import Lost, Runtime
from server import Server
from tables import Tables

NAME = "bmv2-switch"
FAILED, USAGE = 1, 2
START = 60.0  # seconds until simple_switch has begun to listen


class Stopped(Exception):
    """A signal asks for an end."""


def main() -> int:
    """Exit code 0: a signal has ended it; 1: something failed; 2: the command line, the program or a device is wrong."""
    parser = argparse.ArgumentParser(prog=NAME, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, metavar="JSON", help="what p4c-bm2-ss made of nat64.p4")
    parser.add_argument("--control", type=Path, required=True, metavar="SOCKET", help="where a controller writes its tables")
    parser.add_argument("--port", action="append", required=True, metavar="DEVICE=SHADOW", help="a pair of ports")
    parser.add_argument("--thrift-port", type=int, default=9090, metavar="PORT", help="(default: %(default)s)")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, stop)
    with ExitStack() as stack:
        try:
            return run(arguments, stack)
        except Stopped:
            return 0
        except Lost:
            print(f"{NAME}: simple_switch has ended", file=sys.stderr)
            return FAILED
        except Failed as failed:
            # A change that could not be undone: nobody knows what the tables have.
            print(f"{NAME}: simple_switch does not do what it has done before: {failed}", file=sys.stderr)
            return FAILED
        except (OSError, ValueError) as error:
            print(f"{NAME}: {error}", file=sys.stderr)
            return USAGE
        finally:
            # What is being taken down is taken down whole.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)


def stop(number: int, frame: object) -> NoReturn:
    """At a signal."""
    del number, frame
    raise Stopped


def run(arguments: argparse.Namespace, stack: ExitStack) -> int:
    """Until the end; what it has made is removed by the stack."""
    program = read_program(arguments.program)
    switch, cli = found("simple_switch"), found("simple_switch_CLI")
    pairs = [pair(text, number) for number, text in enumerate(arguments.port)]
    for each in pairs:
        check(each)
    make_sure_free(arguments.thrift_port)
    make_room(arguments.control)
    for each in pairs:
        check(each)  # beside those before it, too
        stack.callback(remove, each)
        add(each)
    events = Path(f"{arguments.control}.events")
    stack.callback(events.unlink, missing_ok=True)
    process = start(switch, arguments, pairs, events)
    stack.callback(end, process)
    await_port(process, arguments.thrift_port)
    runtime = Runtime([cli, "--thrift-port", str(arguments.thrift_port)])
    stack.callback(runtime.end)
    tables = Tables(program, runtime)
    tables.empty()
    listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    before = os.umask(0o177)
    listener.bind(str(arguments.control))
    os.umask(before)
    stack.callback(arguments.control.unlink, missing_ok=True)
    listener.listen()
    print(f"{NAME}: ready", file=sys.stderr, flush=True)
    Server(tables, pairs, listener).serve(lambda: process.poll() is None)
    raise Lost


def make_room(path: Path) -> None:
    """A socket that somebody has left is removed, and nothing else."""
    if path.is_symlink() or (path.exists() and not path.is_socket()):
        raise OSError(f"{path}: there is something else than a socket, which stays")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        answer = probe.connect_ex(str(path))
    if answer == errno.ECONNREFUSED:  # what still has an owner does something else
        path.unlink(missing_ok=True)
    elif answer != errno.ENOENT:
        raise OSError(f"{path}: another program serves it")


def make_sure_free(port: int) -> None:
    """Whoever listens there would be taken for our simple_switch."""
    if not 0 < port < 1 << 16:
        raise ValueError(f"{port} is no port")
    with socket.socket() as probe:
        # As its own server does: connections that have ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise OSError(f"port {port} is taken ({error.strerror}): name another with --thrift-port") from error


def found(name: str) -> str:
    """A program of BMv2."""
    path = os.environ.get("BMV2_PROGRAMS", "") + os.pathsep + os.environ.get("PATH", "")
    if at := shutil.which(name, path=path):
        return at
    raise OSError(f"{name} is not on the path, nor in the folder of BMV2_PROGRAMS")


def start(switch: str, arguments: argparse.Namespace, pairs: list[Pair], events: Path) -> subprocess.Popen:
    """simple_switch, which ends with this process however that ends."""
    command = [switch, "--thrift-port", str(arguments.thrift_port), "--notifications-addr", f"ipc://{events}"]
    devices = [name for each in pairs for name in (each.device, each.inner)]
    for number, name in enumerate(devices):
        command += ["-i", f"{number}@{name}"]
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command, str(arguments.program)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def await_port(process: subprocess.Popen, port: int) -> None:
    """Its Thrift server listens last of all."""
    until = time.monotonic() + START
    while process.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            if not probe.connect_ex(("localhost", port)):
                break
        time.sleep(0.05)
    # Another one may have been quicker, and then ours ends.
    if process.poll() is not None or time.monotonic() >= until:
        raise Lost


def end(process: subprocess.Popen) -> None:
    """simple_switch ends at SIGTERM, or is killed."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
