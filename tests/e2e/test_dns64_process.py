# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A DNS64 beside a translator is a process without rights: what it may do, and what becomes of clients when it is killed,
hangs, cannot be started, or takes another configuration."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import struct
from pathlib import Path

import pytest
from dns64 import DNS64, PREF64, RESOLVER, Dns64Network
from network import NOT_READY, Running
from pref64 import Option
from pyroute2.netns import create_socket

TRANSLATOR = f'[translator]\nmode = "siit"\npref64 = ["{PREF64}", "2001:db8:65::/96"]\n'
SECTION = f'[dns64]\nlisten = ["[{DNS64}]:53"]\nupstream = ["{RESOLVER}"]\n'
NOBODY = "65534"
BOTH = ["2001:db8:64::c000:201", "2001:db8:64::c000:202"]


@pytest.fixture
def net(dns64_network: Dns64Network) -> Dns64Network:
    """With unbound upstream."""
    dns64_network.unbound()
    return dns64_network


def start(net: Dns64Network, section: str = SECTION, *wrapper: str) -> Running:
    """A translator with a DNS64 beside it, both ready."""
    running = net.diolkos("run", "--config", str(net.config(TRANSLATOR + section)), wrapper=wrapper)
    net.until(lambda: "ready: siit" in running.log())
    return running


def lesser() -> str:
    """The user that the package makes, if it is there."""
    try:
        return str(pwd.getpwnam("diolkos").pw_uid)
    except KeyError:
        return NOBODY


