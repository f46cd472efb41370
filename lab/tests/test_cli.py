# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The program as a user meets it: one sentence per fault, the right exit code, a clean machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diolkos_lab.topology import namespace

HERE = Path(__file__).parent
SMALL = HERE / "study_small.toml"
LAB = [sys.executable, "-m", "diolkos_lab"]


def _lab(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAB, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment}
    )


def _one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert not done.stdout.strip()
    assert lines[0].startswith("diolkos-lab: ")
    return lines[0]


def test_usage_faults_exit_2(tmp_path: Path) -> None:
    assert "no study is called nothing" in _one_sentence(done := _lab("run", "nothing"))
    assert done.returncode == 2
    assert "--only foo: not a system of the study clat" in _one_sentence(done := _lab("run", "clat", "--only", "foo"))
    assert done.returncode == 2
    assert "expected SYSTEM=PATH" in _one_sentence(done := _lab("run", "clat", "--path", "tayga"))
    assert done.returncode == 2
    assert "named by the command line for diolkos, but it is not a program" in _one_sentence(
        done := _lab("run", "clat", "--diolkos", tmp_path / "nothing")
    )
    assert done.returncode == 2
    for form, others in (("quick", "--form full is another"), ("", "has no never form: run it with --quick")):
        options = [*(["--quick"] if form else []), "--form", "full" if form else "never"]
        assert others in _one_sentence(done := _lab("run", SMALL, "--diolkos", sys.executable, *options))
        assert done.returncode == 2
    assert "has no full form: run it with --quick" in _one_sentence(done := _lab("run", SMALL, "--diolkos", sys.executable))
    assert done.returncode == 2
    assert _lab("bogus").returncode == 2
    assert "not a result folder" in _one_sentence(done := _lab("report", tmp_path))
    assert done.returncode == 2


def test_a_malformed_study_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(SMALL.read_text().replace("blocks = 2", "blocks = two"))
    line = SMALL.read_text().splitlines().index("blocks = 2") + 1
    done = _lab("run", file)
    assert _one_sentence(done).startswith(f"diolkos-lab: {file}:{line}:10: ")
    assert done.returncode == 2


