# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A load–loss curve and what follows from it: pure functions on the counted packets of trials at several offered loads.

Stages:
    loss ─► resampling ─► crossing, saturation ─► judge
Whoever counts packets can use it: `judge.judge(loss.measure(rates, tx, rx))`. Nothing here reads a file or a clock, and
random numbers come from a seed that is an argument.

Definitions: Lungaroni et al., "PASTRAMI: Performance Assessment of SofTware Routers Addressing Measurement Inaccuracy",
2024, sections IV and V; called "the paper" in the files of this package.
"""
