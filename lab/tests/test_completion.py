# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Completion as a user has it: real shells at a terminal, keys typed, and the command line that comes of them."""

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diolkos_lab import completion
from diolkos_lab.sut import definition

# Stands for the program: it completes as the real one does, and writes down what it is called with.
PROGRAM = """#!/bin/sh
if [ -n "$_DIOLKOS_LAB_COMPLETE" ]; then
    exec {python} -c 'import sys; from diolkos_lab.cli import main; sys.argv[0] = "diolkos-lab"; main()'
fi
for word; do printf '%s\\n' "$word" >>{said}; done
"""
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "set +o history; bind 'set bell-style none'; source {script}"),
    "zsh": (["zsh", "-f", "-i"], "unset HISTFILE; autoload -Uz compinit; compinit -D -u; source {script}"),
    "fish": (["fish", "--no-config", "--interactive"], "source {script}"),
}
SAMPLES = "samples.jsonl"
LONGEST_S = 60  # without a word


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with results, and with other things that are not."""
    folder = tmp_path / "home"
    for name in ("results/clat-monday/pictures", "results/other", "with space", "empty"):
        (folder / name).mkdir(parents=True)
    for name in ("results/clat-monday", "with space"):
        (folder / name / SAMPLES).touch()
    # Under a name that no study of the lab begins with.
    (folder / "zz-mine.toml").touch()
    (folder / "mine.txt").touch()
    return folder


def _typed(shell: str, home: Path, keys: str) -> list[str]:
    """The words of the command that a user gets who types these keys and Enter."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not on this host")
    folder = home.parent
    said, program, script = folder / "said", folder / "bin" / "diolkos-lab", folder / "script"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM.format(python=sys.executable, said=said))
    program.chmod(0o755)
    script.write_text(completion.script(shell))
    said.unlink(missing_ok=True)
    command, prepare = SHELLS[shell]
    environment = {**os.environ, "HOME": str(home), "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb"}
    ours, theirs = pty.openpty()
    at_terminal = ["setsid", "--ctty", "--wait", *command]
    with subprocess.Popen(at_terminal, stdin=theirs, stdout=theirs, stderr=theirs, cwd=home, env=environment) as running:
        os.close(theirs)
        os.write(ours, f"{prepare.format(script=script)}\ndiolkos-lab {keys}\nexit\n".encode())
        try:
            shown = _until_it_ends(ours, running)
        finally:
            os.close(ours)
            running.wait(LONGEST_S)
    assert said.exists(), shown.decode()
    return said.read_text().splitlines()


def _until_it_ends(terminal: int, running: subprocess.Popen[bytes]) -> bytes:
    """What the shell shows. One that waits for ever is killed, and the test fails with what it showed."""
    shown = b""
    while select.select([terminal], [], [], LONGEST_S)[0]:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the shell has ended
            return shown
        if not part:
            return shown
        shown += part
    running.kill()
    raise AssertionError(
        f"the shell has shown nothing for {LONGEST_S} s and does not end; before: {shown.decode(errors='replace')}"
    )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("schem\t", ["schema"]),
        ("run many\t", ["run", "many-sessions"]),
        ("run zz-\t", ["run", "zz-mine.toml"]),
        ("run clat --only tayg\t", ["run", "clat", "--only", "tayga"]),
        ("run siit --path tund\t/opt/tundra", ["run", "siit", "--path", "tundra=/opt/tundra"]),
        ("report re\tcl\t", ["report", "results/clat-monday"]),
        ("report with\t", ["report", "with space"]),
        ("compare with\t re\tcl\t --js\t", ["compare", "with space", "results/clat-monday", "--json"]),
        ("analyze --rule hyst\t mine.tx\t", ["analyze", "--rule", "hysteresis", "mine.txt"]),
        ("completion zs\t", ["completion", "zsh"]),
    ],
)
def test_a_shell_completes(shell: str, keys: str, words: list[str], home: Path) -> None:
    assert _typed(shell, home, keys) == words


def test_a_shell_that_waits_for_ever_fails_its_test(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHELLS, "bash", (SHELLS["bash"][0], "source {script}; exec cat"))
    monkeypatch.setattr(sys.modules[__name__], "LONGEST_S", 2)
    with pytest.raises(AssertionError, match="does not end"):
        _typed("bash", home, "schem\t")


def test_a_home_stays_one(home: Path) -> None:
    assert _typed("bash", home, "report ~/re\tcl\t") == ["report", str(home / "results/clat-monday")]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["$(touch pwned)", "\\$(touch pwned)", "`touch pwned`", "a;touch pwned", "'; touch pwned; '"])
def test_no_name_of_a_file_is_run(shell: str, name: str, home: Path) -> None:
    (home / "evil" / name).mkdir(parents=True)
    (home / "evil" / name / SAMPLES).touch()
    assert _typed(shell, home, "report evil/\t") == ["report", f"evil/{name}"]
    assert not (home / "pwned").exists()


def test_candidates_are_those_of_the_lab(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert completion.result("") == ["empty/", "results/", "with space"]
    assert completion.result("results/") == ["results/clat-monday", "results/other/"]
    assert completion.result("nowhere/") == [] == completion.result("~nobody-of-that-name/")
    assert {"clat", "siit", "failover", "zz-mine.toml"} <= set(completion.study("")) and "mine.txt" not in completion.study("")
    assert completion.program("") == [f"{name}=" for name in definition.load_all()]
    (home / "line\nbreak").mkdir()
    assert completion.result("line") == [], "a line holds one candidate"


def test_behind_an_option_stands_what_the_study_has(home: Path) -> None:
    (home / "systems").mkdir()
    (home / "systems" / "mine.toml").write_text('system = "mine"\ntitle = "Mine"\n[datapath.x]\n')

    def candidates(*words: str) -> set[str]:
        environment = {**os.environ, "COMP_WORDS": "\n".join(("diolkos-lab", *words)), "COMP_CWORD": str(len(words))}
        environment["_DIOLKOS_LAB_COMPLETE"] = "complete_bash"
        program = 'import sys; from diolkos_lab.cli import main; sys.argv[0] = "diolkos-lab"; main()'
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, cwd=home, capture_output=True, text=True, check=False, timeout=60
        )
        return set(done.stdout.splitlines())

    assert {"tayga", "masquerade", "ping"} <= (of_study := candidates("run", "nat64", "--only", ""))
    assert not {"tundra", "limiter", "mine"} & of_study
    assert "mine" in candidates("run", "nat64", "--systems", "systems", "--only", "")
    assert candidates("run", "nat64", "--systems", "nowhere", "--only", "tay") == {"tayga"}
    assert {"clocksources"} == candidates("run", "clat", "--form", "clock")


def test_a_shell_without_a_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "diolkos_lab", "completion", "tcsh"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2 and not done.stdout
    assert done.stderr == 'diolkos-lab: completion: no script for the shell "tcsh"; there are bash, zsh, fish\n'


def test_the_script_of_bash_is_sound() -> None:
    """Also where names of the shell are stricter than usual."""
    done = subprocess.run(
        ["bash", "-n"], input=completion.script("bash"), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), shlex.quote(done.stderr)
