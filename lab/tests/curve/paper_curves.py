# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The synthetic load–loss curves of the paper (figures 3 to 5, equations 3 to 5), whose answers are known."""

import numpy as np

SATURATION = 1e6  # O_sat, packets/s
TRASHING = 1.5e6  # O_trash
DECLINE = 1e6  # M
GRID = np.arange(300_000, 1_500_001, 150_000.0)  # the paper's loads
FINE = np.arange(300_000, 2_500_001, 10_000.0)


def ideal(rates: np.ndarray) -> np.ndarray:
    """Figure 3, equation 3: no loss up to O_sat = T_sat, then PLR = 1 − T_sat/O."""
    return np.maximum(0, 1 - SATURATION / rates)


def realistic(rates: np.ndarray) -> np.ndarray:
    """Figures 4 and 5, equations 4 and 5: T_sat = 0.99 O_sat, throughput declines from O_trash on.

    Below O_sat the loss rises from 1e-8 to the 1 % of T_sat, by a factor of ten for every sixth of O_sat.
    """
    decline = np.where(rates < TRASHING, 1, np.maximum(0, 1 - (rates - TRASHING) / DECLINE))
    return np.where(rates <= SATURATION, 10 ** (-8 + 6 * rates / SATURATION), 1 - 0.99 * SATURATION * decline / rates)


def counts(rates: np.ndarray, plr: np.ndarray, runs: int = 5, seconds: float = 10) -> tuple[np.ndarray, np.ndarray]:
    """tx and rx of trials that all lose exactly `plr`, to the packet."""
    tx = np.repeat(np.round(rates * seconds)[:, None], runs, axis=1)
    return tx, np.round(tx * (1 - plr[:, None]))
