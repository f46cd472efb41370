# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The control socket: nobody else takes its place, and whoever asks has an answer in the end, be it that there is none."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dns64 import Dns64Network
from kernel import remains
from nat64 import Nat64Network
from network import Network, Running
from siit import CONFIG as SIIT_CONFIG
from siit import SiitNetwork
from test_clat_faults import MISSING, NO_ROOT, RUN_TIME, USAGE, one_sentence
from test_dns64_faults import NOBODY
from test_tun_owner import OPEN_QUEUE, OPEN_TO_ALL

RUN = Path("/run/diolkos")
# Others find out by themselves: a user without a name, who has capabilities all the same.
USER = 12345
CAPABLE = (
    *("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"),
    *("--inh-caps", "-all,+net_admin,+net_raw", "--ambient-caps", "-all,+net_admin,+net_raw"),
)


def on_run(options: str) -> tuple[str, ...]:
    """A wrapper that has another file system in place of /run/diolkos."""
    mount = f"mount --make-rprivate / && mkdir -p {RUN} && mount -t tmpfs -o {options} none {RUN}"
    return ("unshare", "--mount", "--propagation", "unchanged", "sh", "-c", f'{mount} && exec "$0" "$@"')


def folder(net: Network) -> Path:
    """Where the instances of the router's namespace are."""
    code = "import socket\ns = socket.socket()\nprint(int.from_bytes(s.getsockopt(1, 71, 8), 'little'))"
    return RUN / net.run(net.router, sys.executable, "-c", code).stdout.strip()


# --- other users

SQUATTER = """
import socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0diolkos/diolkos0")
listener.listen(0)
waiting = []
try:
    while True:
        waiting.append(socket.socket(socket.AF_UNIX))
        waiting[-1].setblocking(False)
        waiting[-1].connect("\\0diolkos/diolkos0")
except BlockingIOError:
    print("full", flush=True)
input()
"""


def test_another_user_holds_up_nobody(net: Network) -> None:
    """An abstract name is anybody's, and so is not used: who binds it and accepts nobody is in nobody's way."""
    arguments = (*NO_ROOT, sys.executable, "-c", SQUATTER)
    squatter = net.start(net.client, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert squatter.stdout.readline() == "full\n"
    code, message = net.refused("show", "config")
    assert code == RUN_TIME
    assert "no diolkos runs in this network namespace" in one_sentence(message)
    assert net.refused("stop")[0] == 0
    clat = net.clat("tc")
    assert net.counters()
    assert clat.stop() == 0
    assert remains(net) == []


def test_other_users_cannot_enter(siit: SiitNetwork) -> None:
    """The folder is closed, so that nobody fills the queue or puts a socket there."""
    siit.siit()
    for path in (folder(siit), folder(siit) / "diolkos0.sock"):
        status = path.stat()
        assert (status.st_uid, status.st_mode & 0o077) == (0, 0), path
    done = siit.run(siit.translator, *NO_ROOT, str(siit.program), "show", "counters", check=False)
    assert done.returncode == MISSING
    assert "run this as root" in one_sentence(done.stderr.strip())


# --- what is left, and what is not


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_files_go_with_the_program(siit: SiitNetwork, how: signal.Signals) -> None:
    """At the end, or with the next start, which a killed one does not keep from starting."""
    running = siit.siit()
    assert {path.name for path in folder(siit).iterdir()} == {"diolkos0.lock", "diolkos0.sock", "diolkos0.forwarding"}
    running.stop(how)
    assert folder(siit).exists() == (how == signal.SIGKILL)
    code, message = siit.diolkos("show", "config")
    assert code == RUN_TIME
    assert "no diolkos runs" in one_sentence(message)
    assert siit.siit().stop() == 0
    assert not folder(siit).exists()


@pytest.fixture
def occupied(siit: SiitNetwork) -> Iterator[socket.socket]:
    """A socket of root's in the place of the control socket, with a full queue."""
    path = str(folder(siit) / "diolkos0.sock")
    listener = socket.socket(socket.AF_UNIX)

    def bound() -> bool:
        """A diolkos of another test that starts in between removes the folder while it is empty."""
        folder(siit).mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            listener.bind(path)
        except FileNotFoundError:
            return False
        return True

    siit.until(bound)
    listener.listen(0)
    waiting = []
    try:
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].setblocking(False)
            waiting[-1].connect(path)
    except BlockingIOError:
        yield listener
    shutil.rmtree(folder(siit), ignore_errors=True)


def test_a_socket_is_in_its_place(siit: SiitNetwork, occupied: socket.socket) -> None:
    """Nobody runs without the lock, whoever listens; the next start replaces the socket."""
    assert occupied.fileno() >= 0
    code, message = siit.diolkos("show", "config")
    assert code == RUN_TIME
    assert "no diolkos runs" in one_sentence(message)
    siit.siit()
    assert siit.diolkos("show", "config")[0] == 0


