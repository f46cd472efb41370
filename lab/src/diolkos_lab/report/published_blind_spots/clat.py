# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the study that `clat` repeats could not see, with what this run does about it."""

from __future__ import annotations

from diolkos_lab.report import facts
from diolkos_lab.report.blind_spots import offloads
from diolkos_lab.report.quantities import count, join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import FAMILIES


def pairs(results: Results) -> list[tuple[str, str]]:
    """(what it could not see, what this run does)."""
    hops = {(c.family, c.hops) for c in results.cells if c.native}
    native = join_words([f"{FAMILIES[f]} at {count(h, 'hop')}" for f, h in sorted(hops, key=lambda x: (x[0] != "ipv6", x[1]))])
    clock = facts.clocksource(results.host)
    return [
        (
            "One run per cell: no interval, so no way to tell a difference from chance.",
            f"{count(results.blocks, 'block')} after the warm-up, each with every system in random order.",
        ),
        (
            "Translators at one hop were compared with one at two hops, and there was no native IPv4.",
            f"Native was measured as {native}; every ratio is to native of the same hops."
            if native
            else "Native is missing here too, so there are no ratios.",
        ),
        (
            "The plateau at .93 Gbit/s on two hosts is the line rate of 1 GbE (1428 of 1538 bytes of each frame), not an "
            "effect of the clocksource.",
            f"The rate of the links to the router on {router} limits this run too."
            if (router := facts.router(results.host))
            else "There is no link with a rate here: namespaces on one host.",
        ),
        (
            "The clocksource alone moved all levels by a factor of 5 to 8.",
            f"Clocksource {clock} throughout; ratios are taken within it." if clock else "The clocksource is not recorded.",
        ),
        (
            "Jool carries packets of 64 KiB whole where the TUN tools of the time did not, so offloads decided the result.",
            {
                frozenset({"on"}): "Offloads were on in every trial: the same limit holds here.",
                frozenset({"off"}): "Offloads were off in every trial.",
            }.get(frozenset(offloads(results)), "Offloads on and off are both in the tables.")
            if offloads(results)
            else "Whether offloads were on is not recorded.",
        ),
    ]
