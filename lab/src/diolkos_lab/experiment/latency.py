# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The load `latency`: the delay of every packet of a stream that the path carries with ease."""

from typing import Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.frames import PKTGEN_S, FramesLoad


class LatencyLoad(FramesLoad):
    """diolkos-pktgen sends packets one at a time, at a share of the rate at which the native path begins to lose packets.

    The warm-up finds that rate, and every path gets the same packets a second: who carries more is not asked to do more. In a
    trial `offered` is the rate.
    """

    name: Literal["latency"]
    packets: int = Field(
        20_000,
        ge=10_000,
        le=1_000_000_000,
        description="Packets of a trial. The more, the longer it takes, and the surer something disturbs it.",
    )
    share: float = Field(0.5, gt=0, lt=1, description="Rate, as a share of that at which the native path begins to lose.")
    lowest: int = Field(20_000, ge=10, description="Rate at which the warm-up begins to search, packets/s.")
    highest: int = Field(2_000_000, ge=1000, description="Highest rate of the search, packets/s.")
    offered: int | None = Field(None, description="Set by the lab: rate of one trial, packets/s.")
    searches: bool = Field(False, description="Set by the lab: a probe, whose packets leave in bursts as those of a curve.")

    @model_validator(mode="after")
    def _lowest_is_not_above_highest(self) -> "LatencyLoad":
        if self.lowest > self.highest:
            raise ValueError("lowest is above highest")
        return self

    def at(self, offered: float) -> "LatencyLoad":
        """One trial of it."""
        return self.model_copy(update={"offered": max(1, round(offered))})

    def probe(self, offered: int, seconds: float) -> "LatencyLoad":
        """One probe of the search for the rate."""
        return self.model_copy(update={"offered": offered, "packets": round(offered * seconds), "searches": True})

    @property
    def seconds(self) -> float:
        """Length of a trial; of one whose rate is not known yet, at most."""
        return self.packets / (self.offered or self.lowest)

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {**self.traffic, "packets": self.packets, "share": self.share}

    @property
    def expected_s(self) -> float:
        return self.seconds + PKTGEN_S
