# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Systems under test: what a definition may say, and that what it starts translates, alone or behind one another."""

from pathlib import Path

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Subject, Topology
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut import definition, lookup, sessions
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
    assert plats == {
        *(f"diolkos/nat64-{path}" for path in ("tc", "inline", "direct", "xdp", "tc-rules", "large-tc", "small-tc", "tun")),
        "box/nat64",
        "tayga/masquerade",
        "jool64/nat64-module",
        "p4swx/nat64",
        "p4swx/nat64-learn",
        "p4bmv2/nat64",
    }


def test_behind_a_plat_names_are_answered_by_a_dns64() -> None:
    systems = definition.load_all()
    for system in systems.values():
        for datapath in system.datapath.values():
            other, _, name = datapath.resolver.partition("/")
            assert systems[other].datapath[name].serves == "names"
            assert (name == "dns64") == datapath.is_plat, datapath


def test_what_serves_names_is_on_the_router(tmp_path: Path) -> None:
    text = 'system = "a"\ntitle = "A"\n[datapath.b]\nserves = "names"\ncommand = ["x"]\n'
    with pytest.raises(UsageFault, match="what serves names is on the router"):
        _system(tmp_path, text)


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


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_a_question_that_is_not_answered_in_time_is_a_fault_of_the_system(tmp_path: Path) -> None:
    """No other error gets out: one slow command must not end a whole run."""
    with _lane(plat=True) as lane:
        program = _started(tmp_path, lane, definition.load_all()["tayga"], "masquerade", "ipv6").programs[0]
        with pytest.raises(SutFault, match=r"`sleep 5` did not work: sleep did not end within 0\.1 s"):
            program.answer(("sleep", "5"), patience_s=0.1)


def _never(*_: object) -> None:
    raise NetlinkError(16, "busy")


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine")
def test_sessions_that_the_kernel_does_not_end_are_a_fault_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions.NFCTSocket, "flush", _never)
    with _lane(plat=False) as lane:
        running = _started(tmp_path, lane, definition.load_all()["nat44"], "nftables", "ipv4")
        assert running.sessions
        with pytest.raises(SutFault, match=r"could not be ended: .*busy"):
            running.sessions.clear()


class Telling:
    """A program that answers every question with one text."""

    def __init__(self, text: str) -> None:
        self.datapath = definition.load_all()["diolkos"].datapath["nat64-tun"]
        self._text = text

    def answer(self, *_: object) -> str:
        return self._text


def test_a_counter_that_is_not_listed_is_no_empty_table() -> None:
    def count(text: str) -> int:
        return sessions.Sessions(Telling(text)).count()  # type: ignore[arg-type]

    assert count('{"counters": {"state.sessions": 0}}') == 0
    with pytest.raises(SutFault, match="does not tell how many sessions it has"):
        count('{"counters": {"sessions.now": 5}}')
