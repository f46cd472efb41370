# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What all loads of the packet generator have in common, and the one that only asks how many frames a path forwards."""

from typing import Annotated, Literal

from pydantic import Field

from diolkos_lab.experiment.document import StrictModel
from diolkos_lab.experiment.offloads import Offloads

# Who runs where while packets are counted; `run.placement` says what each means.
CpuPlacement = Literal["apart", "beside", "one-cpu", "free"]
FrameSize = Annotated[
    int, Field(ge=84, le=9018, description="Bytes of IPv6 frames with FCS; IPv4 frames are 20 shorter (RFC 8219 §5.1.1).")
]
Flows = Annotated[int, Field(ge=1, le=1_000_000, description="Flows that the packets belong to.")]
PlacementChoice = Annotated[CpuPlacement, Field(description="Which CPUs generator, system and sink have.")]

PKTGEN_S = 0.35  # it starts, loads its programs, looks for the next hop, and waits for the last packets
IPV6_LONGER = 20  # bytes that a header of IPv6 is longer


def frame(size: int, version: int) -> int:
    """Bytes of a frame of that IP version."""
    return size if version == 6 else size - IPV6_LONGER


class ForwardingRateLoad(StrictModel):
    """diolkos-pktgen offers as many packets as it can make. The rate is what arrives: the forwarding rate at maximum offered
    load (RFC 2285 §3.6.2).

    Unlike the rate at which a path begins to lose packets, it does not depend on how long a ring is, and a CPU that stands
    still for a moment takes no more from it than that moment.
    """

    name: Literal["forwarding-rate"]
    seconds: float = Field(ge=0.05, le=600, description="Length of a trial, seconds.")
    size: FrameSize = 84
    flows: Flows = 16
    placement: PlacementChoice = "apart"
    offloads: Offloads = ("on",)

    @property
    def offered(self) -> None:
        """Without a limit."""
        return None

    def frame(self, version: int) -> int:
        """Bytes of a frame of that IP version."""
        return frame(self.size, version)

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {"placement": self.placement, "size": self.size, "seconds": self.seconds, "flows": self.flows}

    @property
    def expected_s(self) -> float:
        return self.seconds + PKTGEN_S
