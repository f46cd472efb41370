# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many UDP sources on all CPUs, for as long as one likes: whose datagram arrives where, and whose is which port?

    .venv/bin/python tests/soak/lending.py --rounds 10        as root, after `make build`; some two minutes a round

    crowd ─► reloads all the while ─► checked ─► sessions expire ─► the same ports, others' ─► …

Ports are few, so that those of sessions that have expired are given away at once. The exit code is 1 if a datagram reached
a node to which it does not belong, or if an external port served two nodes at a time.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from conftest import ROUTER_DATAPATHS, program, standing
from crowd import Crowd
from nat64 import Nat64Network
from siit import V4, V4_IN_IPV6
from test_nat64_crowd import CONFIGS

LIFETIME_S = 120  # of a UDP session, the least that RFC 4787 REQ-5 allows
TIMES = f"\n[nat64.timeouts]\nudp = {LIFETIME_S}\n"


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--flows", type=int, default=20_000, help="of each CPU in a round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--datapath", choices=[path for path in ROUTER_DATAPATHS if path != "tun"], default="tc")
    parser.add_argument("--no-reload", action="store_true", help="nothing but expiry ends sessions")
    return parser.parse_args()


def main() -> int:
    """Prints what was seen in each round; 1 if anything was wrong."""
    asked = arguments()
    wrong = 0
    with standing(lambda: Nat64Network(program(), datapath=asked.datapath)) as net:
        net.nat64(CONFIGS[0] + TIMES)
        crowd = Crowd(net, V4, V4_IN_IPV6)
        for number in range(asked.rounds):
            turns = iter(range(1, 1_000_000))

            def meanwhile(turns=turns) -> bool:
                time.sleep(0.2)
                return not asked.no_reload and net.reload(CONFIGS[next(turns) % 2] + TIMES) == (0, "")

            # Whose session expires loses its port, whichever it is.
            seen = crowd.run(asked.flows, asked.seed + number, meanwhile, lambda *_: True)
            unheard = net.counters()["state.unheard_openings"]
            strays, returns = len(seen.pop("strays")), len(seen.pop("returns"))
            print(f"round {number + 1}: {seen}; {strays} strays, {returns} returns, {unheard} openings unheard", flush=True)
            wrong += strays + returns
            if number + 1 < asked.rounds:
                crowd.listen()
                # What is open now ends while the next round begins.
                time.sleep(LIFETIME_S - 5)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
