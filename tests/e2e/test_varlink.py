# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The control socket as other programs use it: two clients of the protocol that we did not write."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import varlink
from conftest import ROOT
from nat64 import Nat64Network
from network import PATIENCE, Network
from siit import CONFIG as SIIT_CONFIG
from siit import PREF64, SiitNetwork

INTERFACE = "org.diolkos.Translator"
DESCRIPTION = ROOT / f"packaging/varlink/{INTERFACE}.varlink"


def path(net: Network, device: str = "diolkos0") -> str:
    """Where the running program of the router's namespace is asked."""
    done = net.run(net.router, str(net.program), "show", "socket", "--device", device)
    return done.stdout.strip()


def opened(net: Network) -> varlink.SimpleClientInterfaceHandler:
    """The interface as the Python client reads it from the description that the program gives of itself."""
    return varlink.Client(f"unix:{path(net)}").open(INTERFACE)


def raw(net: Network) -> socket.socket:
    """A connection without a client's help."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(path(net))
    return connection


def call(method: str, **members: object) -> bytes:
    """A message as the protocol has it."""
    return json.dumps({"method": f"{INTERFACE}.{method}", **members}).encode() + b"\0"


def replies(connection: socket.socket, number: int) -> list[dict]:
    """The next replies; fewer if the connection is closed before."""
    text = b""
    while text.count(b"\0") < number:
        if not (part := connection.recv(65536)):
            break
        text += part
    return [json.loads(message) for message in text.split(b"\0")[:-1]]


def test_the_description_is_the_file_in_packaging(siit: SiitNetwork) -> None:
    """And a parser of others understands it."""
    siit.siit()
    client = varlink.Client(f"unix:{path(siit)}")
    with client.open("org.varlink.service") as service:
        assert service.GetInfo()["interfaces"] == ["org.varlink.service", INTERFACE]
        described = service.GetInterfaceDescription(INTERFACE)["description"]
    assert described == DESCRIPTION.read_text()
    members = client.get_interface(INTERFACE).members
    assert {"Status", "Follow", "Reload", "Failed", "Busy"} <= set(members)


def test_what_a_router_answers(siit: SiitNetwork) -> None:
    """Every method that a SIIT has, by a client that reads them from the description."""
    running = siit.siit()
    with opened(siit) as translator:
        status = translator.Status()["status"]
        assert status["pid"] == running.process.pid
        assert (status["mode"], status["state"], status["prefixes"]) == ("siit", "ready", [PREF64])
        assert 'mode = "siit"' in translator.Config()["toml"]
        names = {counter["name"] for counter in translator.Counters()["counters"]}
        assert "slow.translated_4to6" in names
        for refused in (translator.Sessions, translator.Prefixes):
            with pytest.raises(varlink.VarlinkError) as error:
                refused()
            assert error.value.error() == f"{INTERFACE}.NotSupported"
        assert translator.Reload() == {}
        assert translator.Status()["status"]["reloads"] == 1
        siit.configure(SIIT_CONFIG.replace(PREF64, "2001:db8:64::/95"))
        with pytest.raises(varlink.VarlinkError) as error:
            translator.Reload()
        assert error.value.error() == f"{INTERFACE}.Misconfigured"
        assert str(siit.config) in error.value.parameters()["reason"]
        assert translator.Stop() == {}
    assert running.wait() == 0


def test_bindings_of_a_nat64(nat64: Nat64Network) -> None:
    """Made, shown and ended; a wrong parameter is named."""
    nat64.nat64()
    v4, v6 = "192.0.2.3:8080", "[2001:db8:6::9]:80"
    with opened(nat64) as translator:
        translator.Bind("tcp", v4, v6)
        (binding,) = [one for one in translator.Bindings()["entries"] if one["v4"] == v4]
        assert (binding["v6"], binding["origin"]) == (v6, "operator")
        translator.Unbind("tcp", v4)
        assert v4 not in [one["v4"] for one in translator.Bindings()["entries"]]
        with pytest.raises(varlink.InvalidParameter) as error:
            translator.Bind("tcp", "not an endpoint", v6)
        assert error.value.parameters() == {"parameter": "v4"}
        with pytest.raises(varlink.VarlinkError) as refused:
            translator.Unbind("tcp", v4)
        assert refused.value.error() == f"{INTERFACE}.Misconfigured"


def test_a_follower_hears_of_changes_until_the_end(siit: SiitNetwork) -> None:
    """Without a call in between."""
    running = siit.siit()
    with raw(siit) as follower, raw(siit) as other:
        follower.sendall(call("Follow", more=True))
        (first,) = replies(follower, 1)
        assert (first["continues"], first["parameters"]["status"]["reloads"]) == (True, 0)
        other.sendall(call("Reload", oneway=True))
        (second,) = replies(follower, 1)
        assert second["parameters"]["status"]["reloads"] == 1
        assert running.stop() == 0
        assert replies(follower, 1) == []


def test_the_command_follows(siit: SiitNetwork) -> None:
    """It ends with the program that it follows."""
    running = siit.siit()
    command = (str(siit.program), "follow", "--json")
    follower = siit.start(siit.translator, *command, stdout=subprocess.PIPE, text=True)
    assert json.loads(follower.stdout.readline())["state"] == "ready"
    assert siit.diolkos("reload")[0] == 0
    assert json.loads(follower.stdout.readline())["reloads"] == 1
    assert running.stop() == 0
    assert follower.stdout.read() == ""
    assert follower.wait(PATIENCE) == 0


def test_a_clat_tells_what_it_waits_for(net: Network) -> None:
    """The state and its reason change with the network."""
    net.clat("tc")
    found = net.run(net.client, str(net.program), "show", "socket").stdout.strip()
    with socket.socket(socket.AF_UNIX) as follower:
        follower.settimeout(PATIENCE)
        follower.connect(found)
        follower.sendall(call("Follow", more=True))
        (reply,) = replies(follower, 1)
        status = reply["parameters"]["status"]
        assert (status["mode"], status["state"], status["obstacles"]) == ("clat", "ready", [])
        net.ip(net.router, "link", "set", "down0", "down")
        while status["state"] == "ready":
            status = replies(follower, 1)[-1]["parameters"]["status"]
        assert status["state"] == "waiting"
        assert "wan0" in status["obstacles"][0]


def test_it_answers_while_it_is_busy(siit: SiitNetwork) -> None:
    """Whoever stops the loop's thread stops everything; so the status comes from before, and the end is an end."""
    siit.siit()
    with raw(siit) as connection:
        connection.sendall(call("Reload") + call("Status"))
        first, second = replies(connection, 2)
    assert first == {"parameters": {}}
    assert second["parameters"]["status"]["reloads"] == 1


