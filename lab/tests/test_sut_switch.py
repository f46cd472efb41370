# SPDX-License-Identifier: Apache-2.0 OR MIT
"""P4 switches: found with their controller and program, at work on devices whose addresses move to shadows, and back."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from diolkos_lab import studies
from diolkos_lab.experiment.definition import Subject
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import CHECKSUMS, Lane, Shape
from diolkos_lab.topology.process import run_to_end

SYSTEMS = definition.load_all()
SWITCHES = ("p4swx", "p4bmv2")
PREF64 = studies.load("p4").topology.pref64


def _lane(datapath: definition.Datapath) -> Lane:
    hops = 2 if datapath.place == "translator" else 1
    only, inbound = datapath.access == "ipv6-only", datapath.is_inbound
    checksums = "unfinished-checksums" not in datapath.without
    shape = Shape(hops, only, False, PREF64, 1500, inbound=inbound, plat=datapath.is_plat, checksums=checksums)
    return Lane("test", shape)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """A program that is there, whatever it does."""
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    yield path


@pytest.mark.parametrize("name", SWITCHES)
def test_their_lanes_have_no_super_packets(name: str) -> None:
    assert all("super-packets" in datapath.without for datapath in SYSTEMS[name].datapath.values())
    assert set(SYSTEMS[name].datapath) - {"nat64-learn"} == {"siit", "siit-dc", "nat64", "inbound"}


@pytest.mark.usefixtures("clean_machine")
def test_what_is_missing_is_named(program: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bmv2, given = SYSTEMS["p4bmv2"], {"p4bmv2": str(program), "diolkos": str(program)}
    for folder in ("P4", "P4_COMPILED", "P4_PACKAGED", "BESIDE"):
        monkeypatch.setattr(lookup, folder, tmp_path / folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lookup, "SYSTEM_FOLDERS", "")
    assert _reason(bmv2, {}) == "the program simple_switch is not on this host"
    assert _reason(bmv2, {"p4bmv2": str(program)}) == "the program diolkos, which controls it, is not on this host"
    assert _reason(bmv2, given) == "its P4 program nat64.json is not on this host"
    (tmp_path / "P4_COMPILED").mkdir()
    (tmp_path / "P4_COMPILED/nat64.json").write_text("{}")
    found = lookup.find(bmv2, given)
    assert isinstance(found, lookup.Found), found
    assert (found.controller, found.p4) == (program, tmp_path / "P4_COMPILED/nat64.json")


def _reason(system: definition.System, given: dict[str, str]) -> str:
    found = lookup.find(system, given)
    assert isinstance(found, lookup.Missing)
    return found.reason


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
@pytest.mark.parametrize(("name", "datapath"), [(name, datapath) for name in SWITCHES for datapath in SYSTEMS[name].datapath])
def test_a_switch_translates_and_gives_its_devices_back(tmp_path: Path, name: str, datapath: str) -> None:
    found = lookup.find(SYSTEMS[name], {})
    if isinstance(found, lookup.Missing):
        pytest.skip(f"{found.reason}: {found.how}")
    of_it = found.system.datapath[datapath]
    with _lane(of_it) as lane:

        def know(device: str) -> list[str]:
            every = (["-json", "address", "show", "dev", device], *([f, "route", "show", "dev", device] for f in ("-4", "-6")))
            texts = [_run(lane, of_it.place, tmp_path, "ip", *words) for words in every]
            (link,) = json.loads(texts[0])
            kept = [(each["local"], each["prefixlen"]) for each in link["addr_info"] if each["scope"] == "global"]
            lines = (line.strip() for text in texts[1:] for line in text.splitlines())
            return sorted(map(str, kept)) + sorted(line for line in lines if "fe80" not in line)

        devices = [device for role, device in lane.devices() if role == of_it.place]
        before = {device: know(device) for device in devices}
        assert all(before.values())
        family, hops = ("ipv6" if of_it.is_plat else "ipv4"), lane.shape.hops
        subject = Subject(system=name, datapath=datapath, family=family, hops=hops)
        running = RunningSystem(found, subject, lane, tmp_path / "system")
        try:
            for _ in range(2):  # it can be started again
                running.start()
                assert not any(know(device) for device in devices), "what the kernel knew of them moved to their shadows"
                assert of_it.tun is None or running.counters()["p4.up"] == 1
                running.stop()
                assert {device: know(device) for device in devices} == before
            # Who is killed gives nothing back, and begins all the same.
            running.start()
            for process in running.processes:
                process.kill()
            running.stop()
            running.start()
        finally:
            running.stop()
        assert {device: know(device) for device in devices} == before


# "ready" and no shadow is what a switch leaves that is told to end before its devices have moved.
GIVE_BACK = """
ip link add near type veth peer name far
ip link set far up
ip link set near up
ip address add 192.0.2.1/24 dev near
ip address add 2001:db8::1/64 dev near nodad
ip route add 198.51.100.0/24 via 192.0.2.2 dev near
ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:01 nud permanent dev near
test -z "$3" || { ip link add "$3" type veth peer name beyond; ip link set beyond up; ip link set "$3" up; }
show() { ip -o address show dev near scope global; ip route show dev near; ip neighbour show dev near nud permanent; }
before=$(show)
code=0
timeout 20 python3 "$1" "$2" near=shadow -- sh -c 'echo ready >&2; test -n "$0" || exec sleep 60' "$3" || code=$?
test "$before" = "$(show)" || { echo "before: $before"; echo "after: $(show)"; exit 99; }
test -z "$(ls "$2")" || exit 98
exit $code
"""


@pytest.mark.root
@pytest.mark.parametrize(("shadow", "code"), [("shadow", 0), ("", 1)])
def test_devices_get_back_what_they_had_also_where_their_shadows_are_gone(tmp_path: Path, shadow: str, code: int) -> None:
    script = Path(definition.__file__).parent / "scripts/shadows.py"
    command = ["unshare", "--net", "sh", "-euc", GIVE_BACK, "sh", str(script), str(tmp_path), shadow]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("moved\n" in done.stderr) == bool(shadow)


def _run(lane: Lane, role: str, tmp_path: Path, *command: str) -> str:
    (tmp_path / "out").write_text("")
    status, text = run_to_end(lane.namespace(role), list(command), tmp_path / "out")
    assert status == 0, text
    return text


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_lane_without_unfinished_checksums_has_senders_that_finish_them() -> None:
    for checksums in (True, False):
        with Lane("test", Shape(1, False, True, PREF64, 1500, checksums=checksums)) as lane:
            assert {lane.features(*device)[CHECKSUMS] for device in lane.devices()} == {checksums}
            assert lane.features("client", plan.UPLINK)["tx-tcp-segmentation"] == checksums, "they need the same of a device"
