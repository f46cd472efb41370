# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Instructions per packet, from lines of a guest to tables; and what is shown of an emulated processor."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from diolkos_lab import instructions, report, run_study, studies, summary
from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.guest import command as guests
from diolkos_lab.guest import count_instructions, inside_packets, package, preparing, timing
from diolkos_lab.guest.archive import Archive
from diolkos_lab.guest.counted import CountedLoad, load_name
from diolkos_lab.guest.inside_count import RESULT, RawSnapshot, instructions_per_packet, moment
from diolkos_lab.guest.machine import CommandFailed
from diolkos_lab.report import terminal
from diolkos_lab.report.read import read
from diolkos_lab.run.router import Wanted
from diolkos_lab.samples import folder

PATHS = {"native_kernel_ipv4_1-off": (10_000, 9_000), "diolkos_tun_ipv4_1-off": (40_000, 41_000)}


def prepared(out: Path, study: str = "clat") -> preparing.Prepared:
    """Without a kernel, which is not booted."""
    found = studies.load(study)
    kernel = package.Kernel("6.1.0-1-amd64", out, None)
    facts = {"hostname": "h", "command_line": ["diolkos-lab"], "guest": {"kernel": "6.1", "emulator": "QEMU 1"}}
    return preparing.Prepared(found, kernel, None, {}, {}, out, Archive(out), facts)


def said_by_the_guest() -> Iterator[str]:
    yield "[    0.1] some words of the kernel"
    yield RESULT + json.dumps({"missing": "tundra", "reason": "it is not here", "how": "build it"})
    yield RESULT + json.dumps({"systems": {"native": ["", None], "diolkos": ["/d", "1"], "jool": ["/j", "4"]}})
    for name, counts in PATHS.items():
        for block in range(count_instructions.BLOCKS):
            for load, each in zip(("tcp-upload", "tcp-download"), counts, strict=True):
                # The warm-up does not count.
                more = 5000 if block == 0 else 10 * block
                found = {"instructions": each + more, "received": 1000, "duration": 0.4}
                yield RESULT + json.dumps({"cell": name, "load": load, "block": block, **found})
    for load in ("tcp-upload", "tcp-download"):
        yield RESULT + json.dumps({"cell": "nat44_nftables_ipv4_1-off", "load": load, "block": 1, "error": "it died"})


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, Any]]:
    """A result folder as the lines above make it, and its summary."""
    out = tmp_path / "out"
    monkeypatch.setattr(count_instructions, "boot", lambda *_: said_by_the_guest())
    monkeypatch.setattr(count_instructions, "_write", lambda *_: None)
    monkeypatch.setattr(preparing, "cache", lambda: tmp_path)
    count_instructions.count(
        prepared(out), run_study.RunRequest("clat", True, only=("diolkos", "nat44", "tundra")), lambda _: None
    )
    return out, summary.write(folder.read(out))


def test_counts_over_native(counted: tuple[Path, dict[str, Any]]) -> None:
    """Medians of the repetitions, each over that of its own native path; the warm-up is left out."""
    found = {entry["system"]: entry for entry in counted[1]["instructions"]}
    assert (found["native"]["up"], found["native"]["down"]) == (10_020, 9_020)
    assert found["native"]["up_over_native"] is None
    assert (found["diolkos"]["up_over_native"], found["diolkos"]["down_over_native"]) == (30_000, 32_000)
    assert found["diolkos"]["kernel"] == "6.1.0-1-amd64"
    assert found["diolkos"]["up_spread"] == pytest.approx(20 / 40_020)


def test_a_count_that_has_ended_is_complete(counted: tuple[Path, dict[str, Any]]) -> None:
    assert folder.read(counted[0]).host["complete"] is True


def test_a_count_that_ends_early_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(*_: object) -> Iterator[str]:
        yield from list(said_by_the_guest())[:6]
        raise CommandFailed("137")

    monkeypatch.setattr(count_instructions, "boot", dying)
    monkeypatch.setattr(count_instructions, "_write", lambda *_: None)
    monkeypatch.setattr(preparing, "cache", lambda: tmp_path)
    with pytest.raises(CommandFailed):
        count_instructions.count(prepared(tmp_path / "out"), run_study.RunRequest("clat", True), lambda _: None)
    result = folder.read(tmp_path / "out")
    assert result.trials and result.host["complete"] is False


def test_every_row_has_its_kernel(counted: tuple[Path, dict[str, Any]]) -> None:
    assert {row["kernel"] for row in counted[1]["rows"]} == {"6.1.0-1-amd64"}


def test_what_the_guest_lacks_and_what_failed_is_told(counted: tuple[Path, dict[str, Any]]) -> None:
    out, made = counted
    assert [(entry["system"], entry["reason"]) for entry in made["missing"]] == [("tundra", "it is not here")]
    assert [(entry["system"], entry["reason"]) for entry in made["failures"]] == [("nat44", "it died")]
    page = report.write(out).read_text()
    assert "it is not here" in page
    assert "it died" in page


