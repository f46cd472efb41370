# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What changed from one run to another, from their result folders: the command line and the pages ask the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from diolkos_lab import summary
from diolkos_lab.faults import UsageFault
from diolkos_lab.samples.folder import AnyResult, Result
from diolkos_lab.stats import comparison
from diolkos_lab.stats.comparison import Change


def compare(first: Result, second: Result) -> list[Change]:
    """Every figure that both runs have, a PDR among them. Raises UsageFault for runs of two studies."""
    if first.study.name != second.study.name:
        raise UsageFault(
            f"{first.folder} holds the study {first.study.name}, {second.folder} the study {second.study.name}: "
            "they cannot be compared"
        )
    baselines = {each.key: next(iter(first.study.baselines(each)), None) for each in first.study.system}
    before, after = (summary.sampled(each, summary.gathered(each)) for each in (first, second))
    return comparison.compare(before, after, baselines, pairs(first, before.hosts, second, after.hosts))


def pairs(first: AnyResult, before: Sequence[str], second: AnyResult, after: Sequence[str]) -> list[tuple[str, str]]:
    """The hosts that are compared. Two runs of one host each are, whatever their hosts; several hosts each with itself."""
    if len(before) <= 1 and len(after) <= 1:
        return [("".join(before), "".join(after))]
    named = [{_name(result, host): host for host in hosts} for result, hosts in ((first, before), (second, after))]
    both = [(host, named[1][name]) for name, host in named[0].items() if name in named[1]]
    if not both:
        raise UsageFault(
            f"{first.folder} ({', '.join(named[0])}) and {second.folder} ({', '.join(named[1])}) have no host in common, "
            "and hosts differ by themselves: compare runs of the same hosts"
        )
    return both


def _name(result: AnyResult, host: str) -> str:
    """Rows of a single run do not name it."""
    return host or str(result.host.get("hostname") or "")


def in_words(changes: Sequence[Change]) -> str:
    """How many of them are more than chance."""
    significant = sum(change.significant for change in changes)
    return f"{significant} of {len(changes)} figures changed by more than chance explains (5 % level)."


def facts_in_words(facts: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """In what hosts differ, one line for each fact; of nested ones the names of those that differ."""
    said = []
    for name, (before, after) in facts.items():
        if not isinstance(before, dict) and not isinstance(after, dict):
            said.append(f"{name}: {before} → {after}")
        else:
            old, new = (each if isinstance(each, dict) else {} for each in (before, after))
            keys = sorted(key for key in {**old, **new} if old.get(key) != new.get(key))
            said.append(f"{name}: {', '.join(keys)}")
    return said
