# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whether a curve gives the known answer: yes, no, and no answer at all."""

from dataclasses import replace

import numpy as np
import paper_curves as paper
import pytest

from diolkos_lab.curve import known_curves
from diolkos_lab.curve.judge import Judgement, judge
from diolkos_lab.curve.loss import Curve, measure

STEPS = np.array([0.625, 0.775, 0.925, 1.075, 1.225, 1.375])  # of the PDR
NEAR = np.array([0.97, 0.99, 1.01, 1.03])


def _measured(router: float = 1.0) -> Judgement:
    """Six trials of 0.5 s of a router of the paper's kind, `router` times as fast as the known one."""
    draw = np.random.default_rng(2)

    def curve(shares: np.ndarray) -> Curve:
        rates = shares * known_curves.ANSWERS["realistic"].pdr * router
        sent = np.repeat(np.round(rates / 2)[:, None], 6, axis=1)
        loss = paper.realistic(rates / router * paper.SATURATION / known_curves.SATURATION)
        return measure(rates, sent, sent - draw.binomial(sent.astype(int), loss[:, None]))

    # As a sweep does it: the steps decide the verdict, and rates near the PDR say where that is.
    return replace(judge(curve(STEPS)), pdr_ci95=judge(curve(NEAR)).pdr_ci95)


def test_the_known_router_gives_the_known_answer() -> None:
    found = _measured()
    assert all(known_curves.found(found, known_curves.ANSWERS["realistic"]).values())
    assert known_curves.remark(found, known_curves.ANSWERS["realistic"]).startswith(
        "the known answer was found: T_sat 49.5 kpps"
    )


@pytest.mark.parametrize("router", [0.95, 1.05])
def test_another_router_does_not(router: float) -> None:
    found = _measured(router)
    answers = known_curves.found(found, known_curves.ANSWERS["realistic"])
    assert answers == {"saturation": False, "pdr": False, "verdict": True}
    assert known_curves.remark(found, known_curves.ANSWERS["realistic"]).endswith("not within what was found: saturation, pdr")


def test_a_curve_without_an_answer_is_not_right_by_being_vague() -> None:
    rates = [10_000.0, 20_000.0, 30_000.0]
    found = judge(measure(rates, [[10_000] * 5] * 3, [[9_900] * 5, [9_800] * 5, [9_700] * 5]))
    assert not any(known_curves.found(found, known_curves.ANSWERS["realistic"]).values())
