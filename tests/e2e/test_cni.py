# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos-cni` behind Debian's plugins `ptp` and `host-local`: pods of the IPv6 host get IPv4, and lose it without a trace.

v4 ── translator (NAT64) ── v6, the node ── pods, each with a /128 and no IPv4
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cni import PLUGINS, Refused, Runtime
from nat64 import Nat64Network
from network import PATIENCE, inside
from siit import PREF64, V4, V6

PODS = "2001:db8:f00::/64"
DEVICE = "diolkos0"
RUN = Path("/run/cni/diolkos")
# Codes of the specification.
ENVIRONMENT, INPUT, CONFIGURATION, LATER = 4, 6, 7, 11


class Node:
    """The IPv6 host as a node, and its runtime."""

    def __init__(self, net: Nat64Network) -> None:
        self.net = net
        self.folder = RUN / net.tag
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": PODS}]],
            "routes": [{"dst": "::/0"}],
            "dataDir": str(net.scratch / "ipam"),
        }
        # Tests on a machine with systemd must not use it.
        clat = {"pref64": PREF64, "systemd": False}
        plugins = [{"type": "ptp", "ipam": ipam}, {"type": "diolkos-cni", "clat": clat}]
        network = {"cniVersion": "1.0.0", "name": net.tag, "plugins": plugins}
        self.runtime = Runtime(network, [net.program.parent, PLUGINS])

    @property
    def clat(self) -> dict:
        """The plugin under test, as the list has it."""
        return self.runtime.network["plugins"][-1]

    def pod(self, name: str = "pod") -> str:
        """An empty pod: the path of its namespace."""
        namespace = f"{self.net.tag}-{name}"
        self.net.further.append(namespace)
        self.net.add_namespaces(namespace)
        return f"/run/netns/{namespace}"

    def add(self, pod: str, container: str = "pod") -> dict:
        """Attach a pod by all plugins."""
        with inside(self.net.v6):
            return self.runtime.add(container, pod)

    def delete(self, pod: str = "", container: str = "pod") -> None:
        """Detach it by all plugins."""
        with inside(self.net.v6):
            self.runtime.delete(container, pod)

    def call(self, command: str, pod: str = "", container: str = "pod", **given) -> dict:
        """Call the plugin under test alone."""
        with inside(self.net.v6):
            return self.runtime.call(self.clat, command, container, pod, **given)

    def begin(self, pod: str, previous: dict, container: str = "pod") -> subprocess.Popen:
        """Call ADD of the plugin under test, and do not wait for it."""
        with inside(self.net.v6):
            call = subprocess.Popen(
                self.runtime.program(self.clat),
                env=self.runtime.environment("ADD", container, pod),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert call.stdin is not None
        call.stdin.write(self.runtime.configuration(self.clat, previous))
        call.stdin.close()
        return call

    def passes(self, pod: str) -> bool:
        """Whether a program of the pod reaches an IPv4 host."""
        return self.net.run(Path(pod).name, "ping", "-c1", "-W2", V4, check=False).returncode == 0

    def holder(self, container: str = "pod") -> int:
        """The process of a CLAT, by its lock."""
        return int((self.folder / f"{container}:eth0.pid").read_text())

    def file(self, end: str) -> Path:
        """A file of the attachment."""
        return self.folder / f"pod:eth0.{end}"

    def devices(self, pod: str) -> list[str]:
        """The interfaces of a pod."""
        return [link["ifname"] for link in self.net.ip_json(Path(pod).name, "link")]


@pytest.fixture
def node(nat64: Nat64Network) -> Iterator[Node]:
    """A node, a NAT64 and an IPv4 host."""
    nat64.nat64()
    nat64.ip(nat64.translator, "route", "add", PODS, "via", V6)
    nat64.sysctl(nat64.v6, "net.ipv6.conf.all.forwarding", "1")
    node = Node(nat64)
    try:
        yield node
        # Whatever a test did: its last call was DEL.
        assert not node.folder.exists(), list(node.folder.iterdir())
    finally:
        for path in node.folder.glob("*.pid"):
            if path in files_of(number := path.read_text()):
                subprocess.run(("kill", number), check=False)
        shutil.rmtree(node.folder, ignore_errors=True)


def files_of(pid: str) -> set[Path]:
    """The open files of a process: the CLAT has its lock file open, and another process with its number has not."""
    try:
        return {entry.readlink() for entry in Path("/proc", pid or "none", "fd").iterdir()}
    except OSError:
        return set()


def processes_in(namespace: Path) -> list[str]:
    """The processes of a network namespace."""
    inode = namespace.stat().st_ino
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns/net").stat().st_ino == inode:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def code_of(refused: pytest.ExceptionInfo[Refused]) -> int:
    """The code of an error, which has a sentence, too."""
    plugin, said = refused.value.args
    assert plugin == "diolkos-cni" and said["msg"], said
    return said["code"]


def test_pods_get_ipv4_and_lose_it(node: Node) -> None:
    """Two pods with the same IPv4 address; ADD twice is one; CHECK notices; DEL twice is one."""
    pods = {name: node.pod(name) for name in ("pod", "other")}
    results = {name: node.add(path, name) for name, path in pods.items()}
    for name, path in pods.items():
        result = results[name]
        [six] = result["ips"]
        assert six["address"].startswith("2001:db8:f00::")
        assert result["interfaces"][-1] == {"name": DEVICE, "sandbox": path}
        assert node.passes(path), node.folder.joinpath(f"{name}:eth0.log").read_text()
        with inside(node.net.v6):
            node.runtime.check(name, path)
    # What the NAT64 sees is the pod's own address.
    sources = {session["v6"].rsplit("]")[0].strip("[") for session in node.net.shown("sessions")}
    assert sources == {result["ips"][0]["address"].split("/")[0] for result in results.values()}
    # The node itself has got nothing.
    assert DEVICE not in [link["ifname"] for link in node.net.ip_json(node.net.v6, "link")]

    pod, pid = pods["pod"], node.holder()
    previous = {**results["pod"], "interfaces": results["pod"]["interfaces"][:-1]}
    told = node.call("ADD", pod, previous=previous, clat={**node.clat["clat"], "tell_address": True})
    assert told["ips"][1] == {"address": "192.0.0.1/32", "interface": len(told["interfaces"]) - 1}
    assert {"dst": "0.0.0.0/0"} in told["routes"]
    assert node.holder() == pid, "a second ADD has replaced the CLAT"
    # Another attachment with the same device in the same pod.
    with pytest.raises(Refused) as refused:
        node.call("ADD", pod, "second", previous=previous)
    assert code_of(refused) == CONFIGURATION and f"process {pid}, has {DEVICE}" in str(refused.value)
    assert not list(node.folder.glob("second:*"))
    # ADD refuses such names; DEL must not, or the pod never goes.
    node.call("DEL", pod, "../pod")
    assert node.holder() == pid
    os.kill(pid, signal.SIGKILL)
    node.net.until(lambda: not Path("/proc", str(pid)).exists())
    with pytest.raises(Refused) as refused:
        node.call("CHECK", pod, previous=results["pod"])
    assert code_of(refused) == 100
    # Another ADD mends it.
    node.call("ADD", pod, previous=previous)
    assert node.passes(pod)

    node.delete(pod)
    assert (processes_in(Path(pod)), node.devices(pod)) == ([], ["lo"])
    assert node.passes(pods["other"])
    node.delete(pod)
    node.delete()
    with pytest.raises(Refused):
        node.call("CHECK", pod, previous=results["pod"])
    node.delete(pods["other"], "other")


@pytest.mark.parametrize("end", ["lock", "json", "log", "pid"])
def test_a_call_that_is_killed_leaves_nothing(node: Node, end: str) -> None:
    """The runtime kills ADD where it has got as far as one of its files, and calls DEL, or ADD again."""
    pod = node.pod()
    with inside(node.net.v6):
        previous = node.runtime.call(node.runtime.network["plugins"][0], "ADD", "pod", pod)
    for is_again in (False, True):
        call = node.begin(pod, previous)
        while not node.file(end).exists() and call.poll() is None:
            time.sleep(0)
        call.kill()
        call.wait()
        if is_again:
            node.call("ADD", pod, previous=previous)
            assert node.passes(pod)
            # That of the call that was killed sees that there is one, and ends.
            node.net.until(lambda: len(processes_in(Path(pod))) == 1)
        node.call("DEL", pod)
        # What was on its way finds no record, and ends.
        node.net.until(lambda: processes_in(Path(pod)) == [] and not node.folder.exists())
        assert DEVICE not in node.devices(pod)
    node.delete(pod)


def test_a_namespace_that_is_gone(node: Node) -> None:
    """Its path is, while the CLAT keeps it alive: DEL ends the CLAT all the same."""
    pod = node.pod()
    node.add(pod)
    process = Path("/proc") / str(node.holder())
    node.net.host("ip", "netns", "del", Path(pod).name)
    assert process.exists()
    node.call("DEL", pod)
    node.net.until(lambda: not process.exists())
    node.call("DEL", pod)
    with pytest.raises(Refused) as refused:
        node.call("ADD", pod, previous={"ips": []})
    assert code_of(refused) == 5
    node.delete()


def test_a_clat_that_comes_late_finds_no_record(node: Node) -> None:
    """The second half of an ADD that was killed, after DEL, or with a record whose path leads to another namespace by now."""
    pod = node.pod()
    late = (node.runtime.program(node.clat), "run", str(node.folder / "pod:eth0"))
    assert node.net.run(node.net.v6, *late).stdout == ""
    node.folder.mkdir(parents=True)
    assert node.net.run(node.net.v6, *late).stdout == ""
    assert not node.folder.exists()
    record = {"netns": pod, "namespace": 1, "program": str(node.net.program), "arguments": ["clat"]}
    node.folder.mkdir(parents=True)
    node.file("json").write_text(json.dumps(record))
    done = node.net.run(node.net.v6, *late, check=False)
    assert done.returncode == 2 and "another namespace" in done.stderr, done
    # What is no record is none.
    node.file("json").write_text("{")
    assert node.net.run(node.net.v6, *late).stdout == ""
    assert processes_in(Path(pod)) == []
    node.call("DEL")


def test_calls_at_once(node: Node) -> None:
    """ADD, ADD and ADD: one CLAT, one answer. DEL meanwhile waits, and wins if it is the last."""
    pod = node.pod()
    with inside(node.net.v6):
        previous = node.runtime.call(node.runtime.network["plugins"][0], "ADD", "pod", pod)
    calls = [node.begin(pod, previous) for _ in range(3)]
    answers = {call.stdout.read() for call in calls if call.stdout}
    assert [call.wait(PATIENCE) for call in calls] == [0, 0, 0]
    assert len(answers) == 1 and DEVICE in answers.pop()
    assert len(processes_in(Path(pod))) == 1
    node.call("DEL", pod)
    call = node.begin(pod, previous)
    node.net.until(lambda: node.file("lock").exists() or call.poll() is not None)
    node.call("DEL", pod)
    assert call.wait(PATIENCE) == 0
    assert (processes_in(Path(pod)), node.devices(pod)) == ([], ["lo", "eth0"])
    node.delete(pod)


def test_attachments_that_the_runtime_forgot(node: Node) -> None:
    """GC ends those that are not in its list, and no others."""
    pods = {name: node.pod(name) for name in ("pod", "other")}
    for name, path in pods.items():
        node.add(path, name)
    for wrong in (None, 5):
        given = {} if wrong is None else {"cni.dev/valid-attachments": wrong}
        with pytest.raises(Refused) as refused:
            node.call("GC", **given)
        assert code_of(refused) == CONFIGURATION
    node.call("GC", **{"cni.dev/valid-attachments": [{"containerID": "other", "ifname": "eth0"}]})
    assert processes_in(Path(pods["pod"])) == []
    assert node.passes(pods["other"])
    node.call("GC", **{"cni.dev/valid-attachments": []})
    assert processes_in(Path(pods["other"])) == []
    for name, path in pods.items():
        node.delete(path, name)


def test_what_cannot_be_done_leaves_nothing(node: Node) -> None:
    """Wrong input, the node's own namespace, a pod without a way out, one with IPv4 already, a program that is not there."""
    pod = node.pod()
    six = {"ips": [{"address": "2001:db8:f00::5/128"}]}
    for broken in ("", "{", '{"cniVersion": "1.0.0"'):
        with inside(node.net.v6):
            done = subprocess.run(
                node.runtime.program(node.clat),
                input=broken,
                env=node.runtime.environment("ADD", "pod", pod),
                check=False,
                capture_output=True,
                text=True,
            )
        assert (done.returncode, json.loads(done.stdout)["code"]) == (1, INPUT), done
    wrong = {
        CONFIGURATION: (pod, "pod", {}),
        ENVIRONMENT: (pod, "../pod", {"previous": six}),
        # No route, and no interface.
        LATER: (pod, "pod", {"previous": six, "clat": {**node.clat["clat"], "timeout_s": 1}}),
    }
    for code, (where, container, given) in wrong.items():
        with pytest.raises(Refused) as refused:
            node.call("ADD", where, container, **given)
        assert code_of(refused) == code, refused.value
    with pytest.raises(Refused) as refused:
        node.call("ADD", f"/run/netns/{node.net.v6}", previous=six)
    assert code_of(refused) == ENVIRONMENT and "own namespace" in str(refused.value)

    both = {"ips": [*six["ips"], {"address": "198.18.0.5/24"}]}
    assert node.call("ADD", pod, previous=both) == both
    node.call("CHECK", pod, previous=both)
    node.call("STATUS")
    # The program is the one beside the plugin.
    broken_install = node.net.scratch / "bin"
    broken_install.mkdir()
    shutil.copy(node.net.program.with_name("diolkos-cni"), broken_install)
    (broken_install / "diolkos").write_text("no program")
    with inside(node.net.v6), pytest.raises(Refused) as refused:
        Runtime(node.runtime.network, [broken_install]).call(node.clat, "STATUS")
    assert code_of(refused) == 50
    assert "1.1.0" in node.call("VERSION")["supportedVersions"]
    assert processes_in(Path(pod)) == []
