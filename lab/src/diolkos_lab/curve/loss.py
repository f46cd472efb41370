# SPDX-License-Identifier: Apache-2.0 OR MIT
"""From counted packets to the curve: loss ratio with its interval, throughput, throughput increase ratio.

Loss is never cut off at zero. A trial in which more packets arrive than were sent, because a frame of somebody else was
counted, has a negative loss ratio, and so may a mean; hiding that would make the mean of small losses too high.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diolkos_lab.stats.quantiles import student

CONFIDENCE = 0.95
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """Loss at n offered loads. All arrays have n entries, in ascending order of the offered load."""

    rates: Array  # offered load O, packets/s
    runs: NDArray[np.int64]  # K, number of trials at each load
    trials: Array  # PLR of each trial, n by max(K); NaN behind the last trial of a load that has fewer
    sent: Array  # packets sent per trial, mean over the trials
    # The block of each trial, as `trials`, and -1 behind the last; None where trials have no blocks.
    blocks: NDArray[np.int64] | None = None

    @cached_property
    def plr(self) -> Array:
        """Packet loss ratio: the mean over the trials of 1 − rx/tx."""
        mean: Array = np.nanmean(self.trials, axis=1)
        return mean

    @cached_property
    def sd(self) -> Array:
        """Standard deviation of the trials' loss ratio with K − 1 (equation 2 of the paper); NaN for a single trial."""
        spread = np.nansum((self.trials - self.plr[:, None]) ** 2, axis=1)
        variance: Array = np.divide(spread, self.runs - 1, out=np.full(len(self.rates), np.nan), where=self.runs > 1)
        return np.sqrt(variance)

    @cached_property
    def half_width(self) -> Array:
        """Half of the 95 % interval of the loss ratio: Student's t with K − 1 degrees of freedom; NaN for a single trial."""
        quantile: Array = student((1 + CONFIDENCE) / 2, np.maximum(self.runs - 1, 1))
        return quantile * self.sd / np.sqrt(self.runs)

    @property
    def lcl95(self) -> Array:
        return self.plr - self.half_width

    @property
    def ucl95(self) -> Array:
        return self.plr + self.half_width

    @property
    def delta_ucl95(self) -> Array:
        """(UCL95 − PLR)/PLR; NaN where nothing was lost, since an uncertainty relative to nothing has no meaning."""
        relative: Array = np.divide(self.half_width, self.plr, out=np.full(len(self.rates), np.nan), where=self.plr > 0)
        return relative

    @property
    def delivery_ratio(self) -> Array:
        return 1 - self.plr

    @property
    def throughput(self) -> Array:
        """T(O) = O (1 − PLR), packets/s."""
        return self.rates * (1 - self.plr)

    @property
    def tir(self) -> Array:
        """Throughput increase ratio to the load before; NaN at the first load, which has none before it."""
        return increase_ratio(self.rates, self.plr)

    @property
    def excess_trials(self) -> int:
        """Number of trials in which more packets arrived than were sent."""
        return int(np.count_nonzero(self.trials < 0))


def measure(
    rates: Sequence[float],
    tx: Sequence[ArrayLike],
    rx: Sequence[ArrayLike],
    blocks: Sequence[Sequence[int]] | None = None,
) -> Curve:
    """The curve of counted packets: entry i of `tx` and `rx` holds one count per trial at `rates[i]` packets/s.

    Loads may come in any order and have different numbers of trials; the trials of equal loads are pooled. `blocks` has the
    block of each trial: those of one block saw the same weather, at all loads. Raises ValueError when there is no load, a
    load has no trial, or a rate or a number of sent packets is not above zero.
    """
    pooled: dict[float, tuple[list[Array], list[Array], list[Array]]] = {}
    for at, (rate, sent, received) in enumerate(zip(rates, tx, rx, strict=True)):
        counts = tuple(np.atleast_1d(np.asarray(count, dtype=float)) for count in (sent, received))
        seen_in = np.asarray(blocks[at], dtype=float) if blocks is not None else np.full(counts[0].shape, -1.0)
        if not counts[0].shape == counts[1].shape == seen_in.shape or counts[0].size == 0:
            raise ValueError(f"at {rate:g} packets/s the counts of sent and received packets do not pair up")
        if not (rate > 0 and np.isfinite(rate) and (counts[0] > 0).all() and (counts[1] >= 0).all()):
            raise ValueError(f"at {rate:g} packets/s a count or the rate is not a positive number")
        for kept, count in zip(pooled.setdefault(float(rate), ([], [], [])), (*counts, seen_in), strict=True):
            kept.append(count)
    if not pooled:
        raise ValueError("a curve needs at least one offered load")
    ordered = sorted(pooled)
    sent_by_rate = [np.concatenate(pooled[rate][0]) for rate in ordered]
    received_by_rate = [np.concatenate(pooled[rate][1]) for rate in ordered]
    runs = np.array([len(sent) for sent in sent_by_rate])
    trials = np.full((len(ordered), int(runs.max())), np.nan)
    table = np.full(trials.shape, -1)
    for index, (sent, received) in enumerate(zip(sent_by_rate, received_by_rate, strict=True)):
        trials[index, : len(sent)] = (sent - received) / sent
        table[index, : len(sent)] = np.concatenate(pooled[ordered[index]][2])
    mean = np.array([sent.mean() for sent in sent_by_rate])
    return Curve(np.array(ordered), runs, trials, mean, table if blocks is not None else None)


def increase_ratio(rates: Array, plr: Array) -> Array:
    """TIR along the last axis of `plr`: (T(Oᵢ) − T(Oᵢ₋₁))/(Oᵢ − Oᵢ₋₁), NaN in the first place."""
    throughput = rates * (1 - plr)
    ratio = np.full(throughput.shape, np.nan)
    ratio[..., 1:] = np.diff(throughput, axis=-1) / np.diff(rates)
    return ratio
