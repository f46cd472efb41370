# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Hours of a stateful translator: random sessions, reloads, floods, broken packets and, where it keeps its state, kills.

    make soak SOAK_TIME=1800        as root; SOAK_SEED=N does the same things again, SOAK_DATAPATH=tun another way

    seed ─► what next? ─► done and checked ─► every few seconds: watch ─► at the end: everything out ─► is anything left?

No established flow may break, no memory may stay taken, and no counter may move that only counts faults of our own. What
happens is drawn from the seed alone, how much of it happens depends on the time.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from conftest import ROUTER_DATAPATHS, program, standing
from nat64 import CONFIG, POOL, TRANSLATOR, UNSHARED, Nat64Network
from siit import PREF64
from test_nat64_reload import OTHER_POOL, OTHER_PREF64
from traffic import OPERATORS, Traffic
from watch import Watch

# Short times, so that sessions come and go in half an hour; a limit that floods alone do not reach.
TIMES = "\n[nat64.timeouts]\nudp = 120\ntcp_transitory = 240\nicmp = 60\n"
LIMIT = 40_000
LIMITS = "\n".join(["[nat64]", f"max_sessions = {LIMIT}", *UNSHARED, ""])
BASE = CONFIG.replace("[[nat64", LIMITS + "[[nat64", 1) + TIMES
# What a reload may change without ending a flow that is there.
RELOADS = {
    "as before": BASE,
    "filtering": BASE.replace("[nat64]\n", '[nat64]\nfiltering = "address-dependent"\n'),
    "a prefix more": BASE.replace(f'"{PREF64}"', f'"{PREF64}", "{OTHER_PREF64}"'),
    "prefixes in another order": BASE.replace(f'"{PREF64}"', f'"{OTHER_PREF64}", "{PREF64}"'),
    "a pool in two parts": BASE.replace(f'"{POOL}"', '"192.0.2.4/30"\n[[nat64.pool4]]\naddress = "192.0.2.0/30"'),
    "other times": BASE.replace("udp = 120", "udp = 200"),
    "ports preserved": BASE.replace("[nat64]\n", "[nat64]\nport_preservation = true\n"),
}
# A pool without anything of the old one: nothing may live on in it.
ELSEWHERE = TRANSLATOR + LIMITS + OTHER_POOL + TIMES

AUDIT_S, PROGRESS_S = 5, 30


class Broken(Exception):
    """A flow did not go on, or what arrived is not what was sent."""


class Standstill:
    """Notices when this process was not let run for so long that time-outs mean nothing."""

    LONGEST_S = 2.0

    def __init__(self) -> None:
        self.longest_s = 0.0
        threading.Thread(target=self.tick, daemon=True).start()

    def tick(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(0.1)
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - last)
            last = now


class Soak:
    """The translator, what goes through it, and who watches."""

    def __init__(self, net: Nat64Network, seed: int) -> None:
        self.net, self.chance = net, random.Random(seed)
        self.done: Counter[str] = Counter()
        self.options: tuple[str, ...] = ()
        if "--state" in net.run(net.translator, str(net.program), "nat64", "--help").stdout:
            self.options = ("--state", str(net.scratch / "state"))
        self.running = net.nat64(BASE, *self.options)
        self.watch = Watch(net, self.running)
        self.traffic = Traffic(net, self.chance)

    def run(self, seconds: float) -> None:
        """As much as there is time for."""
        kinds = {**self.traffic.kinds(), self.reload: 2, self.read: 2}
        if self.options:
            kinds[self.restart] = 1
        begin = time.monotonic()
        audit, progress = begin, begin + PROGRESS_S
        while (now := time.monotonic()) < begin + seconds:
            (what,) = self.chance.choices(list(kinds), list(kinds.values()))
            try:
                what()
            except (OSError, AssertionError, subprocess.TimeoutExpired) as error:
                raise Broken(f"after {now - begin:.0f} s: {what.__name__.replace('_', ' ')}: {error!r}") from error
            self.done[what.__name__] += 1
            if now >= audit:
                audit = now + AUDIT_S
                self.watch.look()
            if now >= progress:
                progress = now + PROGRESS_S
                print(f"{now - begin:6.0f} s  {self.done.total()} things done, {self.watch.line()}", flush=True)
        self.traffic.use_all()
        self.watch.look()

    def reload(self) -> None:
        """Another configuration, or the same again."""
        name = self.chance.choice(list(RELOADS))
        code, message = self.net.reload(RELOADS[name])
        assert code == 0, message
        self.traffic.is_filtering = name == "filtering"

    def read(self) -> None:
        """What an operator looks at; it holds nobody up for long."""
        entries = self.net.shown(self.chance.choice(["sessions", "bindings"]))
        assert len(entries) <= LIMIT

    def restart(self) -> None:
        """Killed or asked to end; what it knew goes on, in the kernel meanwhile."""
        # Without the kernel's copy a kill leaves what was written last.
        how = signal.SIGTERM if self.net.datapath == "tun" else self.chance.choice([signal.SIGTERM, signal.SIGKILL])
        self.watch.before_end()
        assert self.running.stop(how) == (0 if how == signal.SIGTERM else -how)
        if self.net.datapath != "tun":
            for _ in range(self.chance.randrange(20)):
                self.traffic.use_a_connection()
        self.running = self.net.nat64("", *self.options)
        self.watch.follow(self.running)

    def empty(self) -> None:
        """Everything out: what is left then has leaked."""
        self.traffic.close()
        self.net.bind("del", "tcp", OPERATORS)
        code, message = self.net.reload(ELSEWHERE)
        assert code == 0, message
        self.watch.nothing_is_left()
        if self.options:
            assert self.net.diolkos("stop")[0] == 0
        assert self.running.stop() == 0 if not self.options else self.running.wait() == 0
        assert self.net.leftovers() == []

    def summary(self) -> str:
        """What happened, how often, and what it took."""
        lines = [f"   {count:8}  {what.replace('_', ' ')}" for what, count in self.done.most_common()]
        return "\n".join([*lines, *self.watch.summary()])


def main() -> int:
    """0: nothing broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--datapath", choices=ROUTER_DATAPATHS, default="tc")
    asked = parser.parse_args()
    again = f"make soak SOAK_TIME={asked.time:.0f} SOAK_SEED={asked.seed} SOAK_DATAPATH={asked.datapath}"
    print(f"== {asked.time:.0f} s, seed {asked.seed}, datapath {asked.datapath}", flush=True)
    standstill = Standstill()
    with standing(lambda: Nat64Network(program(), datapath=asked.datapath)) as net:
        soak = Soak(net, asked.seed)
        print(
            "   with its end, again and again" if soak.options else "   without kills: this program keeps no state", flush=True
        )
        try:
            soak.run(asked.time)
            soak.empty()
            broken = None
        except (Broken, AssertionError, OSError, subprocess.TimeoutExpired) as error:
            broken = error
        print(soak.summary())
        if broken:
            print(f"== Broken: {broken}\n   Last words: {soak.running.log()[-2000:]}")
            if standstill.longest_s > Standstill.LONGEST_S:
                print(f"   It proves nothing: for {standstill.longest_s:.0f} s this process was not let run.")
    print(f"== {'Again' if broken else 'Nothing broke. Again'}: {again}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
