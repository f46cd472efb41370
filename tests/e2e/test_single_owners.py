# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What may have one owner: the second translator on a host is refused, or says what it lacks, and hears whose it is."""

from __future__ import annotations

import json
import os
import signal

import pytest
from logs import collector, records, until_listed
from nat64 import CONFIG, POOL, TRANSLATOR, Nat64Network
from network import Running
from siit import PREF64
from stream import Stream
from test_clat_faults import RUN_TIME, one_sentence

pytestmark = pytest.mark.parametrize("nat64", ["tc"], indirect=True)

SECOND = TRANSLATOR.replace("[translator]\n", '[translator]\ndevice = "diolkos9"\n').replace(PREF64, "2001:db8:99::/96")
OTHER_POOL = '[[nat64.pool4]]\naddress = "198.51.100.128/29"\n'
NAMES = '[dns64]\nlisten = ["[::1]:5353"]\nupstream = ["[::1]:5300"]\n'
METRICS = '[metrics]\nlisten = ["127.0.0.1:9464"]\n'


def second(nat64: Nat64Network, text: str, *options: str) -> Running:
    """Start another translator, and wait until it is ready or has ended."""
    config = nat64.scratch / "second.toml"
    config.write_text(text)
    log = nat64.scratch / f"second-{len(nat64.running)}"
    with log.open("w") as sink:
        command = (str(nat64.program), "run", "--config", str(config), "--datapath", "tc", *options)
        process = nat64.start(nat64.translator, *command, stdout=sink, stderr=sink)
    running = Running(process, log)
    nat64.until(lambda: "ready: nat64" in running.log() or process.poll() is not None)
    return running


def refused(running: Running) -> str:
    """The sentence by which it has ended, before it said that it was ready."""
    assert running.wait() == RUN_TIME, running.log()
    assert " ready: " not in running.log(), running.log()
    return one_sentence(running.log().strip().splitlines()[-1])


def test_a_state_file(nat64: Nat64Network) -> None:
    """The second one hears process and device of the first, whose sessions stay; a killed owner is none."""
    file = nat64.scratch / "nat64.state"
    nat64.siit("--state", str(file), command="run")
    Stream.through(nat64).flow()
    pid = json.loads(nat64.run(nat64.translator, str(nat64.program), "show", "status", "--json").stdout)["pid"]
    before = file.read_bytes()
    said = refused(second(nat64, SECOND + OTHER_POOL, "--state", str(file)))
    assert f"process {pid}, device diolkos0" in said and str(file) in said, said
    assert file.read_bytes() == before
    os.kill(pid, signal.SIGKILL)
    nat64.until(lambda: nat64.diolkos("show", "status")[0] != 0)
    other = second(nat64, SECOND + OTHER_POOL, "--state", str(file))
    assert other.process.poll() is None, other.log()
    # The first one does not come back as long as that one has the file.
    again = nat64.siit("--state", str(file), command="run", ready=False)
    assert f"process {other.process.pid}, device diolkos9" in refused(again)
    assert nat64.diolkos("stop", "--device", "diolkos9")[0] == 0
    nat64.siit("--state", str(file), command="run")
    assert nat64.diolkos("stop")[0] == 0
    assert not file.with_name("nat64.state.lock").exists()


def test_pools_prefixes_logs_and_metrics(nat64: Nat64Network) -> None:
    """Pools that overlap, the same prefix, one file for two logs, one place for the figures of two."""
    path = nat64.scratch / "bindings.json"
    log = collector(to="file", path=str(path))
    nat64.configure(CONFIG + log + METRICS)
    first = nat64.siit(command="run")
    until_listed(nat64, path)
    for pool in (POOL, "192.0.2.4/30", "192.0.0.0/16"):
        said = refused(second(nat64, f'{SECOND}[[nat64.pool4]]\naddress = "{pool}"\n'))
        assert f'"{pool}" overlaps {POOL}' in said and f"diolkos0 (process {first.process.pid})" in said, said
    said = refused(second(nat64, SECOND.replace("2001:db8:99::/96", PREF64) + OTHER_POOL))
    assert f"there is a route to {PREF64}" in said, said
    said = refused(second(nat64, SECOND + OTHER_POOL + log))
    assert f"{path} cannot be written: another running diolkos writes to it" in said, said
    other = second(nat64, SECOND + OTHER_POOL + METRICS)
    said = f"metrics cannot be served at 127.0.0.1:9464 (diolkos (process {first.process.pid}) has that port)"
    assert said in other.log(), other.log()
    assert other.stop() == 0
    # Its own file does not keep a program from a reload, and whoever rotates it moves it away.
    assert nat64.reload(CONFIG + log + METRICS + "# other\n") == (0, "")
    path.rename(path.with_suffix(".1"))
    Stream.through(nat64).flow()
    nat64.until(lambda: len(records(path)) > 0)
    assert first.stop() == 0
