# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The truth of each path with a known answer, derived from how the path is made and from nothing that the lab measured.

The numbers are those of `shaper.toml`, `limiter.toml` and `synthetic.toml` in `sut/systems`. What a path adds of its own
(forwarding, timers that fire late) is not known. So a truth is a rate, a share, a number, or a difference of two paths.
"""

import math
from dataclasses import dataclass

from diolkos_lab.curve import known_curves

ETHERNET, IPV6, TCP, ICMP = 14, 40, 20, 8  # bytes of headers; a qdisc counts no FCS
TIMESTAMPS = 12  # bytes of options in each TCP segment (RFC 7323, appendix A)
MTU = 1500
PING_DATA = 56  # bytes that ping sends if it is not told otherwise


@dataclass(frozen=True)
class Truth:
    """A figure in the metric's unit: between `low` and `high`, which differ where the derivation leaves something open."""

    low: float
    high: float

    def inside(self, ends: tuple[float, float] | None) -> bool:
        """Does the interval hold it? One without an end holds everything, and says nothing."""
        return ends is not None and all(map(math.isfinite, ends)) and ends[0] <= self.high and self.low <= ends[1]

    def times(self, factor: float) -> "Truth":
        """A truth that is wrong by this factor."""
        return Truth(self.low * factor, self.high * factor)


def exactly(value: float) -> Truth:
    return Truth(value, value)


# ---- shaper: a token bucket passes frames at a rate

SHAPED = 200e6  # bit/s
SEGMENT = MTU - IPV6 - TCP - TIMESTAMPS  # bytes of payload
FULL_FRAME = ETHERNET + MTU


def shaped_throughput(counted_s: float) -> Truth:
    """Payload of TCP over IPv6. A queue that never runs dry keeps the bucket at its rate, so payload has its share of each
    full frame. A receiver counts whole segments: at either end of the time, one of them may be on the wrong side.
    """
    rate = SHAPED * SEGMENT / FULL_FRAME
    edge = 2 * SEGMENT * 8 / counted_s
    return Truth(rate - edge, rate + edge)


ECHO = ETHERNET + IPV6 + ICMP + PING_DATA
BUCKET = 120  # bytes
DELAYS = {"delay-short": 160e3, "delay-long": 116e3}  # datapath to bit/s


def echo_delay(rate: float) -> float:
    """Seconds for which an echo request waits (sut/bpf/router/decoy.bpf.c)."""
    return (2 * ECHO - BUCKET) * 8 / rate


def delay_difference() -> Truth:
    """What the path and its timer add to either delay cancels out."""
    short, long = (echo_delay(rate) for rate in DELAYS.values())
    return exactly(long - short)


# ---- limiter: rules of nftables drop

LOST_ONE_IN = 512
TABLE = 3000  # sessions
NEW_FLOWS = 20_000.0  # per second
AT_ONCE = 200  # more flows, if none came for a while


def loss() -> Truth:
    return exactly(1 / LOST_ONE_IN)


def capacity() -> Truth:
    return exactly(TABLE)


def new_flows(sessions: int) -> Truth:
    """The highest rate at which so many sessions get through, each of which takes a token.

    Number n comes at (n − 1)/rate, when the limiter has given AT_ONCE + NEW_FLOWS (n − 1)/rate tokens and n − 1 are taken. One
    is left for the last if (n − 1)(1 − NEW_FLOWS/rate) <= AT_ONCE − 1.
    """
    return exactly(NEW_FLOWS / (1 - (AT_ONCE - 1) / (sessions - 1)))


# ---- synthetic/ideal: above saturation so much is lost that saturation remains; below it nothing

IDEAL = known_curves.ANSWERS["ideal"]


def ndr() -> Truth:
    return exactly(IDEAL.saturated)


def pdr(loss_ratio: float) -> Truth:
    return exactly(IDEAL.saturated / (1 - loss_ratio))


def frame_loss(offered: float) -> Truth:
    return exactly(max(0.0, 1 - IDEAL.saturated / offered))
