# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What changed from one run to another, from their result folders: the command line and the pages ask the same."""

from collections.abc import Sequence

from diolkos_lab import summary
from diolkos_lab.faults import UsageFault
from diolkos_lab.samples.folder import Result
from diolkos_lab.stats import comparison
from diolkos_lab.stats.comparison import Change


def compare(first: Result, second: Result) -> list[Change]:
    """Every figure that both runs have, a PDR among them. Raises UsageFault for runs of two studies."""
    if first.study.name != second.study.name:
        raise UsageFault(
            f"{first.folder} holds the study {first.study.name}, {second.folder} the study {second.study.name}: "
            "they cannot be compared"
        )
    baselines = {subject.key: subject.baseline_key for subject in first.study.system}
    before, after = (summary.sampled(each, summary.gathered(each)) for each in (first, second))
    return comparison.compare(before, after, baselines)


def in_words(changes: Sequence[Change]) -> str:
    """How many of them are more than chance."""
    significant = sum(change.significant for change in changes)
    return f"{significant} of {len(changes)} figures changed by more than chance explains (5 % level)."
