# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`diolkos stop`: it waits for the program that it asked, for nobody else, and says what it waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dns64 import Dns64Network
from kernel import remains
from nat64 import Nat64Network
from network import Network, Running
from siit import SiitNetwork
from stateful import left, state
from test_clat_faults import NO_ROOT, RUN_TIME, one_sentence
from test_control import CAPABLE, USER, folder, on_run
from test_tun_owner import OPEN_TO_ALL

# F_OFD_SETLK of a whole file, until the end.
HOLD_LOCK = """
import fcntl, struct, sys
lock = open(sys.argv[1], "w")
fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def squat(siit: SiitNetwork) -> Iterator[Path]:
    """A runtime folder of another user, with a lock that this user holds, for the same device and namespace."""
    own = siit.scratch / "squat"
    place = own / "diolkos" / folder(siit).name
    place.mkdir(parents=True)
    siit.scratch.chmod(0o755)
    for path in (own, own / "diolkos", place):
        path.chmod(0o755)
        os.chown(path, 65534, 65534)
    arguments = (*NO_ROOT, sys.executable, "-c", HOLD_LOCK, str(place / "diolkos0.lock"))
    squatter = siit.start(siit.translator, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert squatter.stdout.readline() == "held\n"
    yield own
    squatter.stdin.close()
    assert squatter.wait() == 0


def test_a_lock_of_another_user(siit: SiitNetwork, squat: Path) -> None:
    """Root with the environment of another user's session: who squats there is neither asked nor waited for."""

    def as_told(*arguments: str) -> tuple[int, str]:
        environment = ("env", f"XDG_RUNTIME_DIR={squat}")
        done = siit.run(siit.translator, *environment, str(siit.program), *arguments, check=False)
        return done.returncode, done.stderr

    ignored = f"{squat}/diolkos/{folder(siit).name} is ignored: it belongs to user 65534"
    code, message = as_told("show", "config")
    assert code == RUN_TIME
    assert ignored in one_sentence(message.strip())
    code, message = as_told("stop")
    assert (code, message.splitlines()[0]) == (0, f"diolkos: warning: {ignored}")
    running = siit.siit()
    assert as_told("show", "config") == (0, "")
    assert as_told("stop") == (0, "")
    assert running.wait() == 0
    assert siit.leftovers() == []


def test_a_runtime_folder_that_is_closed(siit: SiitNetwork) -> None:
    """Another user with the environment of root's session: the folder that is closed is named, and not another one."""
    siit.scratch.chmod(0o755)
    own = siit.scratch / "run"
    own.mkdir(mode=0o700)
    environment = (*on_run("mode=755"), "env", f"XDG_RUNTIME_DIR={own}", *NO_ROOT)
    done = siit.run(siit.translator, *environment, str(siit.program), "show", "config", check=False)
    assert done.returncode == RUN_TIME
    assert f"{own}/diolkos/{folder(siit).name} is ignored: Permission denied" in one_sentence(done.stderr.strip())


# Starts a translator as a service's user, and once it is ready asks it as root to end; then whether it still runs.
AS_SERVICE = """
log=$1; shift
"$@" 2>"$log" &
until grep -qs " ready: " "$log"; do kill -0 $! || { cat "$log"; exit 9; }; sleep 0.05; done
XDG_RUNTIME_DIR=$OWN "$PROGRAM" stop; echo "code $?"
kill -0 $! && echo "it runs" && kill $!
wait
"""


def test_a_service_of_another_user(siit: SiitNetwork) -> None:
    """Root has given that user /run/diolkos. Nobody removes what runs there, and the message says who can end it."""
    siit.scratch.chmod(0o755)
    own = siit.scratch / "run"
    own.mkdir(mode=0o700)
    wrapper = (*on_run(f"mode=755,uid={USER},gid={USER}"), *OPEN_TO_ALL, "env", f"OWN={own}", f"PROGRAM={siit.program}")
    arguments = (str(siit.program), "siit", "--config", str(siit.config), "--datapath", "tun")
    command = (*wrapper, "sh", "-c", AS_SERVICE, "sh", str(siit.scratch / "log-service"), *CAPABLE, *arguments)
    done = siit.run(siit.translator, *command)
    assert f"of user {USER} has the control socket" in one_sentence(done.stderr.strip())
    assert f"run this as user {USER}" in done.stderr
    assert done.stdout == f"code {RUN_TIME}\nit runs\n"


