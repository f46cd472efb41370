# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Streams through a router whose translator takes other configurations, ends, and starts again: each packet is counted.

At both ends the packet generator counts frames, so that one lost says its number. A stateless translator has nothing that could
go on while no program runs: only a stateful one with a state file is restarted here.
"""

from __future__ import annotations

import signal
import subprocess

import pytest
from conftest import program
from nat64 import BOUND, CONFIG, Nat64Network
from pktgen import interrupted
from siit import CONFIG as STATELESS
from siit import V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from stateful import end, start, stop_for_good
from test_nat64_control import static
from test_siit_control import ANOTHER_MAPPING

pytestmark = pytest.mark.alone

PLACES = ["tc", "clsact", "inline", "direct", "xdp"]
# The counters by which the placements say that packets took their way.
SENT = {"direct": "fast.sent_direct", "xdp": "fast.sent_xdp"}
PORT, FLOWS = 4000, 50
PEERS = f"{PORT + 1000}-{PORT + 999 + FLOWS}"
# Slow enough that nothing overflows on a busy machine, and a packet in each half of a millisecond.
LOOKS = ("--size", "100", "--flows", str(FLOWS), "--rate", "2k", "--burst", "1")
# Between two changes, and before the first.
MANY = 1000


class Counted:
    """A stream in each direction. `back_to`: what the IPv6 host is called on the other side."""

    def __init__(self, net: SiitNetwork, back_to: str) -> None:
        self.net = net
        ends = ("--from", f"{net.v6}:a0", "--to", f"{net.v4}:a0", "--src", V6, "--dst", V4_IN_IPV6)
        back = ("--back-src", V4, "--back-dst", back_to, "--back-sport", PEERS, "--back-dport", str(PORT))
        pktgen = program().with_name("diolkos-pktgen")
        self.command = [pktgen, "measure", *ends, *back, "--sport", str(PORT), "--dport", PEERS, *LOOKS]
        self.process: subprocess.Popen

    def begin(self) -> None:
        """Every flow is known; then both streams flow."""
        known = subprocess.run(
            [*self.command, "--count", str(2 * FLOWS)], check=False, capture_output=True, text=True, timeout=60
        )
        assert known.returncode == 0, known.stderr
        self.process = subprocess.Popen([*self.command, "--seconds", "600"], stdout=subprocess.PIPE, text=True)
        self.net.running.append(self.process)
        self.flow()

    def flow(self) -> None:
        """Wait for some more packets of the fast path."""
        counter = SENT.get(self.net.datapath, "fast.translated_6to4")
        enough = self.net.counters()[counter] + MANY
        self.net.until(lambda: self.net.counters()[counter] >= enough)

    def finish(self) -> None:
        """End it; of as many as were sent, none is lost."""
        for direction in interrupted(self.process)["directions"]:
            sent, received = direction["sent"]["sent"], direction["received"]
            assert sent > MANY
            assert (received["received"], received["lost"], received["corrupted"]) == (sent, 0, 0), direction


@pytest.mark.parametrize("siit", PLACES, indirect=True)
def test_a_siit_takes_another_table(siit: SiitNetwork) -> None:
    """Mappings come and go, of which none is in use."""
    running = siit.siit()
    counted = Counted(siit, V6_MAPPED)
    counted.begin()
    for reload in range(4):
        text = STATELESS + (ANOTHER_MAPPING if reload % 2 == 0 else "") + f"\n[icmp]\nrate = {reload}\n"
        assert siit.reload(text) == (0, "")
        counted.flow()
    counted.finish()
    assert running.stop() == 0


@pytest.mark.parametrize("nat64", PLACES, indirect=True)
def test_a_nat64_is_reloaded_and_restarted(nat64: Nat64Network) -> None:
    """By a signal and by a kill; while no program runs, the kernel goes on."""
    bound = CONFIG + static("udp", f"{BOUND}:{PORT}", f"[{V6}]:{PORT}")
    running = start(nat64, bound)
    counted = Counted(nat64, BOUND)
    counted.begin()
    for number, how in enumerate((signal.SIGTERM, signal.SIGKILL)):
        other = static("tcp", f"{BOUND}:{number}80", f"[{V6}]:80") + "[nat64.timeouts]\nudp = 120\n"
        assert nat64.reload(bound + other) == (0, "")
        counted.flow()
        end(running, how)
        running = start(nat64, bound if number else "")
        assert "cannot take over" not in running.log(), running.log()
        counted.flow()
    counted.finish()
    stop_for_good(nat64)
    assert running.wait() == 0
