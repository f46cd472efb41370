# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Systems under test: what a definition may say, and that what it starts translates, alone or behind one another."""

from pathlib import Path

import pytest

from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Subject, Topology
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut import definition, lookup
from diolkos_lab.sut.program import SutFault
from diolkos_lab.sut.running import RunningSystem
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace
from diolkos_lab.topology.lane import Lane, Shape

CHAIN = 'system = "x"\ntitle = "X"\n[datapath.plat]\nplace = "{place}"\ncommand = ["x"]\n[datapath.chain]\nplat = "{plat}"\n'


def _system(tmp_path: Path, text: str) -> definition.System:
    file = tmp_path / "x.toml"
    file.write_text(text)
    return document.read(file, definition.System)


def test_a_plat_runs_before_the_datapath_that_needs_it(tmp_path: Path) -> None:
    system = _system(tmp_path, CHAIN.format(place="router", plat="plat"))
    assert system.path("chain") == (system.datapath["plat"], system.datapath["chain"])
    assert system.path("plat") == (system.datapath["plat"],)
    assert system.datapath["plat"].is_plat and not system.datapath["chain"].is_plat


@pytest.mark.parametrize(("place", "plat"), [("client", "plat"), ("router", "chain"), ("router", "nothing")])
def test_what_is_no_plat_is_refused(tmp_path: Path, place: str, plat: str) -> None:
    with pytest.raises(UsageFault, match=f"datapath chain: {plat} is not a datapath of this system for the router"):
        _system(tmp_path, CHAIN.format(place=place, plat=plat))


def test_shipped_systems_are_valid_and_only_translators_are_plats() -> None:
    systems = definition.load_all()
    plats = {f"{name}/{key}" for name, system in systems.items() for key, path in system.datapath.items() if path.is_plat}
    assert plats == {*(f"diolkos/nat64-{path}" for path in ("tc", "inline", "tun")), "tayga/masquerade"}


def _started(tmp_path: Path, lane: Lane, system: definition.System, datapath: str, family: str) -> RunningSystem:
    found = lookup.find(system, {})
    assert isinstance(found, lookup.Found), found
    return RunningSystem(found, Subject(system=system.system, datapath=datapath, family=family), lane, tmp_path)


def _lane(plat: bool) -> Lane:
    ground = Topology()
    return Lane("test", Shape(1, ipv6_only=True, offloads=True, pref64=ground.pref64, mtu=ground.mtu, plat=plat))


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_an_ipv6_only_client_reaches_an_ipv4_server_through_a_stateful_substitute(tmp_path: Path) -> None:
    with _lane(plat=True) as lane:
        running = _started(tmp_path, lane, definition.load_all()["tayga"], "masquerade", "ipv6")
        assert running.target == plan.synthesized(lane.shape.pref64, plan.LITERAL4)
        assert running.server_family == "ipv4"
        try:
            running.start()  # returns when the server has answered
            (process,) = running.processes
        finally:
            running.stop()
        assert running.processes == []
        assert process.pid not in namespace.processes_inside({lane.namespace("router")})


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_chain_runs_both_ends_and_notices_the_death_of_either(tmp_path: Path) -> None:
    tayga = definition.load_all()["tayga"]
    chain = tayga.datapath["tun"].model_copy(update={"plat": "masquerade"})
    system = tayga.model_copy(update={"datapath": {**tayga.datapath, "464xlat": chain}})
    with _lane(plat=True) as lane:
        running = _started(tmp_path, lane, system, "464xlat", "ipv4")
        assert running.target == plan.LITERAL4
        assert running.server_family == "ipv4"
        try:
            running.start()
            assert [program.datapath.place for program in running.programs] == ["router", "client"]
            running.check_alive()
            running.processes[0].kill()
            with pytest.raises(SutFault, match="tayga was killed by SIGKILL"):
                running.check_alive()
            running.stop()
            running.start()
            assert len(running.processes) == 2
        finally:
            running.stop()
