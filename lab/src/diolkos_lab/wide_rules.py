# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which rules get the time that is left, when the blocks of the plan are done?

The study says before the run how narrow the interval of a rule has to be (`width`). The lab looks once, at the whole
blocks, and at the width and nothing else: how far the ends of an interval lie apart says nothing of the side of a threshold
on which they lie. Rules that were wide then get further blocks. Claim blocks, which follow in any case, were not looked at:
without such, a sample that happens to be narrow would be kept as it is, and its interval would contain the truth too
seldom.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from diolkos_lab import verdict
from diolkos_lab.experiment.definition import Claim, Study
from diolkos_lab.experiment.loads import LoadName
from diolkos_lab.stats.median import Interval
from diolkos_lab.stats.pairing import Samples


def with_wide_rules(study: Study, records: Iterable[Mapping[str, Any]]) -> Study:
    """The study with those rules only that want more blocks, each with the loads of which it wants them."""
    loads: dict[int, dict[LoadName, None]] = {number: {} for number in range(len(study.claim))}
    numbers = {id(claim): number for number, claim in enumerate(study.claim)}
    for rule in verdict.asked(study, Samples(records), {}):
        for each in rule.against:
            if is_wide(each.claim, each.interval()):
                loads[numbers[id(each.claim)]][each.load] = None
    kept = [study.claim[number].model_copy(update={"loads": tuple(wanted)}) for number, wanted in loads.items() if wanted]
    return study.model_copy(update={"claim": tuple(kept)})


def is_wide(claim: Claim, interval: Interval | None) -> bool:
    """Without a width in the study every interval is too wide; so is one that is not there yet."""
    if claim.width is None or interval is None:
        return True
    low, high = interval
    return low <= 0 or high / low > claim.width
