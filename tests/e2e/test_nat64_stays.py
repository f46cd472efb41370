# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a stateful translator with a state file leaves when it ends, and how that is taken away."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from diolkos_lab.topology import mounts
from nat64 import CONFIG, Nat64Network
from network import Running
from siit import CONFIG as SIIT_CONFIG
from siit import TRANSLATOR4, V6
from stateful import PINS, end, left, namespace_cookie, start, state, stop_for_good
from stream import Stream
from test_clat_faults import RUN_TIME, USAGE

kernel_datapaths = pytest.mark.parametrize("nat64", ["tc", "clsact", "inline", "xdp"], indirect=True)
SYSADMIN_LESS = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")


@kernel_datapaths
@pytest.mark.parametrize("next_start", ["without", "tun", "siit", "clat", "stop", "gone"])
def test_what_stays_can_be_removed(nat64: Nat64Network, next_start: str) -> None:
    """A start without a state file, with another datapath or mode, or `stop`: nothing is left, and settings are put back."""
    before = nat64.forwarding()
    running = start(nat64)
    stream = Stream.through(nat64)
    stream.flow()
    end(running, signal.SIGTERM)
    stream.flow()
    assert left(nat64) != []
    if next_start == "without":
        assert nat64.nat64().stop() == 0
    elif next_start == "tun":
        # The file is of use to it, and the transfer goes on.
        nat64.datapath = "tun"
        nat64.configure(CONFIG)
        running = start(nat64)
        stream.flow()
        assert running.stop() == 0
    elif next_start == "siit":
        nat64.configure(SIIT_CONFIG)
        assert nat64.siit().stop() == 0
    elif next_start == "clat":
        nat64.ip(nat64.translator, "route", "add", "64:ff9b::/96", "via", V6)
        clat = nat64.start(
            nat64.translator,
            str(nat64.program),
            "clat",
            "--uplink",
            "b6",
            "--pref64",
            "64:ff9b::/96",
            stderr=subprocess.PIPE,
            text=True,
        )
        line = ""
        while "ready" not in line:
            line = clat.stderr.readline()
            assert line, "it ended"
        clat.terminate()
        assert clat.wait(10) == 0
    elif next_start == "gone":
        nat64.ip(nat64.translator, "link", "del", "diolkos0")
        stop_for_good(nat64)
    else:
        stop_for_good(nat64)
        code, message = nat64.diolkos("stop")
        assert code == 0
        assert "none has left anything" in message
    assert left(nat64) == []
    assert nat64.forwarding() == before


def test_a_namespace_that_is_gone_leaves_nothing(nat64: Nat64Network) -> None:
    """What hung on its interfaces is removed by the next start of anybody, anywhere."""
    end(start(nat64), signal.SIGTERM)
    cookie = namespace_cookie(nat64)
    assert list(PINS.glob(f"{cookie}-*"))
    nat64.host("ip", "netns", "del", nat64.translator)

    def is_removed() -> bool:
        subprocess.run(["nsenter", f"--net=/run/netns/{nat64.v4}", nat64.program, "stop"], check=True, capture_output=True)
        return not list(PINS.glob(f"{cookie}-*"))

    nat64.until(is_removed)
    folder = Path("/run/diolkos") / cookie
    assert [note.name for note in folder.iterdir()] == ["diolkos0.forwarding"]
    shutil.rmtree(folder)


def test_a_device_of_somebody_else(nat64: Nat64Network) -> None:
    """It is not taken over, nor removed, whatever it is called."""
    nat64.ip(nat64.translator, "tuntap", "add", "dev", "diolkos0", "mode", "tun", "multi_queue")
    running = start(nat64, ready=False)
    assert running.wait() == RUN_TIME
    assert "a network device named `diolkos0` exists already" in running.log()
    assert nat64.diolkos("stop")[0] == 0
    assert nat64.leftovers() == ["diolkos0"]


def test_without_what_it_takes_to_stay(nat64: Nat64Network) -> None:
    """Without a BPF file system, or the capability to find programs again, the file alone is kept, which is said."""
    nat64.datapath = "tc"
    for wrapper, words in (
        (mounts.own(("sh", "-c", 'umount /sys/fs/bpf && exec "$0" "$@"')), "is no BPF file system: mount"),
        (SYSADMIN_LESS, "CAP_SYS_ADMIN is missing"),
    ):
        arguments = [str(nat64.program), "nat64", "--config", str(nat64.config), "--state", str(state(nat64))]
        log = nat64.scratch / f"log-{len(nat64.running)}"
        with log.open("w") as sink:
            process = nat64.start(nat64.translator, *wrapper, *arguments, stderr=sink, stdout=sink)
        running = Running(process, log)
        nat64.until(lambda running=running: " ready: " in running.log() or running.process.poll() is not None)
        assert words in running.log()
        stream = Stream.through(nat64)
        stream.flow()
        end(running, signal.SIGTERM)
        assert left(nat64) == []
        running = start(nat64)
        stream.flow()
        stop_for_good(nat64)


@pytest.mark.parametrize("nat64", ["tc"], indirect=True)
def test_a_start_that_is_refused_leaves_the_device_as_it_is(nat64: Nat64Network) -> None:
    """Its MTU and `accept_local` are those of the configuration that goes on in the kernel."""
    running = start(nat64)
    stream = Stream.through(nat64)
    stream.flow()
    end(running, signal.SIGTERM)

    def device() -> tuple[int, str]:
        mtu = nat64.ip_json(nat64.translator, "link", "show", "diolkos0")[0]["mtu"]
        return mtu, nat64.sysctl(nat64.translator, "net.ipv4.conf.diolkos0.accept_local")

    before = device()
    assert before == (9000, "0")
    state(nat64).chmod(0o644)
    other = CONFIG.replace("pref64", "mtu4 = 1500\nmtu6 = 1600\npref64", 1) + f"\n[icmp]\naddress4 = '{TRANSLATOR4}'\n"
    running = start(nat64, other, ready=False)
    assert running.wait() == USAGE
    assert device() == before
    stream.flow()
    state(nat64).chmod(0o600)
    running = start(nat64)
    assert device() == (1600, "1")
    stream.finish()
    assert running.stop() == 0
    stop_for_good(nat64)