def test_not_root_exits_3(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        program = (
            "import os, sys, scipy.stats, rich.progress\n"
            "from diolkos_lab import cli, run_study, screen, summary\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            f"sys.argv = ['diolkos-lab', 'run', {str(SMALL)!r}, '--quick', '--out', {str(tmp_path / 'r')!r}]; cli.main()"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd="/")
    else:
        done = _lab("run", SMALL, "--quick")
    assert "needs root: run it again with sudo" in _one_sentence(done)
    assert done.returncode == 3


@pytest.mark.root
@pytest.mark.parametrize("tool", ["iperf3", "ping"])
def test_a_missing_tool_exits_3_and_says_how_to_get_it(tmp_path: Path, tool: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {"iperf3", "ping", "nsenter", "setpriv", "taskset", "tayga", "nft"} - {tool}:
        (folder / name).symlink_to(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "/nowhere")
    done = _lab("run", SMALL, "--quick", "--out", tmp_path / "r", PATH=str(folder))
    assert f"the tool {tool} is not on this host: apt-get install " in _one_sentence(done)
    assert done.returncode == 3
    assert not (tmp_path / "r").exists()


def _started(tmp_path: Path) -> subprocess.Popen[str]:
    """A run that has made its first trials."""
    study = tmp_path / "long.toml"
    study.write_text(SMALL.read_text().replace("blocks = 2", "blocks = 1000"))
    double = HERE / "doubles" / "working"
    command = [*LAB, "run", str(study), "--quick", "--out", str(tmp_path / "r"), "--diolkos", str(double)]
    lab = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    samples = tmp_path / "r" / "samples.jsonl"
    deadline = time.monotonic() + 60
    while not samples.exists() or len(samples.read_text().splitlines()) < 3:
        assert lab.poll() is None and time.monotonic() < deadline, lab.communicate()
        time.sleep(0.05)
    return lab


def _namespaces_of(pid: int) -> set[str]:
    found = set()
    for name in os.listdir(namespace.DIRECTORY):
        owner = namespace.owner_in_name(name)
        if owner and owner.pid == pid:
            found.add(name)
    return found


@pytest.mark.root
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_everything_and_keeps_the_samples(tmp_path: Path, number: signal.Signals, code: int) -> None:
    lab = _started(tmp_path)
    names = _namespaces_of(lab.pid)
    assert names
    inside = namespace.processes_inside(names)
    assert inside
    os.killpg(lab.pid, number)  # as the terminal does: to the whole group
    output, errors = lab.communicate(timeout=30)
    assert lab.returncode == code
    assert len(errors.strip().splitlines()) == 1 and f"are kept in {tmp_path / 'r'}" in errors
    assert "Traceback" not in output + errors
    assert not _namespaces_of(lab.pid)
    assert not any(namespace.Owner.of(pid) for pid in inside)
    done = _lab("report", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["rows"] is not None


@pytest.mark.root
@pytest.mark.alone  # other runs, when they begin, remove what the dead have left, too
def test_after_sigkill_clean_removes_what_was_left(tmp_path: Path) -> None:
    lab = _started(tmp_path)
    names = _namespaces_of(lab.pid)
    assert names
    lab.kill()
    lab.communicate()
    assert _namespaces_of(lab.pid) == names, "nobody could clean up"
    done = _lab("clean")
    assert done.returncode == 0 and done.stdout.startswith("Removed ")
    assert not _namespaces_of(lab.pid)
    assert not list(Path("/tmp").glob(f"dklab-{lab.pid}-*"))
    samples = (tmp_path / "r" / "samples.jsonl").read_text().splitlines()
    assert len(samples) >= 3 and all(json.loads(line) for line in samples[:-1])


def test_list_shows_what_is_missing_and_how_to_get_it() -> None:
    done = _lab("list", COLUMNS="300")  # so that no sentence is broken
    assert "clat" in done.stdout and "tundra" in done.stdout
    assert "name it with --path tundra=PATH" in done.stdout
    assert done.returncode == 0


def _is_busy(done: subprocess.CompletedProcess[str]) -> bool:
    """Tests run on hosts that are not fit to measure at that moment."""
    return done.returncode == 1 and "this host is not fit to measure now: other programs use" in done.stderr


@pytest.mark.root
def test_doctor_judges_this_host() -> None:
    done = _lab("doctor")
    assert done.returncode == 0 or _is_busy(done), done.stderr
    for subject in ("root", "iperf3", "clocksource", "other programs", "steal"):
        assert f" {subject}: " in done.stdout
    for subject in ("packet generator", "fast path of diolkos siit", "fast path of diolkos nat64"):
        assert f" {subject}: works here, tried" in " ".join(done.stdout.split())


@pytest.mark.root
def test_doctor_says_what_the_kernel_does_not_take(tmp_path: Path) -> None:
    """A program that fails as one does whose BPF programs are refused."""
    refused = tmp_path / "diolkos-pktgen"
    refused.write_text(
        "#!/bin/sh\necho 'diolkos-pktgen: the verifier refuses pktgen_sink: R4 min value is negative' >&2\nexit 3\n"
    )
    refused.chmod(0o755)
    done = _lab("doctor", DIOLKOS_PKTGEN=str(refused))
    assert done.returncode == 0 or _is_busy(done), done.stderr
    assert "packet generator: does not work here: diolkos-pktgen: the verifier refuses pktgen_sink" in " ".join(
        done.stdout.split()
    )


def test_version_and_help() -> None:
    assert _lab("--version").stdout.startswith("diolkos-lab ")
    for command in ("list", "run", "report", "compare", "doctor", "clean"):
        assert command in _lab("--help").stdout
