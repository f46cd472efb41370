# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`--box`: a black box between two interfaces. veth pairs play the interfaces, in a namespace that plays the host; another
namespace plays the box: the kernel forwards, Tayga and nftables make a NAT64 of it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from diolkos_lab.sut.lookup import tool
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace
from whole_program import Lab, refused

STUDY = """
format = 1
name = "through-a-box"
title = "Through a box"
question = "Does the lab find its way through a black box?"

[guards]
steal_share = 1
foreign_cpu_share = 1

[[system]]
system = "native"
datapath = "kernel"
family = "ipv6"

[[system]]
system = "native"
datapath = "kernel"
family = "ipv4"

[[system]]
system = "box"
datapath = "nat64"
family = "ipv6"

[[system]]
system = "tayga"
datapath = "masquerade"
family = "ipv6"

[form.quick]
blocks = {blocks}

[[form.quick.load]]
name = "ping"
count = 4
interval_s = 0.01

[[form.quick.load]]
name = "tcp-upload"
seconds = 1
"""
TAYGA = f"""
tun-device nat64
ipv4-addr {plan.POOL4}
ipv6-addr {plan.PLAT6}
prefix 64:ff9b::/96
dynamic-pool {plan.POOL4_NETWORK}
data-dir FOLDER
"""
RULES = (
    f"table ip lab {{ chain post {{ type nat hook postrouting priority srcnat; ip saddr {plan.POOL4_NETWORK} masquerade; }}; }}"
)
SETTINGS = "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; "
NO_DAD = "echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad; echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad"


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host, self.box = f"boxtest-{os.getpid()}-h", f"boxtest-{os.getpid()}-b"
        self._tayga: subprocess.Popen[bytes] | None = None

    def inside(self, where: str, *words: str) -> str:
        entered = ["nsenter", f"--net=/run/netns/{where}", *words]
        return subprocess.run(entered, check=True, capture_output=True, text=True).stdout

    def build(self) -> None:
        for name in (self.host, self.box):
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.inside(name, "ip", "link", "set", "lo", "up")
        self.inside(self.box, "sh", "-c", SETTINGS + NO_DAD)
        self.inside(self.host, "ip", "link", "add", "other", "type", "veth", "peer", "name", "rest")
        self.inside(self.host, "ip", "address", "add", "192.0.2.1/24", "dev", "other")
        for near, far, addresses in (("c0", "in", (plan.A6[1], plan.A4[1])), ("s0", "out", (plan.S6[0], plan.S4[0]))):
            self.inside(self.host, "ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self.box)
            for address in addresses:
                self.inside(self.box, "ip", "address", "add", str(address), "dev", far)
            self.inside(self.box, "ip", "link", "set", far, "up")
        (self.folder / "tayga").mkdir()
        config = self.folder / "tayga.conf"
        config.write_text(TAYGA.replace("FOLDER", str(self.folder / "tayga")))
        self.inside(self.box, "ip", "route", "add", f"{plan.LITERAL4}/32", "via", str(plan.SERVER4))
        self.inside(self.box, "nft", RULES)
        command = ["nsenter", f"--net=/run/netns/{self.box}", "tayga", "--nodetach", "--config", str(config)]
        self._tayga = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while "nat64" not in self.inside(self.box, "ip", "-br", "link"):
            assert self._tayga.poll() is None
            time.sleep(0.05)
        self.inside(self.box, "ip", "link", "set", "nat64", "up")
        for network in ("64:ff9b::/96", plan.POOL4_NETWORK):
            self.inside(self.box, "ip", "route", "add", str(network), "dev", "nat64")

    def remove(self) -> None:
        if self._tayga:
            self._tayga.kill()
            self._tayga.wait()
        for name in (self.host, self.box):
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def command(self, *arguments: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.host}", sys.executable, "-m", "diolkos_lab", *arguments]

    def run(self, *arguments: str, blocks: int = 2) -> list[str]:
        study = self.folder / "box.toml"
        study.write_text(STUDY.format(blocks=blocks))
        return self.command("run", str(study), "--quick", "--out", str(self.folder / "out"), *arguments)

    @property
    def trials(self) -> list[dict[str, object]]:
        file = self.folder / "out" / "samples.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()[1:] if line.endswith("}")] if file.exists() else []

    @property
    def interfaces(self) -> dict[str, tuple[str, bool]]:
        """All that the host has, with their Ethernet addresses, and whether they are up."""
        links = json.loads(self.inside(self.host, "ip", "-json", "link"))
        return {link["ifname"]: (link["address"], "UP" in link["flags"]) for link in links}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    if not (tool("tayga") and tool("nft")):
        pytest.skip("tayga and nft play the box")
    made = Bench(tmp_path)
    try:
        made.build()
        yield made
    finally:
        made.remove()


