# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Who may ask a running program: real users of this host's kernel, in the group of readers, beside it, and hostile ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import varlink
from nat64 import CONFIG as NAT64_CONFIG
from nat64 import Nat64Network
from network import Network
from siit import CONFIG as SIIT_CONFIG
from siit import SiitNetwork
from test_clat_faults import MISSING, RUN_TIME, USAGE, one_sentence
from test_varlink import path

# Neither has a name: the kernel decides by numbers.
GROUP, USER, OTHER = "54321", "54322", "54323"
CONTROL = f'\n[control]\ngroup = "{GROUP}"\n'
SIIT = SIIT_CONFIG + CONTROL
NAT64 = NAT64_CONFIG + CONTROL


def user(uid: str, gid: str, *supplementary: str) -> tuple[str, ...]:
    """A wrapper that makes a command this user's, without any capability."""
    groups = ("--groups", ",".join(supplementary)) if supplementary else ("--clear-groups",)
    return ("setpriv", "--reuid", uid, "--regid", gid, *groups, "--inh-caps=-all", "--bounding-set=-all")


MEMBERS = {"primary": user(USER, GROUP), "supplementary": user(USER, OTHER, *map(str, range(70000, 70100)), GROUP)}


def asked(net: Network, who: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess:
    """What this user is told."""
    return net.run(net.router, *who, str(net.program), *arguments, check=False)


CALLS = """
import json, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
for method in sys.argv[2:]:
    parameters = {}
    if ":" in method:
        method, text = method.split(":", 1)
        parameters = json.loads(text)
    connection.sendall(json.dumps({"method": method, "parameters": parameters}).encode() + b"\\0")
    reply = b""
    while not reply.endswith(b"\\0"):
        part = connection.recv(65536)
        assert part, "it is closed"
        reply += part
    print(json.loads(reply[:-1]).get("error", "done"))
"""


def called(net: Network, who: tuple[str, ...], at: str, *methods: str) -> list[str]:
    """What becomes of calls of this user: `done`, or the error."""
    done = net.run(net.router, *who, sys.executable, "-c", CALLS, at, *methods)
    return done.stdout.split()


@pytest.mark.parametrize("how", MEMBERS)
def test_a_member_reads(siit: SiitNetwork, how: str) -> None:
    """By the program's own commands, and without root."""
    siit.configure(SIIT)
    siit.siit()
    member = MEMBERS[how]
    status = json.loads(asked(siit, member, "show", "status", "--json").stdout)
    assert (status["mode"], status["state"]) == ("siit", "ready")
    assert "slow.translated_4to6" in asked(siit, member, "show", "counters", "--all").stdout
    assert f'group = "{GROUP}"' in asked(siit, member, "show", "config").stdout
    assert asked(siit, member, "show", "socket").stdout.strip() == path(siit)
    follower = siit.start(siit.router, *member, str(siit.program), "follow", "--json", stdout=subprocess.PIPE, text=True)
    assert json.loads(follower.stdout.readline())["reloads"] == 0
    assert siit.diolkos("reload")[0] == 0
    assert json.loads(follower.stdout.readline())["reloads"] == 1


@pytest.mark.parametrize("how", MEMBERS)
def test_a_member_changes_nothing(nat64: Nat64Network, how: str) -> None:
    """Neither by the commands nor by the protocol; and who talks to whom is not his to know."""
    nat64.configure(NAT64)
    running = nat64.nat64()
    member, at = MEMBERS[how], path(nat64)
    for command in (("reload",), ("stop",), ("bind", "del", "tcp", "192.0.2.3:80"), ("show", "sessions"), ("show", "bindings")):
        done = asked(nat64, member, *command)
        assert done.returncode == RUN_TIME, command
        assert "only root and the user of the running diolkos may do this" in one_sentence(done.stderr.strip())
    interface = "org.diolkos.Translator"
    allowed = ("Status", "Counters", "Figures", "Config", 'Top:{"by":"share","lines":3}')
    denied = (
        *("Reload", "Stop", "Sessions", "Bindings"),
        'Bind:{"protocol":"tcp","v4":"192.0.2.3:80","v6":"[2001:db8:6::9]:80"}',
        'Unbind:{"protocol":"tcp","v4":"192.0.2.3:80"}',
    )
    outcomes = called(nat64, member, at, *(f"{interface}.{method}" for method in allowed + denied))
    assert outcomes == ["done"] * len(allowed) + ["org.varlink.service.PermissionDenied"] * len(denied)
    assert running.process.poll() is None
    with varlink.Client(f"unix:{at}").open(interface) as translator:
        assert translator.Status()["status"]["reloads"] == 0
        assert "192.0.2.3:80" not in [one["v4"] for one in translator.Bindings()["entries"]]


def test_others_do_not_even_connect(siit: SiitNetwork) -> None:
    """Nor do they see who else is there, or get at what lies beside the socket."""
    siit.configure(SIIT)
    siit.siit()
    other, at = user(OTHER, OTHER), path(siit)
    done = asked(siit, other, "show", "status")
    assert done.returncode == RUN_TIME
    assert "you may not open the control socket" in one_sentence(done.stderr.strip())
    for who in (other, *MEMBERS.values()):
        for command in (
            ("ls", at.rpartition("/")[0]),
            ("cat", at.replace(".sock", ".lock")),
            ("touch", f"{at}.more"),
            ("rm", "-f", at),
        ):
            assert siit.run(siit.router, *who, *command, check=False).returncode != 0, command
    # Who gets in by a capability is not a member, either.
    capable = ("setpriv", "--reuid", OTHER, "--regid", OTHER, "--clear-groups")
    capable += ("--inh-caps", "-all,+dac_override", "--ambient-caps", "-all,+dac_override")
    outcomes = called(siit, capable, at, "org.varlink.service.GetInfo", "org.diolkos.Translator.Status")
    assert outcomes == ["done", "org.varlink.service.PermissionDenied"]


def test_without_the_key_nobody_but_root_reads(siit: SiitNetwork) -> None:
    """As ever."""
    siit.siit()
    done = asked(siit, MEMBERS["primary"], "show", "status")
    assert done.returncode == MISSING
    assert "run this as root" in one_sentence(done.stderr.strip())


def test_a_group_that_is_not_there(siit: SiitNetwork) -> None:
    """It is refused at the start, by its name."""
    siit.configure(SIIT.replace(GROUP, "no-such-group"))
    code, message = siit.refused("siit", "--config", str(siit.config))
    assert code == USAGE
    assert "`no-such-group`" in one_sentence(message)


def test_the_group_stays_while_it_runs(siit: SiitNetwork) -> None:
    """A reload does not change it, and says so."""
    siit.configure(SIIT)
    siit.siit()
    siit.configure(SIIT.replace(GROUP, OTHER))
    code, message = siit.diolkos("reload")
    assert code == RUN_TIME
    assert "control.group cannot change" in message


FLOOD = """
import json, resource, socket, sys, threading

def message(method):
    return json.dumps({"method": "org.diolkos.Translator." + method}).encode() + b"\\0"

def silent():
    # Connections that say nothing, as many as there are.
    held = []
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(sys.argv[1])
            held.append(connection)
        except OSError:
            held.clear()
        if len(held) > 200:
            held.clear()

def greedy(method):
    # As many calls as go into a connection, of which no answer is read.
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(1)
        try:
            connection.connect(sys.argv[1])
            while True:
                connection.sendall(message(method) * 100)
        except OSError:
            connection.close()

for work, arguments in [(silent, ()), *((greedy, (name,)) for name in ("Counters", "Config", "Figures", "Stop", "Status"))]:
    threading.Thread(target=work, args=arguments, daemon=True).start()
print("floods", flush=True)
input()
"""


def test_a_flood_of_members_does_not_hold_root_up(siit: SiitNetwork) -> None:
    """Root sees, reloads and stops the program while users of the group take all that they can get."""
    siit.configure(SIIT)
    running = siit.siit()
    at = path(siit)
    for uid in range(60001, 60003):
        flood = (*user(str(uid), GROUP), sys.executable, "-c", FLOOD, at)
        hostile = siit.start(siit.router, *flood, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert hostile.stdout.readline() == "floods\n"
    for _ in range(2):
        assert siit.diolkos("show", "counters")[0] == 0
        assert siit.diolkos("reload")[0] == 0
    assert siit.diolkos("stop")[0] == 0
    assert running.wait() == 0