@pytest.fixture(scope="session")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that makes a disk that does not answer; see `held.c`."""
    library = tmp_path_factory.mktemp("held") / "held.so"
    source = Path(__file__).parent / "held.c"
    subprocess.run(["clang", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source], check=True)
    return library


def start_held(nat64: Nat64Network, held: Path) -> tuple[Running, Path]:
    """A translator whose disk answers unless the file that is returned is there."""
    holds = nat64.scratch / "holds"
    arguments = ("nat64", "--config", str(nat64.config), "--datapath", "tun", "--state", str(state(nat64)))
    log = nat64.scratch / "log-held"
    with log.open("w") as sink:
        wrapper = ("env", f"LD_PRELOAD={held}", f"HELD={holds}")
        running = Running(nat64.start(nat64.translator, *wrapper, str(nat64.program), *arguments, stderr=sink), log)
    nat64.until(lambda: " ready: " in running.log() or running.process.poll() is not None)
    assert running.process.poll() is None, running.log()
    return running, holds


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
def test_a_disk_that_does_not_answer(nat64: Nat64Network, held: Path) -> None:
    """Both say what they wait for: `stop` in one line, and the program in its log. Once the disk answers, all is well."""
    running, holds = start_held(nat64, held)
    holds.touch()
    stop = nat64.start(nat64.translator, str(nat64.program), "stop", stderr=subprocess.PIPE, text=True)
    assert f"waiting for process {running.process.pid} to end" in stop.stderr.readline()
    nat64.until(lambda: f"the state file {state(nat64)} is still being written" in running.log())
    holds.unlink()
    assert stop.wait(60) == 0
    assert stop.stderr.read() == ""
    assert running.wait() == 0
    assert left(nat64) == []


@pytest.mark.parametrize("nat64", ["tun"], indirect=True)
@pytest.mark.parametrize("how", ["ends", "is-killed"])
def test_a_successor_starts_at_once(nat64: Nat64Network, held: Path, how: str) -> None:
    """As where something starts the program again: the one that was asked has ended, and that is all that was asked for."""
    running, holds = start_held(nat64, held)
    holds.touch()
    stop = nat64.start(nat64.translator, str(nat64.program), "stop", stderr=subprocess.PIPE, text=True)
    # It writes its state for the last time, of which `stop` waits for the end: from now on without a look in between.
    nat64.until(lambda: "stopped for good" in running.log())
    nat64.until(lambda: state(nat64).with_name("nat64.state.new").exists())
    stop.send_signal(signal.SIGSTOP)
    if how == "is-killed":
        running.process.kill()
    holds.unlink()
    running.wait()
    successor = nat64.nat64()
    stop.send_signal(signal.SIGCONT)
    assert stop.wait(15) == 0
    assert successor.stop() == 0


@pytest.mark.parametrize("how", ["tc", "tun"])
def test_a_clat(net: Network, how: str) -> None:
    """It ends, and leaves nothing."""
    clat = net.clat(how)
    done = net.run(net.client, str(net.program), "stop")
    assert (done.stdout, done.stderr) == ("", "")
    assert clat.wait() == 0
    assert "stopped for good" in clat.log()
    assert remains(net) == []


def test_a_dns64(dns64_network: Dns64Network) -> None:
    """It ends as well."""
    running = dns64_network.dns64()
    dns64_network.run(dns64_network.router, str(dns64_network.program), "stop", "--device", "dns64")
    assert running.wait() == 0
    assert "dns64 stopped for good" in running.log()