def children(pid: int) -> list[int]:
    """Of all threads of a process."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]


def process(running: Running) -> int:
    """That of the DNS64."""
    (child,) = children(running.process.pid)
    return child


def restarted(net: Dns64Network) -> int:
    """How often another process was started; -1 while there is none."""
    command = (str(net.program), "show", "counters", "--json", "--all", "--device", "dns64")
    if net.run(net.router, *command, check=False).returncode:
        return -1
    return net.counters()["restarted"]


def test_it_has_no_rights_and_no_files(net: Dns64Network) -> None:
    """Not root's, no capability, no way back to either, a filter of its own, no core, little memory; and of descriptors its
    sockets alone."""
    running = start(net)
    assert net.dig("v4.example").data() == BOTH
    child = process(running)
    status = dict(line.split(":", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
    assert {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip(), status["Name"].strip()) == ("1", "2", "dns64")
    assert (set(status["Uid"].split()), set(status["Gid"].split()), status["Groups"].split()) == ({lesser()}, {NOBODY}, [])
    assert int(status["Seccomp_filters"]) > int(Path("/proc/self/status").read_text().split("Seccomp_filters:")[1].split()[0])
    limits = {line[:26].strip(): line[26:].split()[:2] for line in Path(f"/proc/{child}/limits").read_text().splitlines()}
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max data size"][0] == limits["Max data size"][1] != "unlimited"
    kinds = [str(link.readlink()) for link in Path(f"/proc/{child}/fd").iterdir()]
    files = {kind for kind in kinds if not kind.startswith(("socket:", "anon_inode:", "pipe:"))}
    assert files <= {"/dev/null"}, kinds
    # One pipe, for its log: what it says there is told as its words.
    assert len({kind for kind in kinds if kind.startswith("pipe:")}) == 1, kinds
    Path(f"/proc/{child}/fd/2").write_text("ERROR stopped by a signal\n")
    net.until(lambda: "ERROR process dns64: stopped by a signal" in running.log())
    # No core, and no other process of the same user looks into it: the owner of its files in /proc is root in any case.
    assert not int(status["CoreDumping"]) and int(status["CapBnd"], 16) == 0
    assert b"NOTIFY_SOCKET" not in Path(f"/proc/{child}/environ").read_bytes()
    assert running.stop() == 0
    net.until(lambda: not Path(f"/proc/{child}").exists())


def user_of(running: Running) -> set[str]:
    """User and group IDs of the process."""
    lines = Path(f"/proc/{process(running)}/status").read_text().splitlines()
    return {word for line in lines if line.startswith(("Uid:", "Gid:")) for word in line.split()[1:]}


def test_it_keeps_its_user_where_it_cannot_have_another(net: Dns64Network) -> None:
    """Without a capability, as in a container, or with a file that only root may execute. The DNS64 works all the same."""
    running = start(net, SECTION, "setpriv", "--bounding-set", "-setuid", "--inh-caps", "-setuid")
    assert net.dig("v4.example").data() == BOTH
    assert user_of(running) == {"0"} and "cannot be started as user" not in running.log()
    assert running.stop() == 0
    net.program = shutil.copy(net.program, net.scratch / "diolkos")
    net.program.chmod(0o700)
    running = start(net)
    assert net.dig("v4.example").data() == BOTH
    assert user_of(running) == {"0"} and f"cannot be started as user {lesser()}: " in running.log()
    assert running.stop() == 0


def test_it_is_killed(net: Dns64Network) -> None:
    """Another one starts; what was asked meanwhile waits in the socket, and the counters go on."""
    running = start(net)
    assert net.dig("v4.example").data() == BOTH
    before = net.counters()["query_udp"]
    child = process(running)
    os.kill(child, signal.SIGKILL)
    assert net.dig("v4.example").data() == BOTH
    net.until(lambda: restarted(net) == 1)
    assert process(running) != child
    assert net.counters()["query_udp"] >= before
    assert "has ended: killed by signal 9: it starts again in 0.1 s" in running.log()
    assert "the DNS64 answers again" in running.log()
    assert running.stop() == 0


def test_it_hangs(net: Dns64Network) -> None:
    """Whoever asks for its counters hears so soon; after ten seconds it is killed, and another one starts."""
    running = start(net)
    os.kill(process(running), signal.SIGSTOP)
    code, said = net.once("show", "counters", "--device", "dns64")
    assert (code, "does not answer" in said) == (1, True), said
    net.until(lambda: restarted(net) == 1)
    assert net.dig("v4.example").data() == BOTH
    assert "did not answer for 10 s, so diolkos killed it" in running.log()
    assert running.stop() == 0


def test_it_hears_no_signal_of_an_operator(net: Dns64Network) -> None:
    """A terminal and a service manager send theirs to all processes; the DNS64 ends with its translator, and not before."""
    running = start(net)
    child = process(running)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        os.kill(child, number)
    assert net.dig("v4.example").data() == BOTH
    assert process(running) == child
    assert running.stop() == 0
    net.until(lambda: not Path(f"/proc/{child}").exists())


def test_it_ends_with_a_translator_that_is_killed(net: Dns64Network) -> None:
    """However that ends."""
    running = start(net)
    child = process(running)
    running.process.kill()
    running.process.wait()
    net.until(lambda: not Path(f"/proc/{child}").exists())


def test_it_cannot_be_started(net: Dns64Network) -> None:
    """The translator goes on without it, says what is wrong, and starts it as soon as it can."""
    running = start(net, SECTION, "unshare", "--mount", "--propagation", "private")
    pid = running.process.pid
    inside = ("nsenter", f"--target={pid}", "--mount", "--root")
    # Without /proc the program does not find its own file.
    net.run(net.router, *inside, "mount", "-t", "tmpfs", "none", "/proc")
    os.kill(process(running), signal.SIGKILL)
    net.until(lambda: "cannot be started: No such file or directory" in running.log())
    code, said = net.once("show", "status", "--device", "dns64")
    assert (code, "cannot be started" in said) == (NOT_READY, True), said
    assert "diolkos0" in net.ip(net.router, "link")
    net.run(net.router, *inside, "umount", "/proc")
    net.until(lambda: "the DNS64 answers again" in running.log())
    assert net.dig("v4.example").data() == BOTH
    assert running.stop() == 0


def question(number: int) -> bytes:
    """For the AAAA records of v4.example."""
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + b"\2v4\7example\0" + struct.pack("!HH", 28, 1)


def test_another_configuration(net: Dns64Network) -> None:
    """Each question before, during and after a reload is answered, by one configuration or the other."""
    running = start(net)
    child = process(running)
    client = create_socket(net.client, socket.AF_INET6, socket.SOCK_DGRAM)
    client.settimeout(10)
    seen = set()
    for number in range(300):
        if number == 100:
            section = SECTION + 'pref64 = ["2001:db8:65::/96"]\nexclude4 = ["192.0.2.2"]\n'
            net.config(TRANSLATOR + section)
            assert net.once("reload") == (0, "")
        client.sendto(question(number), (DNS64, 53))
        answer = client.recv(4096)
        assert struct.unpack_from("!H", answer)[0] == number
        seen.add((number >= 100, answer.count(socket.inet_pton(socket.AF_INET6, "2001:db8:65::c000:201"))))
    assert seen == {(False, 0), (True, 1)}
    assert net.dig("v4.example").data() == ["2001:db8:65::c000:201"]
    assert [prefix["prefix"] for prefix in net.prefixes()] == ["2001:db8:65::/96"]
    assert "2001:db8:65::/96" in net.once("show", "config", "--device", "dns64")[1].split("[dns64]")[1]
    assert process(running) == child
    assert net.counters()["query_udp"] >= 300
    # The next process has it, too.
    os.kill(child, signal.SIGKILL)
    assert net.dig("v4.example").data() == ["2001:db8:65::c000:201"]
    net.config(TRANSLATOR + SECTION.replace(":53", ":54", 1))
    code, said = net.once("reload")
    assert (code, "dns64.listen cannot change while diolkos runs" in said) == (1, True), said
    assert running.stop() == 0


def test_whoever_starts_it_by_hand_hears_why_not(net: Dns64Network) -> None:
    """It is no command for people."""
    command = ("dns64-process", "--parent", "1", "--memory", "1", "--log", "info")
    code, said = net.once(*command)
    assert (code, "diolkos run --config FILE" in said) == (2, True), said


def test_the_prefix_of_the_network(net: Dns64Network) -> None:
    """The keeper hears routers, and each process knows what it has heard."""
    running = start(net, SECTION + 'pref64 = "auto"\nuplink = "out0"\n')
    assert net.dig("v4.example").data() == []
    net.advertise(Option(PREF64, 1800))
    net.until(lambda: net.dig("v4.example").data() == BOTH)
    (prefix,) = net.prefixes()
    assert prefix["prefix"] == PREF64
    assert net.counters()["answer.synthesised"] == 1
    os.kill(process(running), signal.SIGKILL)
    assert net.dig("v4.example").data() == BOTH
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process(running)}/status").read_text().splitlines())
    assert int(status["CapPrm"], 16) == 0
    net.advertise(Option(PREF64, 0))
    net.until(lambda: net.dig("v4.example").data() == [])
    assert running.stop() == 0