@pytest.mark.root
def test_a_black_box_is_measured_and_its_interfaces_are_given_back(bench: Bench) -> None:
    before = bench.interfaces
    done = subprocess.run(bench.run("--box", "c0,s0"), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert [trial["error"] for trial in bench.trials if trial["error"]] == []
    assert {(trial["system"], trial["family"], trial["load"]) for trial in bench.trials} == {
        (*path, load) for path in (("native", "ipv6"), ("native", "ipv4"), ("box", "ipv6")) for load in ("ping", "tcp-upload")
    }
    facts = json.loads((bench.folder / "out" / "host.json").read_text())
    assert facts["box"] == {"client": "c0", "server": "s0"}
    assert "a black box between its interfaces c0 and s0" in (bench.folder / "out" / "report.html").read_text()
    assert "a black box stands between client and server" in (bench.folder / "out" / "samples.jsonl").read_text()
    assert bench.interfaces == before
    counted = json.loads(bench.inside(bench.box, "ip", "-json", "-s", "link", "show", "nat64"))[0]["stats64"]
    assert counted["rx"]["packets"] > 1000, "the bytes of box/nat64 went through the box's translator"


@pytest.mark.root
@pytest.mark.alone  # other runs, when they begin, remove what the dead have left, too
def test_after_sigkill_clean_gives_the_interfaces_back(bench: Bench) -> None:
    before = bench.interfaces
    running = subprocess.Popen(bench.run("--box", "c0,s0", blocks=1000), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        while not bench.trials:
            assert running.poll() is None, running.communicate()[1]
            time.sleep(0.1)
    finally:
        running.kill()
        running.communicate()
    assert set(bench.interfaces) == set(before) - {"c0", "s0"}, "nobody could give them back"
    subprocess.run(bench.command("clean"), check=True, capture_output=True, timeout=60)
    assert bench.interfaces == before
    assert not [name for name in os.listdir(namespace.DIRECTORY) if f"-{running.pid}-" in name]


@pytest.mark.root
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("c0,other", 'the NIC "other" is in use: it has the address 192.0.2.1'),
        ("c0,nothing", 'there is no NIC "nothing"; there are '),
        ("c0", "expected the names of two interfaces of this host: CLIENT,SERVER"),
        ("c0,c0", "client and server are the same NIC"),
        ("c0,s 0", "should match pattern"),
    ],
)
def test_what_is_no_pair_of_free_interfaces_is_refused_in_one_sentence(bench: Bench, given: str, words: str) -> None:
    before = bench.interfaces
    done = subprocess.run(bench.run("--box", given), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (2, 3) and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert bench.interfaces == before


def test_without_a_box_the_system_is_missing_and_not_both_ways_at_once(lab: Lab) -> None:
    code, output, _ = lab("plan", "black-box", "--quick")
    assert code == 0 and "--box CLIENT,SERVER" in output
    assert "give one of them" in refused(lab("run", "black-box", "--box", "a,b", "--router", "root@x", "--nics", "y"))
