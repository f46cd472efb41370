# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Other users and the TUN device: nobody opens a queue of it, which would be to read and send others' packets.

`/dev/net/tun` is open to all users, as most distributions have it, in a mount namespace of the test's own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DATAPATHS
from nat64 import CONFIG as NAT64_CONFIG
from nat64 import Nat64Network
from network import Network, Running
from siit import CONFIG as SIIT_CONFIG
from stateful import end, start, stop_for_good
from test_clat_faults import RUN_TIME, one_sentence

OPEN_TO_ALL = (
    *("unshare", "--mount", "--propagation", "unchanged", "sh", "-c"),
    "mount --make-rprivate /dev && mount -t tmpfs -o mode=755 none /dev/net && mknod -m 666 /dev/net/tun c 10 200 "
    '&& exec "$0" "$@"',
)
# Another user; and root in a container that is on the network of its host.
OTHERS = {
    "user": ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
    "root": ("setpriv", "--bounding-set=-all", "--inh-caps=-all"),
}
# TUNSETIFF with IFF_TUN, IFF_NO_PI, IFF_VNET_HDR and IFF_MULTI_QUEUE; then, if told so, TUNSETOWNER.
OPEN_QUEUE = """
import errno, fcntl, struct, sys
tun = open("/dev/net/tun", "r+b", buffering=0)
try:
    fcntl.ioctl(tun, 0x400454ca, struct.pack("16sH22x", sys.argv[1].encode(), 0x5101))
except OSError as error:
    sys.exit(errno.errorcode[error.errno])
if len(sys.argv) > 2:
    fcntl.ioctl(tun, 0x400454cc, int(sys.argv[2]))
print("opened", flush=True)
if len(sys.argv) == 2:
    sys.stdin.read()
"""


def opened(net: Network, name: str, device: str = "diolkos0") -> dict[str, str]:
    """What becomes of each other user's attempt to open a queue."""
    found = {}
    for who, other in OTHERS.items():
        done = net.run(name, *OPEN_TO_ALL, *other, sys.executable, "-c", OPEN_QUEUE, device, check=False, input="")
        found[who] = (done.stdout or done.stderr).strip()
    return found


NOBODY = {"user": "EPERM", "root": "EPERM"}


def test_a_device_without_owner(net: Network) -> None:
    """The helper of these tests opens what is open."""
    net.ip(net.client, "tuntap", "add", "dev", "other0", "mode", "tun", "multi_queue", "vnet_hdr")
    assert opened(net, net.client, "other0") == {"user": "opened", "root": "opened"}


@pytest.mark.parametrize("datapath", DATAPATHS)
def test_clat(net: Network, datapath: str) -> None:
    """Neither another user nor root without the capability."""
    net.clat(datapath, wrapper=OPEN_TO_ALL)
    assert opened(net, net.client) == NOBODY
    assert net.ping("-c3").returncode == 0


@pytest.mark.parametrize("nat64", ["tc", "tun", "inline"], indirect=True)
@pytest.mark.parametrize("mode", ["siit", "nat64"])
def test_router(nat64: Nat64Network, mode: str) -> None:
    """The same of a router."""
    nat64.configure({"siit": SIIT_CONFIG, "nat64": NAT64_CONFIG}[mode])
    nat64.siit(command=mode)
    assert opened(nat64, nat64.translator) == NOBODY


@pytest.mark.parametrize("nat64", ["tc", "clsact"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_stays(nat64: Nat64Network, how: signal.Signals) -> None:
    """Without the program the device has no queue, and nobody gives it one; nor after it has been taken over."""
    running = start(nat64)
    index = device_index(nat64)
    assert opened(nat64, nat64.translator) == NOBODY
    end(running, how)
    assert opened(nat64, nat64.translator) == NOBODY
    running = start(nat64)
    assert device_index(nat64) == index, running.log()
    assert opened(nat64, nat64.translator) == NOBODY
    stop_for_good(nat64)


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
@pytest.mark.parametrize("found", ["owner", "queue"])
def test_what_others_could_open_is_not_taken_over(nat64: Nat64Network, found: str) -> None:
    """A device that has another owner now, or a queue of another process: the file has to do, on a device of its own."""
    end(start(nat64), signal.SIGTERM)
    index = device_index(nat64)
    command = (sys.executable, "-c", OPEN_QUEUE, "diolkos0")
    if found == "owner":
        nat64.run(nat64.translator, *command, "65534")
    else:
        other = nat64.start(nat64.translator, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "opened\n"
    running = start(nat64)
    assert device_index(nat64) != index
    assert "other users can open the TUN device diolkos0, or have opened it" in running.log()
    assert opened(nat64, nat64.translator) == NOBODY
    stop_for_good(nat64)


@pytest.fixture(scope="session")
def faster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that lets another user be faster than the owner; see `faster.c`."""
    library = tmp_path_factory.mktemp("faster") / "faster.so"
    source = Path(__file__).parent / "faster.c"
    subprocess.run(["clang", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source], check=True)
    return library


# The kernel gives a device 256 queues.
WAYS = {"stays": (), "leaves": ("FASTER_LEAVES=1",), "crowds": ("FASTER_QUEUES=255",)}


@pytest.mark.parametrize("way", WAYS)
def test_another_user_is_faster(nat64: Nat64Network, faster: Path, way: str) -> None:
    """Whoever opens queues before there is an owner, or names the owner: that device is removed, the next one is ours."""
    nat64.configure(NAT64_CONFIG.replace("pref64 =", "queues = 2\npref64 ="))
    log = nat64.scratch / "log-faster"
    wrapper = (*OPEN_TO_ALL, "env", f"LD_PRELOAD={faster}", "FASTER=2", *WAYS[way])
    with log.open("w") as sink:
        arguments = (str(nat64.program), "nat64", "--config", str(nat64.config), "--datapath", "tun")
        running = Running(nat64.start(nat64.translator, *wrapper, *arguments, stderr=sink), log)
    nat64.until(lambda: " ready: " in running.log() or running.process.poll() is not None)
    assert running.process.poll() is None, running.log()
    if way != "leaves":
        assert running.log().count("before it had an owner") == 2, running.log()
    assert opened(nat64, nat64.translator) == NOBODY
    assert "1 received" in nat64.run(nat64.v6, "ping", "-c1", "-W2", "2001:db8:64::c633:6402").stdout
    assert running.stop() == 0
    assert nat64.leftovers() == []


def test_another_user_is_always_faster(nat64: Nat64Network, faster: Path) -> None:
    """The program does not run on such a device; it says what to do, and leaves nothing."""
    wrapper = (*OPEN_TO_ALL, "env", f"LD_PRELOAD={faster}", "FASTER=1000")
    arguments = (str(nat64.program), "siit", "--config", str(nat64.config), "--datapath", "tun")
    nat64.configure(SIIT_CONFIG)
    done = nat64.run(nat64.translator, *wrapper, *arguments, check=False)
    assert done.returncode == RUN_TIME
    assert "chmod 0600 /dev/net/tun" in one_sentence(done.stderr.splitlines()[-1])
    assert nat64.leftovers() == []


def device_index(nat64: Nat64Network) -> int:
    """The TUN device's: another device has another one."""
    (link,) = nat64.ip_json(nat64.translator, "link", "show", "diolkos0")
    return link["ifindex"]