def test_terminal_and_page_show_counts(counted: tuple[Path, dict[str, Any]]) -> None:
    out, _ = counted
    text = io.StringIO()
    terminal.show(Console(file=text, width=120), read(out))
    assert "diolkos tun" in text.getvalue()
    assert "+30000" in text.getvalue()
    page = report.write(out).read_text()
    assert "+30000" in page
    assert "Linux 6.1.0-1-amd64" in page
    assert (out / "tables/instructions.csv").exists()


def test_a_guest_that_counts_nothing_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_instructions, "boot", lambda *_: iter(["Traceback"]))
    monkeypatch.setattr(count_instructions, "_write", lambda *_: None)
    monkeypatch.setattr(preparing, "cache", lambda: tmp_path)
    with pytest.raises(Fault, match="the guest counted nothing"):
        count_instructions.count(prepared(tmp_path / "out"), run_study.RunRequest("clat", True), lambda _: None)


def test_a_study_without_tcp_is_refused() -> None:
    with pytest.raises(UsageFault, match="--count-instructions: the study capacity sends no TCP"):
        count_instructions.counted(studies.load("capacity"), "quick")


def test_only_ratios_of_an_emulated_processor(tmp_path: Path, record: Callable[..., dict[str, Any]]) -> None:
    """Neither page nor terminal has a figure of its speed."""
    study = studies.load("clat")
    rows = [
        record(block=block, system=system, datapath=datapath, family=family, metrics={"throughput": rate})
        for block in range(8)
        for system, datapath, family, rate in (
            ("native", "kernel", "ipv4", 4.321e9),
            ("diolkos", "tun", "ipv4", 4.321e9 / 2),
        )
    ]
    with_header = folder.Writer(tmp_path / "out", study, {}, {"quick": True})
    with_header.host({"kernel": "6.12", "guest": {"acceleration": "TCG", "emulator": "QEMU 7"}})
    with_header.close()
    samples = tmp_path / "out/samples.jsonl"
    samples.write_text(samples.read_text() + "".join(json.dumps(row) + "\n" for row in rows))
    summary.write(folder.read(tmp_path / "out"))
    text = io.StringIO()
    terminal.show(Console(file=text, width=120), read(tmp_path / "out"))
    assert "50.0" in text.getvalue()
    assert "emulated" in text.getvalue()
    page = report.write(tmp_path / "out").read_text()
    body = page[: page.index('id="host"')]
    assert "emulated" in body
    for absolute in ("Gbit/s", "4.32"):
        assert absolute not in text.getvalue()
        assert absolute not in body


def test_a_fault_of_the_guest_is_one_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its sentence and its exit code."""

    def guest(*_: object) -> Iterator[str]:
        yield "warm-up"
        yield "FAULT a tool is missing"
        raise CommandFailed("3")

    monkeypatch.setattr(timing, "boot", guest)
    monkeypatch.setattr(timing.Guest, "prepare", lambda guest, _: guest.results.mkdir(parents=True))
    monkeypatch.setattr(timing, "busybox", lambda _: tmp_path)
    monkeypatch.setattr(timing, "ways", lambda: ["TCG"])
    monkeypatch.setattr(preparing, "cache", lambda: tmp_path)
    said: list[str] = []
    with pytest.raises(Fault, match="in the guest: a tool is missing") as found:
        timing.measure(prepared(tmp_path / "out"), run_study.RunRequest("clat", True), said.append)
    assert found.value.exit_code == 3
    assert "warm-up" in said


def test_the_guest_is_told_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name."""
    told: list[dict[str, Any]] = []

    def guest(*_: object) -> Iterator[str]:
        (order,) = tmp_path.glob("guests/*/results/request.json")
        told.append(json.loads(order.read_text()))
        yield from ()

    monkeypatch.setattr(timing, "boot", guest)
    monkeypatch.setattr(timing.Guest, "prepare", lambda guest, _: guest.results.mkdir(parents=True))
    monkeypatch.setattr(timing, "busybox", lambda _: tmp_path)
    monkeypatch.setattr(timing, "ways", lambda: ["TCG"])
    monkeypatch.setattr(preparing, "cache", lambda: tmp_path)
    order = run_study.RunRequest("throughput", False, form="intervals")
    timing.measure(prepared(tmp_path / "out", "throughput"), order, lambda _: None)
    assert told[0]["form"] == "intervals"


def test_levels_of_factors_are_counted_apart() -> None:
    study = count_instructions.counted(studies.load("nat-rules").of_form("quick"), "quick")
    assert any(len(subject.factors) for subject in study.system)
    row = {"metric": "instructions", "load": "tcp-upload", "family": "ipv6", "hops": 1, "min": 1, "max": 1, "kernel": "6.1"}
    native = {**row, "system": "native", "datapath": "kernel", "baseline": None, "median": 100}
    path = {**row, "system": "natrules", "datapath": "nat66", "baseline": "native/kernel/ipv6/1"}
    rows = [native, {**path, "median": 150, "levels": {"rules": 1}}, {**path, "median": 250, "levels": {"rules": 100}}]
    assert [entry["up_over_native"] for entry in instructions.entries(rows)] == [None, 50, 150]
    other = [{**each, "kernel": "6.12", "median": each["median"] * 2} for each in rows]
    assert [entry["up_over_native"] for entry in instructions.entries([*rows, *other])] == [None, 50, 150, None, 100, 300]


