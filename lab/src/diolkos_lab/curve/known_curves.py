# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The answers of the routers that are made so that they are known (`sut/bpf/router/loss.h`), and whether a curve gives them."""

import math
from dataclasses import dataclass

from diolkos_lab.curve.crossing import PDR
from diolkos_lab.curve.judge import BAD, DEFAULT_RULE, GOOD, Judgement, rate_text

SYSTEM = "synthetic"  # whose datapaths these are
SATURATION = 50_000.0  # O_sat, packets/s
THROUGH = 0.99 * SATURATION  # T_sat of equation 4
EARLY = 0.5  # of O_sat: where the leaky router has come to the loss that the paper's has at saturation


@dataclass(frozen=True)
class Answer:
    """What there is to be found, packets/s."""

    saturated: float
    pdr: float
    verdict: str


def _early(load: float) -> float:
    """Where 10^(−8 + 6 O/load) is the loss of PDR@0.5 %."""
    return load * (8 + math.log10(PDR)) / 6


ANSWERS = {
    "ideal": Answer(SATURATION, SATURATION / (1 - PDR), GOOD),
    "realistic": Answer(THROUGH, _early(SATURATION), GOOD),
    "leaky": Answer(THROUGH, _early(EARLY * SATURATION), BAD),
}


def found(judged: Judgement, answer: Answer) -> dict[str, bool]:
    """Is each answer the known one: `saturation` and `pdr` within their 95 % intervals, `verdict` by the default rule?"""
    return {
        "saturation": _within(answer.saturated, judged.saturated_ci95),
        "pdr": _within(answer.pdr, judged.pdr_ci95),
        "verdict": judged.verdict[DEFAULT_RULE] == answer.verdict,
    }


def remark(judged: Judgement, answer: Answer) -> str:
    """The same in a sentence."""
    known = f"T_sat {rate_text(answer.saturated)}, PDR@0.5 % {rate_text(answer.pdr)}, {answer.verdict}"
    wrong = [name for name, right in found(judged, answer).items() if not right]
    if not wrong:
        return f"the known answer was found: {known}"
    return f"the known answer is {known}; not within what was found: {', '.join(wrong)}"


def _within(value: float, ends: tuple[float, float] | None) -> bool:
    return ends is not None and all(map(math.isfinite, ends)) and ends[0] <= value <= ends[1]
