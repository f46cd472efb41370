# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Reading the raw format: both variants, names, and whatever else a file may hold."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from diolkos_lab.analyze import names, raw
from diolkos_lab.faults import UsageFault

OLD = "[[300000, 17], [3000013, 3000014, 17], [3000013, 3000000, 30]]"
NEW = '[[300000, 0], [3000013, 3000014, 100.00003, 46.2, 7.9, "sRhfp"], [3000013, 3000000, 99.99, 47, 4.4, "KbAXX"]]'


def _read(folder: Path, *lines: str | bytes) -> raw.Experiment:
    file = folder / "experiment.txt"
    file.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))
    return raw.read(file)


@pytest.mark.parametrize("line", [OLD, NEW])
def test_both_variants_hold_the_same(tmp_path: Path, line: str) -> None:
    found = _read(tmp_path, line, "", "  ", line.replace("300000, ", "450000, "))
    assert found.rates == [300000, 450000]
    assert found.tx == [[3000013, 3000013]] * 2 and found.rx == [[3000014, 3000000]] * 2
    assert not found.malformed


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[[300000, 17], [3000013, 30000", "not JSON"),  # what a crash leaves
        ("nonsense", "not JSON: Expecting value"),
        (b"\xff\xfe[[1, 2], [3, 4]]", "not UTF-8 text"),
        ("{}", "expected a list that starts with [rate, …]"),
        ("[]", "expected a list"),
        ("[300000, [1, 1]]", "expected a list"),
        ("[[]]", "expected a list"),
        ("[[300000, 4]]", "no trial at 300000 packets/s"),
        ("[[0, 4], [1, 1, 1]]", "the rate is 0, not above zero"),
        ("[[-3, 4], [1, 1, 1]]", "the rate is -3"),
        ("[[NaN, 4], [1, 1, 1]]", "the rate is not a number"),
        ('[["1", 4], [1, 1, 1]]', "the rate is not a number"),
        ("[[true, 4], [1, 1, 1]]", "the rate is not a number"),
        # The newest variant has no counts, only the CPU's load.
        ('[[250000, 4], {"PID": "sRhfp", "duration_sec": 30.0}]', "trial 1 is not a list of tx, rx"),
        ("[[1, 4], [1, 1, 1], [1]]", "trial 2 is not a list of tx, rx"),
        ("[[1, 4], [1, 1, 1], [0, 0, 0]]", "trial 2 sent 0"),
        ("[[1, 4], [1, -1, 1]]", "trial 1 sent 1 and received -1"),
        ("[[1, 4], [1, null, 1]]", "rx of trial 1 is not a number"),
        (f"[[1, 4], [1{'0' * 400}, 1, 1]]", "tx of trial 1 is not a number"),
        (f"[[1, 4], [1{'0' * 5000}, 1, 1]]", "not JSON that a measurement would write"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_malformed_line_is_reported_and_the_others_are_read(tmp_path: Path, line: str | bytes, reason: str) -> None:
    found = _read(tmp_path, OLD, line, NEW)
    assert [entry.line for entry in found.malformed] == [2]
    assert reason in found.malformed[0].reason
    assert found.rates == [300000, 300000]


def test_a_line_longer_than_any_measurement_is_skipped_in_pieces(tmp_path: Path) -> None:
    found = _read(tmp_path, b"[" * (2 * raw.LONGEST + 5), OLD, b"x" * (raw.LONGEST + 1))
    assert [entry.line for entry in found.malformed] == [1, 3]
    assert {entry.reason for entry in found.malformed} == {"longer than 16 MiB"}
    assert found.rates == [300000]


@given(some.lists(some.binary(max_size=60).map(lambda line: line.replace(b"\n", b" ")), max_size=5))
def test_no_bytes_break_the_reader(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = _read(Path(folder), *lines)
    assert len(found.rates) + len(found.malformed) <= len(lines)


json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@given(json_values)
def test_no_json_breaks_the_reader(value: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = _read(Path(folder), json.dumps(value))
    assert len(found.rates) + len(found.malformed) == 1


def test_folders_are_searched_and_files_taken_once(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    first, second, other = tmp_path / "a.txt", tmp_path / "b" / "a.txt", tmp_path / "b" / "notes.md"
    for file in (first, second, other):
        file.write_text(OLD)
    assert raw.find([tmp_path]) == [first, second]
    assert raw.find([other, tmp_path, first]) == [other, first, second]
    (tmp_path / "c").mkdir()
    for wrong in (tmp_path / "c", tmp_path / "nothing.txt"):
        with pytest.raises(UsageFault, match=wrong.name):
            raw.find([wrong])


# ---- names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "clab_raw_50_k6.5_intel_bare-metal_as-is_2nd_exec",
            {"function": "IPv6 routing", "environment": "bare metal", "kernel": "6.5", "pinning": "unpinned", "nic_buffer": 512}
            | {"duration_s": 10, "runs": 50, "site": "CloudLab", "nic": "intel", "execution": 2},
        ),
        (
            "clab_tb1_class_ebpf_raw_30_exp_t_10_k5.15_intel_bare-metal_nic_buf_4096_irq_pf0-4_pf1-6",
            {"function": "eBPF forwarding", "environment": "bare metal", "kernel": "5.15", "pinning": "2 CPUs"}
            | {"nic_buffer": 4096, "duration_s": 10, "runs": 30, "site": "CloudLab", "testbed": "1", "nic": "intel"},
        ),
        (
            "mazinga_raw_50_exp_t_20_k6.8_intel_ns_nic_buf_4096_irq_vf0-33_vf1-33",
            {"function": "IPv6 routing", "environment": "namespaces", "kernel": "6.8", "pinning": "1 CPU", "nic_buffer": 4096}
            | {"duration_s": 20, "runs": 50, "site": "mazinga", "nic": "intel"},
        ),
        (
            "clab_raw_50_k6.8_intel_vm_as-is_4th_exec_after-reboot",
            {"function": "IPv6 routing", "environment": "virtual machine", "kernel": "6.8", "pinning": "unpinned"}
            | {"nic_buffer": 512, "duration_s": 10, "runs": 50, "site": "CloudLab", "nic": "intel", "execution": 4}
            | {"rebooted": True},
        ),
        (
            "clab_tb5_raw_1_exp_t_30_k6.14_intel_bare-metal_nic_buf_4096_irq_pf0-4_pf1-4_date_2025-04-01T08_59-05_00_ver_01",
            {"function": "IPv6 routing", "environment": "bare metal", "kernel": "6.14", "pinning": "1 CPU", "nic_buffer": 4096}
            | {"duration_s": 30, "runs": 1, "site": "CloudLab", "testbed": "5", "nic": "intel"}
            | {"date": "2025-04-01", "version": 1},
        ),
        (
            "clab_tb0_raw_1_exp_t_30_k5.15_intel_bare-metal_nic_buf_4096_irq_pf0-4_pf1-4_date_2025-10-23T03:18_ver_01",
            {"function": "IPv6 routing", "environment": "bare metal", "kernel": "5.15", "pinning": "1 CPU", "nic_buffer": 4096}
            | {"duration_s": 30, "runs": 1, "site": "CloudLab", "testbed": "0", "nic": "intel"}
            | {"date": "2025-10-23", "version": 1},
        ),
    ],
)
def test_factors_from_names(name: str, said: dict) -> None:
    found = names.parse(Path("folder_vm") / f"{name}.txt")
    assert found.unknown == ()
    assert found.factors == {key: said.get(key) for key in names.KEYS}


def test_unknown_parts_are_reported_and_the_known_still_taken() -> None:
    found = names.parse(Path("clab_raw_50_k6.9_arm_vm_fast.txt"))
    assert found.unknown == ("arm", "fast")
    assert (found.factors["kernel"], found.factors["environment"]) == ("6.9", "virtual machine")


def test_a_name_of_another_scheme_says_nothing() -> None:
    found = names.parse(Path("my measurement.txt"))
    assert found.unknown == ("my measurement",) and not any(found.factors.values())
    assert names.title(found.factors) == ""


def test_experiments_that_stand_together_are_called_by_what_differs() -> None:
    called = ["clab_tb1_raw_50_k6.5_intel_vm_as-is", "clab_tb2_raw_50_k6.5_intel_vm_nic_buf_4096"]
    factors = [names.parse(Path(name)).factors for name in called]
    assert names.differences(factors) == ["ring 512, CloudLab testbed 1", "ring 4096, CloudLab testbed 2"]
    assert names.differences(factors[:1] * 2) == ["", ""]


@given(some.text(alphabet="abk_0123456789.-:irqpfdatevnsm", max_size=40))
def test_no_name_breaks_the_parser(name: str) -> None:
    found = names.parse(Path(f"{name}_.txt"))
    assert set(found.factors) == set(names.KEYS)
    assert all(part in name for part in found.unknown)