def test_another_one_starts(siit: SiitNetwork) -> None:
    """It names the one that runs, even if that one does not answer."""
    running = siit.siit()
    running.process.send_signal(signal.SIGSTOP)
    code, message = siit.diolkos("siit", "--config", str(siit.config))
    assert code == RUN_TIME
    assert f"another diolkos (process {running.process.pid}) already runs" in one_sentence(message)
    code, message = siit.diolkos("show", "config")
    assert code == RUN_TIME
    assert "is busy and has not answered in time" in one_sentence(message)
    running.process.send_signal(signal.SIGCONT)
    assert siit.diolkos("show", "config")[0] == 0


def test_leftovers_of_other_namespaces(siit: SiitNetwork) -> None:
    """What a killed one left in a namespace that is gone: its socket and its lock, if nobody has that."""
    gone = RUN / "1"
    gone.mkdir(parents=True, mode=0o700, exist_ok=True)
    for name in ("x.lock", "x.sock"):
        (gone / name).touch()
    siit.siit()
    assert not gone.exists()


# --- askers


def test_a_request_without_asker(nat64: Nat64Network) -> None:
    """Who has gone without an answer has been told that nothing was done, and nothing is."""
    running = nat64.nat64()
    running.process.send_signal(signal.SIGSTOP)
    code, message = nat64.diolkos("stop")
    assert code == RUN_TIME
    assert "is busy and has not answered in time" in one_sentence(message)
    running.process.send_signal(signal.SIGCONT)
    assert nat64.shown("bindings") == []
    assert running.process.poll() is None


def test_slow_askers(siit: SiitNetwork) -> None:
    """Some say nothing, some half a request, some read nothing: others have their answers meanwhile."""
    running = siit.siit()
    sockets = []
    call = b'{"method":"org.diolkos.Translator.Counters"}\0'
    for said in (b"", call[:20], call) * 4:
        asker = socket.socket(socket.AF_UNIX)
        asker.connect(str(folder(siit) / "diolkos0.sock"))
        asker.sendall(said)
        sockets.append(asker)
    assert siit.diolkos("show", "config")[0] == 0
    assert siit.diolkos("reload")[0] == 0
    assert running.stop() == 0
    for asker in sockets:
        asker.close()


# --- where there is no such folder


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("ro,mode=700", "Read-only file system"),
        (f"mode=700,uid={USER}", f"it belongs to user {USER}"),
        ("mode=777", "other users can write to it"),
    ],
    ids=["read-only", "of-another-user", "open"],
)
def test_a_folder_that_is_of_no_use(siit: SiitNetwork, options: str, words: str) -> None:
    """It is named as the cause, with what to do."""
    arguments = (str(siit.program), "siit", "--config", str(siit.config), "--datapath", "tun")
    done = siit.run(siit.translator, *on_run(options), "env", "-u", "XDG_RUNTIME_DIR", *arguments, check=False)
    assert done.returncode == MISSING, done.stderr
    message = one_sentence(done.stderr.strip())
    for word in (str(RUN), words, "RuntimeDirectory=diolkos"):
        assert word in message
    assert siit.leftovers() == []


@pytest.fixture
def home(siit: SiitNetwork) -> Path:
    """A folder of the user's own, and a configuration that this user can read."""
    own = siit.scratch / "run"
    own.mkdir(mode=0o700)
    os.chown(own, USER, USER)
    siit.scratch.chmod(0o755)
    siit.configure(SIIT_CONFIG)
    return own


def test_without_root(siit: SiitNetwork, home: Path) -> None:
    """A user with CAP_NET_ADMIN has a socket of his own; without the capability he cannot open the device."""
    before = siit.forwarding()
    arguments = (str(siit.program), "siit", "--config", str(siit.config), "--datapath", "tun")
    as_user = ("env", f"XDG_RUNTIME_DIR={home}")
    refused = siit.run(siit.translator, *OPEN_TO_ALL, "env", "-u", "XDG_RUNTIME_DIR", *CAPABLE, *arguments, check=False)
    assert refused.returncode == MISSING, refused.stderr
    assert "set XDG_RUNTIME_DIR to a folder of this user" in one_sentence(refused.stderr.strip())
    closed = tuple(part.replace("-m 666", "-m 600") for part in OPEN_TO_ALL)
    refused = siit.run(siit.translator, *closed, *as_user, *CAPABLE, *arguments, check=False)
    assert refused.returncode == MISSING, refused.stderr
    assert "no permission to open /dev/net/tun" in one_sentence(refused.stderr.splitlines()[-1])
    log = siit.scratch / "log-user"
    with log.open("w") as sink:
        running = Running(siit.start(siit.translator, *OPEN_TO_ALL, *as_user, *CAPABLE, *arguments, stderr=sink), log)
    siit.until(lambda: " ready: " in running.log() or running.process.poll() is not None)
    assert running.process.poll() is None, running.log()
    incapable = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups")
    shown = siit.run(siit.translator, *as_user, *incapable, str(siit.program), "show", "config")
    assert 'mode = "siit"' in shown.stdout
    script = (sys.executable, "-c", OPEN_QUEUE, "diolkos0")
    done = siit.run(siit.translator, *OPEN_TO_ALL, *incapable, *script, check=False, input="")
    assert done.stderr.strip() == "EPERM"
    assert siit.forwarding() != before
    assert running.stop() == 0
    assert siit.forwarding() == before
    assert list(home.iterdir()) == []