HOSTILE = [
    b"\0",
    b"[]\0",
    b"{}\0",
    b'{"method":1}\0',
    b"\xff\xfe\0",
    b"[" * 60000 + b"\0",
    b"x" * 65536,
    call("Reload", oneway=True, more=True),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_call(siit: SiitNetwork, text: bytes) -> None:
    """The connection is closed, and nothing else happens."""
    siit.siit()
    with raw(siit) as connection:
        connection.sendall(text)
        # It is closed before all was read.
        with contextlib.suppress(ConnectionResetError):
            assert replies(connection, 1) == []
    with opened(siit) as translator:
        assert translator.Status()["status"]["reloads"] == 0


# --- systemd's own client, where there is one


@pytest.fixture
def varlinkctl() -> str:
    """systemd 255 and later: Debian 12 has none."""
    if (found := shutil.which("varlinkctl")) is None:
        pytest.skip("no varlinkctl here (systemd 255 and later); other clients of the protocol are tested")
    return found


def test_the_description_is_valid(varlinkctl: str) -> None:
    """By systemd's own rules, which are stricter than those of the Python client."""
    for file in Path(ROOT, "packaging/varlink").glob("*.varlink"):
        done = subprocess.run([varlinkctl, "validate-idl", str(file)], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_varlinkctl(siit: SiitNetwork, varlinkctl: str) -> None:
    """It introspects, calls, follows, and checks every reply against the description."""
    siit.siit()
    at = path(siit)

    def done(*arguments: str) -> str:
        run = subprocess.run([varlinkctl, *arguments], check=False, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return run.stdout

    assert INTERFACE in done("info", at)
    assert "method Follow" in done("introspect", at, INTERFACE)
    status = json.loads(done("call", "--json=short", at, f"{INTERFACE}.Status", "{}"))["status"]
    assert status["mode"] == "siit"
    assert done("call", at, f"{INTERFACE}.Reload", "{}").strip() == "{}"
    refused = subprocess.run([varlinkctl, "call", at, f"{INTERFACE}.Follow", "{}"], check=False, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "ExpectedMore" in refused.stderr
    command = [varlinkctl, "call", "--more", "--json=short", at, f"{INTERFACE}.Follow", "{}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        # A sequence of JSON texts (RFC 7464).
        assert json.loads(follower.stdout.readline().lstrip("\x1e"))["status"]["reloads"] == 1
        assert siit.diolkos("reload")[0] == 0
        assert json.loads(follower.stdout.readline().lstrip("\x1e"))["status"]["reloads"] == 2
        follower.terminate()
