# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What all loads of the packet generator have in common, and the one that only asks how many frames a path forwards."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import StrictModel
from diolkos_lab.experiment.offloads import Offloads

# Who runs where while packets are counted; `run.placement` says what each means.
CpuPlacement = Literal["apart", "beside", "one-cpu", "free"]
FrameSize = Annotated[
    int, Field(ge=84, le=9018, description="Bytes of IPv6 frames with FCS; IPv4 frames are 20 shorter (RFC 8219 §5.1.1).")
]
MOST_FLOWS = 1_000_000
Flows = Annotated[
    Annotated[int, Field(ge=1, le=MOST_FLOWS)] | Literal["unique"],
    Field(
        description="Flows that the packets belong to, with pseudo-random ports (RFC 4814 §4.5); unique: each packet is of "
        "another flow, and its source is one of 256 clients."
    ),
]
Directions = Annotated[
    Literal["one", "both"],
    Field(description="one: from the client to the server. both: each direction at the offered rate, at once."),
]
NextHops = Annotated[
    Literal[1, 64], Field(description="Next hops of the router on the server's link; each has a destination behind it.")
]
ManyNodes = Annotated[
    Literal[1, 16_384],
    Field(description="Clients that the flows come from, each an address of its own; a flow is of a pseudo-random one."),
]
NativeShare = Annotated[
    float,
    Field(
        ge=0,
        le=0.9,
        description="Share of the packets that are native IPv6, which nobody translates, beside the others (RFC 8219 §5.3).",
    ),
]
PlacementChoice = Annotated[CpuPlacement, Field(description="Which CPUs generator, system and sink have.")]

PKTGEN_S = 0.35  # it starts, loads its programs, looks for the next hop, and waits for the last packets
IPV6_LONGER = 20  # bytes that a header of IPv6 is longer


def frame(size: int, version: int) -> int:
    """Bytes of a frame of that IP version."""
    return size if version == 6 else size - IPV6_LONGER


def flows_words(flows: int | str) -> str:
    """ "4096 flows"; "a flow for each packet"."""
    return "a flow for each packet" if flows == "unique" else f"{flows} flow{'s' * (str(flows) != '1')}"


def native_words(share: float | str) -> str:
    """ "50 % native IPv6 beside"."""
    return f"{float(share):.0%} native IPv6 beside".replace("%", " %")


def traffic_words(factors: Mapping[str, Any]) -> str:
    """Of the factors of a load or a row: "4096 flows, both directions, 64 next hops"."""
    said = [flows_words(factors["flows"])]
    said += ["both directions"] if factors.get("directions") == "both" else []
    said += [f"{factors['next_hops']} next hops"] if factors.get("next_hops", 1) > 1 else []
    said += [f"{factors['nodes']} nodes"] if factors.get("nodes", 1) > 1 else []
    said += [native_words(factors["native_share"])] if factors.get("native_share") else []
    return ", ".join(said)


class Traffic(StrictModel):
    """What the packets of a generator look like, and between whom they go."""

    flows: Flows = 4096
    directions: Directions = "one"
    next_hops: NextHops = 1
    nodes: ManyNodes = 1
    native_share: NativeShare = 0.0
    placement: PlacementChoice = "apart"
    offloads: Offloads = ("on",)

    @model_validator(mode="after")
    def _many_nodes_send(self) -> "Traffic":
        if self.nodes > 1 and (self.flows == "unique" or self.directions == "both" or self.native_share):
            raise ValueError("many nodes send a number of flows in one direction, with nothing beside them")
        return self

    @property
    def traffic(self) -> dict[str, str | int | float]:
        """The factors. Directions, next hops, nodes: named where there are several; native packets: where there are any."""
        named: dict[str, str | int | float] = {"placement": self.placement, "flows": self.flows}
        if self.directions == "both":
            named["directions"] = self.directions
        if self.next_hops > 1:
            named["next_hops"] = self.next_hops
        if self.nodes > 1:
            named["nodes"] = self.nodes
        if self.native_share:
            named["native_share"] = self.native_share
        return named

    @property
    def as_fields(self) -> dict[str, Any]:
        """For another load of the same traffic."""
        return {name: getattr(self, name) for name in Traffic.model_fields}


class FramesLoad(Traffic):
    """The same, with frames of one size."""

    size: FrameSize = 84

    def frame(self, version: int) -> int:
        """Bytes of a frame of that IP version."""
        return frame(self.size, version)

    @property
    def traffic(self) -> dict[str, str | int | float]:
        return {"size": self.size, **super().traffic}


class ForwardingRateLoad(FramesLoad):
    """diolkos-pktgen offers as many packets as it can make. The rate is what arrives: the forwarding rate at maximum offered
    load (RFC 2285 §3.6.2).

    Unlike the rate at which a path begins to lose packets, it does not depend on how long a ring is, and a CPU that stands
    still for a moment takes no more from it than that moment.
    """

    name: Literal["forwarding-rate"]
    seconds: float = Field(ge=0.05, le=600, description="Length of a trial, seconds.")
    backwards: bool = Field(False, description="Set by the lab where it counts instructions: from the server to the client.")

    @model_validator(mode="after")
    def _native_packets_have_a_rate(self) -> "ForwardingRateLoad":
        if self.native_share:
            raise ValueError(
                "native_share is a share of an offered rate, and forwarding-rate has none; use pps, latency or rfc8219"
            )
        return self

    @property
    def offered(self) -> None:
        """Without a limit."""
        return None

    @property
    def factors(self) -> dict[str, str | int | float]:
        return {**self.traffic, "seconds": self.seconds, **({"backwards": 1} if self.backwards else {})}

    @property
    def expected_s(self) -> float:
        return self.seconds + PKTGEN_S