def test_a_dns64_can_do_without(dns64_network: Dns64Network) -> None:
    """It needs no privileges, and so may have no folder; it says what that costs."""
    running = dns64_network.dns64("--listen", "[::]:5353", wrapper=("env", "-u", "XDG_RUNTIME_DIR", *NOBODY))
    assert "`diolkos show --device dns64` will not find this program" in running.log()
    assert running.stop() == 0


# --- causes


@pytest.mark.parametrize("limit", [6, 9, 24, 64])
def test_few_open_files(siit: SiitNetwork, limit: int) -> None:
    """The limit is the cause, whatever would fail for it."""
    limited = ("sh", "-c", f'ulimit -n {limit} && exec "$0" "$@"')
    done = siit.run(siit.translator, *limited, str(siit.program), "siit", "--config", str(siit.config), check=False)
    assert done.returncode == MISSING
    message = one_sentence(done.stderr.strip())
    assert f"the limit of open files is {limit}" in message
    assert "ulimit -n" in message


@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("mode", ["siit", "nat64"])
def test_a_limit_that_is_lowered_while_it_runs(request: pytest.FixtureRequest, mode: str, more: int) -> None:
    """A reload names the limit as its cause, and how to raise it. Once it is raised, the reload succeeds."""
    network = request.getfixturevalue(mode)
    running = network.siit("--datapath", "tc", command=mode)
    pid = running.process.pid
    # The connection that asks takes one. The configuration file is closed before any program is loaded.
    limit = max(int(file.name) for file in Path(f"/proc/{pid}/fd").iterdir()) + 3 + more
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    if mode == "nat64":
        # Its programs are loaded again only if they know something of the change.
        network.config.write_text(network.config.read_text() + '[[nat64.pool4]]\naddress = "203.0.113.77"\n')
    code, message = network.diolkos("reload")
    assert code == RUN_TIME
    assert f"the limit of open files is {limit}, and all of them are open" in one_sentence(message)
    assert f"prlimit --pid {pid} --nofile=" in message
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert network.diolkos("reload") == (0, "")
    assert running.stop() == 0


def test_a_limit_that_can_be_raised_is_raised(siit: SiitNetwork) -> None:
    """A soft limit is the process's own to raise."""
    log = siit.scratch / "log-limited"
    with log.open("w") as sink:
        arguments = ("sh", "-c", 'ulimit -Sn 12 && exec "$0" "$@"', str(siit.program), "siit", "--config", str(siit.config))
        running = Running(siit.start(siit.translator, *arguments, stderr=sink), log)
    siit.until(lambda: " ready: " in running.log() or running.process.poll() is not None)
    assert running.process.poll() is None, running.log()


def test_without_the_capability_to_follow_pointers(nat64: Nat64Network) -> None:
    """CAP_BPF alone does not load a NAT64: what is missing is named."""
    lessened = ("setpriv", "--bounding-set", "-sys_admin,-perfmon", "--inh-caps", "-sys_admin,-perfmon")
    arguments = ("nat64", "--config", str(nat64.config), "--datapath", "tc")
    done = nat64.run(nat64.translator, *lessened, str(nat64.program), *arguments, check=False)
    assert done.returncode == MISSING
    assert "CAP_PERFMON is missing" in one_sentence(done.stderr.splitlines()[-1])
    assert nat64.leftovers() == []


def test_an_uplink_that_is_renamed(net: Network) -> None:
    """Its settings are put back where they are now."""
    find = "grep -H . $(find /proc/sys/net/ipv6/conf -name '*forwarding' -o -name accept_ra)"

    def settings() -> dict[str, str]:
        lines = net.run(net.client, "sh", "-c", find).stdout.split()
        return {p.replace("/up0/", "/wan0/"): v for p, v in (line.split(":", 1) for line in lines) if "diolkos" not in p}

    before = settings()
    clat = net.clat("tun")
    assert settings() != before
    net.ip(net.client, "link", "set", "wan0", "name", "up0")
    clat.stop()
    assert "up0" in net.ip(net.client, "link")
    assert settings() == before


def test_several_mistakes(siit: SiitNetwork) -> None:
    """One line each, and each line says whose it is."""
    siit.configure('[translator]\nmode = "siit"\nqueues = 65\ndatapath = "tun"\nplacement = "inline"\n')
    code, message = siit.diolkos("check", str(siit.config))
    assert code == USAGE
    lines = message.splitlines()
    assert len(lines) > 1, message
    for line in lines:
        assert line.startswith(f"diolkos: {siit.config}:"), message
