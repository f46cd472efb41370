# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the study that `nat64-parallel` repeats could not see."""

from __future__ import annotations

from diolkos_lab.report.published_blind_spots import levels
from diolkos_lab.report.quantities import count, join_words
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import FAMILIES


def pairs(results: Results) -> list[tuple[str, str]]:
    natives = sorted({cell.family for cell in results.cells if cell.native}, reverse=True)
    named = join_words([FAMILIES.get(family, family) for family in natives])
    used = any(row.metric.startswith("cpu") for row in results.rows)
    untrusted = sum(bool(trial.objections) for trial in results.measured)
    return [
        (
            "Five of its 24 UDP rates are above the 10 Gbit/s of the link, up to 22.57 Gbit/s: they were counted at the sender "
            "and did not arrive.",
            "Only what the receiver counted is a rate here. A guard rejects a trial whose receiver claims more than its "
            "device counted, or more than a link carries."
            + ("" if "udp" in levels.loads(results) else " This run has no UDP load."),
        ),
        (
            "From 20 connections on, the load generator used its CPUs fully, so the figures may be its own limit.",
            "The CPU of generator, translator and receiver stands beside each rate, and trials with a saturated generator are "
            f"marked. Guards look at the host: they reject {count(untrusted, 'trial')} here."
            if used
            else "This run does not tell the CPU time.",
        ),
        (
            "No native path was measured, so nothing says what translation costs apart from what the hosts can do.",
            f"Every block has native {named}, and every ratio is to it." if natives else "Native is missing here too.",
        ),
        (
            "Only the least, mean and greatest of the runs are given: there is no interval.",
            f"{count(results.blocks, 'block')} after the warm-up, with a median and a 95 % interval.",
        ),
        (
            "IPv4 to IPv6 is called slower in every system, and longer frames are suspected. But from 10 connections on, the "
            "P4 card is as fast in both directions.",
            "Both directions are measured with the same MTU." if {"ipv4", "ipv6"} <= _translated(results)
            else "This run has one direction only.",
        ),
        (
            "The sessions of the P4 program never expired.",
            "Every NAT64 here keeps sessions with lifetimes, as RFC 6146 has it, except for bindings that are set by hand.",
        ),
    ]  # fmt: skip


def _translated(results: Results) -> set[str]:
    return {cell.family for cell in results.cells if not cell.native and cell.system != "nat44"}