def test_short_and_long_packets_are_counted_both_ways() -> None:
    """By the generator; streams without super-packets, save for those of UDP that the study asks for."""
    peers = count_instructions.counted(studies.load("peers").of_form("sizes"), "sizes")
    names = [load_name(load) for load in peers.form["sizes"].load if isinstance(load, CountedLoad)]
    assert names == [
        *("forwarding-rate-84-4096", "forwarding-rate-84-4096-back"),
        *("forwarding-rate-1518-4096", "forwarding-rate-1518-4096-back"),
    ]
    assert {"jool/siit-dc-module", "jool64/nat64-module"} <= {f"{each.system}/{each.datapath}" for each in peers.system}
    speed = count_instructions.counted(studies.load("speed").of_form("streams"), "streams")
    loads = {load_name(load): load.offloads for load in speed.form["streams"].load if isinstance(load, CountedLoad)}
    assert loads == {"tcp-upload": ("off",), "tcp-download": ("off",), "udp-gso": ("on",)}


def test_kinds_of_packets_are_told_apart() -> None:
    """Each over the native path of the same packets and direction."""
    row = {"metric": "instructions", "load": "forwarding-rate", "family": "ipv6", "hops": 1, "min": 1, "max": 1, "flows": 4096}
    native = {**row, "system": "native", "datapath": "kernel", "baseline": None}
    path = {**row, "system": "diolkos", "datapath": "nat64-tc", "baseline": "native/kernel/ipv6/1"}
    rows = []
    for size, back, base in ((84, {}, 100), (84, {"backwards": 1}, 200), (1518, {}, 1000), (1518, {"backwards": 1}, 2000)):
        rows += [{**native, "size": size, **back, "median": base}, {**path, "size": size, **back, "median": base + size}]
    found = [entry for entry in instructions.entries(rows) if entry["system"] == "diolkos"]
    assert [(entry["packets"], entry["up"], entry["up_over_native"], entry["down_over_native"]) for entry in found] == [
        ("UDP in IPv6 frames of 84 bytes, 4096 flows", 184, 84, 84),
        ("UDP in IPv6 frames of 1518 bytes, 4096 flows", 2518, 1518, 1518),
    ]


def test_every_system_gets_the_same_frames() -> None:
    """As seen: a veth whose peer did not poll took none of XDP, so frames went by a packet socket, which costs more."""
    measured = {"directions": [{"sent": {"path": "live-frames"}}]}
    assert inside_packets.other_path(measured) is None
    slow = {"carried": [{"sent": {"path": "packet-socket", "path_because": "the peer does not poll"}}]}
    assert inside_packets.other_path(slow) == "frames left by packet-socket: the peer does not poll"


def test_what_is_lost_has_no_count() -> None:
    assert inside_packets.judged(10_000, 9_995, 250_000)["instructions"] == 4000
    assert "of 10000 packets 20 were lost" in inside_packets.judged(10_000, 9_980, 250_000)["error"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resume": Path("r")}, "--resume r: a run in a guest cannot be resumed"),
        ({"router": Wanted("root@r", Path("nics"))}, "--kernel: a guest has no other machine"),
    ],
)
def test_what_a_guest_cannot_do_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageFault, match=said):
        guests.run(run_study.RunRequest("clat", True, **options), "6.1", counting=False, say=lambda _: None)


def _look(began_s: float, ended_s: float, packets: int, idle_s: float = 7.0) -> RawSnapshot:
    zeros = " 0" * 6
    text = f"Inter-| Receive\n face |bytes\n    up: {1500 * packets} {packets}{zeros} 9 9{zeros}\n"
    return RawSnapshot(began_s, ended_s, text, idle_s)


def test_a_look_that_the_scheduler_broke_off_does_not_count() -> None:
    """As seen: as many packets as in the repetition before, and four milliseconds more on the clock."""
    before = moment([_look(1.0, 1.00002, 1000)] * 5, "up")
    looks = [_look(1.4, 1.40402, 41_000), _look(1.40410, 1.40412, 41_400), _look(1.40420, 1.40824, 41_410)]
    after = moment(looks, "up")
    assert (after.packets, after.octets) == (41_400, 62_100_000)
    assert after.clock_s == pytest.approx(1.40411)
    assert instructions_per_packet(before, after) == pytest.approx(404_100_000 / 40_400)


def test_idle_time_is_no_instruction() -> None:
    before, after = moment([_look(1.0, 1.0, 0)], "up"), moment([_look(1.5, 1.5, 1000, idle_s=7.1)], "up")
    assert instructions_per_packet(before, after) == pytest.approx(400_000)
