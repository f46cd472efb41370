# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Names and objects as loads, with the real tools: they work, and what answers wrongly becomes part of the record."""

from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import run_study
from diolkos_lab.faults import MissingFault
from diolkos_lab.load import names
from diolkos_lab.samples import folder
from diolkos_lab.sut import lookup, running
from observer import Silent

HERE = Path(__file__).parent
STUDY = str(HERE / "study_names.toml")
pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("clean_machine"),
    pytest.mark.skipif(
        any(lookup.program(tool, None, None) is None for tool in ("unbound", "nginx", "curl", "dnsperf", "tayga")),
        reason="`make setup` installs unbound, nginx, curl, dnsperf and Tayga",
    ),
]


def _run(tmp_path: Path, only: tuple[str, ...] = ()) -> tuple[folder.Result, dict[str, Any]]:
    paths = {"diolkos": str(HERE / "doubles" / "another_prefix")}
    return run_study.run(run_study.RunRequest(STUDY, True, only, tmp_path / "r", 1, paths), Silent())


def _texts() -> list[str]:
    return [file.read_text() for file in (names.RESOLV_CONF, names.NSSWITCH) if file.exists()]


def test_objects_are_fetched_and_names_answered_by_every_path(tmp_path: Path) -> None:
    before = _texts()
    result, summary = _run(tmp_path)
    assert [trial["error"] for trial in result.trials if trial["error"]] == []
    assert [trial["distrust"] for trial in result.trials if trial["distrust"]] == []
    assert len(result.trials) == 2 * (5 + 3 + 2 + 2)
    rows = {(row["system"], row["load"], row.get("by") or row.get("cache"), row["metric"]): row for row in summary["rows"]}
    for system in ("native", "tayga"):
        assert rows[system, "http", "literal", "latency"]["unit"] == "s"
        assert rows[system, "http", "name", "throughput"]["unit"] == "bit/s"
        by_name = rows[system, "http", "name", "lookup"]["median"]
        assert by_name > 0, "a name that nobody asked for before has to be looked up"
    for system in ("native", "unbound", "diolkos"):
        assert rows[system, "dns", "cold", "latency"]["median"] > 0
        assert rows[system, "dns", "warm", "rate"]["unit"] == "1/s"
    assert rows["unbound", "dns", "warm", "rate"]["baseline"] == "native/kernel/ipv6/1"
    assert _texts() == before, "the host's own files"


def test_answers_that_are_wrong_fail_their_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFIX", "2001:db8:64::/96")
    result, summary = _run(tmp_path, ("diolkos",))
    failed = [trial for trial in result.trials if trial["system"] == "diolkos"]
    assert failed and all("answers hold another address than they should" in trial["error"] for trial in failed)
    native = [trial for trial in result.trials if trial["system"] == "native"]
    assert all(trial["valid"] for trial in native), [trial["distrust"] for trial in native]
    assert "another address" in summary["failures"][0]["reason"]


def test_fetches_that_take_another_path_are_distrusted_by_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should IPv6 arrive behind the substitute, then what really does, IPv4, is the wrong path."""
    monkeypatch.setattr(running.RunningSystem, "server_family", property(lambda _: "ipv6"))
    result, _ = _run(tmp_path, ("tayga",))
    fetched = [trial for trial in result.trials if trial["system"] == "tayga"]
    assert {trial["factors"]["by"] for trial in fetched} == {"literal", "name"}
    assert [trial["error"] for trial in fetched if trial["error"]] == []
    for trial in fetched:
        assert [entry["guard"] for entry in trial["distrust"]] == ["wrong-path"]
        assert "of the traffic reached the server as ipv6" in trial["distrust"][0]["detail"]


def test_without_a_tool_or_a_resolver_the_study_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = lookup.program

    def without(missing: str) -> None:
        monkeypatch.setattr(lookup, "program", lambda name, *given: None if name == missing else program(name, *given))

    for tool, how in (("nginx", "nginx-light"), ("dnsperf", "dnsperf"), ("unbound", "unbound"), ("curl", "curl")):
        without(tool)
        with pytest.raises(MissingFault, match=f"the tool {tool} is not on this host: apt-get install {how}"):
            _run(tmp_path, ("tayga",))
    assert not (tmp_path / "r").exists()
