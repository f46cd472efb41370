# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The configuration of FRR that the documentation shows is the one that the study runs, but for addresses and the lab's own."""

from pathlib import Path

from diolkos_lab.experiment.failover import Bfd
from diolkos_lab.failover import plan, routing

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "cluster" / "frr.conf"
# The lab's networks as the example has them.
ADDRESSES = {
    str(plan.POOLS4): "192.0.2.0/28",
    str(plan.NODES[0].lan4): "198.51.100.11",
    str(plan.OUTSIDE4): "198.51.100.2",
    str(plan.INSIDE6): "2001:db8:10::1",
}
# What the example does without: translators without state, and what serves the lab's haste alone.
OF_THE_LAB = (str(plan.STATELESS4), "timers connect", "multipath-relax")


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("!")]


def as_in_the_example(word: str) -> str:
    address, slash, length = word.partition("/")
    return ADDRESSES.get(word) or ADDRESSES.get(address, address) + slash + length


def test_the_example_is_what_the_study_runs() -> None:
    ours = [line for line in lines(routing.configuration("gw1", Bfd())) if not any(each in line for each in OF_THE_LAB)]
    assert lines(EXAMPLE.read_text()) == [" ".join(map(as_in_the_example, line.split())) for line in ours]
