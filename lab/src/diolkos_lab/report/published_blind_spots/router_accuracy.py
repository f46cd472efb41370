# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the study that `router-accuracy` repeats could not see."""

from __future__ import annotations

from diolkos_lab.curve.judge import DEFAULT_RULE, UNDECIDED
from diolkos_lab.report.quantities import count
from diolkos_lab.report.read import Results


def pairs(results: Results) -> list[tuple[str, str]]:
    curves = [curve for curve in results.curves if curve.trusted]
    undecided = sum(curve.found.firm[DEFAULT_RULE] == UNDECIDED for curve in curves)
    depends = sum(curve.found.depends_on_rule for curve in curves)
    bound = sum(curve.limited_by_generator for curve in results.curves)
    unbracketed = sum(curve.found.pdr.rate is None for curve in results.curves)
    return [
        (
            "The throughput increase ratio has no interval, so a verdict near the threshold may be chance.",
            f"It has one here, and a verdict by intervals beside the paper's: {count(undecided, 'trusted curve')} undecided.",
        ),
        (
            "The program that made its pictures does not do what the paper says: a slip makes the test for entering saturation "
            "always true. 62 of 114 experiments are GOOD by it, 43 by the paper's rule.",
            f"All three rules are computed: the verdict of {count(depends, 'trusted curve')} depends on the rule.",
        ),
        (
            "More packets arrive than were sent in some trials: stray control frames are counted as well.",
            "Packets are known by a signature in their payload, so no others are counted.",
        ),
        (
            "Seven experiments lose more than 0.5 % at the first rate already, so their rate at 0.5 % is unknown; three reach "
            "it only at the last.",
            f"The warm-up looks for the knee first; {count(unbracketed, 'curve')} of {len(results.curves)} not bracketed here.",
        ),
        (
            "Rates were offered in ascending order, so a drift of the machine looks like an effect of the load.",
            "Every block offers all rates of all paths in random order.",
        ),
        (
            "Whether the generator itself reaches the rates is not shown.",
            f"Generator and sink are measured alone; {count(bound, 'curve')} generator-bound here.",
        ),
    ]
