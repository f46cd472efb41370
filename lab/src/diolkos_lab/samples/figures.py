# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What holds for every figure of a trial."""

from diolkos_lab.metric import named


def not_below_zero(metrics: dict[str, float]) -> dict[str, float]:
    """Raises ValueError with the name of a figure that is negative or no number.

    Delay variation has a sign (RFC 8219 §7.3.2), and what another version of the lab recorded may be anything.
    """
    for name, value in metrics.items():
        metric = named(name)
        if metric and not metric.signed and not value >= 0:  # NaN fails too
            raise ValueError(f"{name}: {value} is less than 0")
    return metrics
