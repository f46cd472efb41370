# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a study says of the packets that diolkos-pktgen sends: their size, their flows, and who runs where."""

from typing import Annotated, Literal

from pydantic import Field

# Who runs where while packets are counted; `run.placement` says what each means.
Seating = Literal["apart", "beside", "one-cpu", "free"]
FrameSize = Annotated[
    int, Field(ge=84, le=9018, description="Bytes of IPv6 frames with FCS; IPv4 frames are 20 shorter (RFC 8219 §5.1.1).")
]
Flows = Annotated[int, Field(ge=1, le=1_000_000, description="Flows that the packets belong to.")]
Seats = Annotated[Seating, Field(description="Which CPUs generator, system and sink have.")]

PKTGEN_S = 0.35  # it starts, loads its programs, looks for the next hop, and waits for the last packets
IPV6_LONGER = 20  # bytes that a header of IPv6 is longer


def frame(size: int, version: int) -> int:
    """Bytes of a frame of that IP version."""
    return size if version == 6 else size - IPV6_LONGER
