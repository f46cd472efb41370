# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the study that `nat-rules` repeats could not see."""

from __future__ import annotations

from diolkos_lab.report.published_blind_spots import levels
from diolkos_lab.report.quantities import count, join_words
from diolkos_lab.report.read import Results

CONTROLS = {
    "conntrack": "conntrack without NAT",
    "hooks": "hooks without rules",
    "notrack": "traffic that conntrack leaves out",
}


def pairs(results: Results) -> list[tuple[str, str]]:
    cells = {f"{cell.system} {cell.datapath}" for cell in results.cells}
    controls = [words for name, words in CONTROLS.items() if any(name in each for each in cells)]
    rules, backends = levels.factor_levels(results, "rules"), levels.factor_levels(results, "backend")
    flows = "new-flows" in levels.loads(results)
    return [
        (
            "With conntrack, only the first packet of a flow walks the list of rules. Their number and order cannot matter to "
            "one long flow, which was the only load.",
            "New flows a second are measured too: every flow walks the list once." if flows
            else "This run has no load of new flows, so it has the same limit.",
        ),
        (
            "The drop from 45 to about 37 Gbit/s is the price of conntrack, not of rules: it is as large for 10 rules as for "
            "1000.",
            f"Controls of this run: {join_words(controls)}." if controls
            else "This run has none of the controls that would show it.",
        ),
        (
            "“Append” is faster for every number of rules: an effect of the order of the runs, which was never varied.",
            f"Each of {count(results.blocks, 'block')} has every system in an order drawn anew.",
        ),
        (
            "1000 rules were the most.",
            levels.measured_sentence(rules, "rules were measured.", "The number of rules does not vary in this run."),
        ),
        (
            "One backend was measured, ip6tables with its list in the kernel of 2018.",
            f"Backends of this run: {join_words(backends)}." if backends else "The backend does not vary in this run.",
        ),
    ]  # fmt: skip
