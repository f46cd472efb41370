# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The witness of a cluster: flows of subscribers through its gateways, and whether each byte is where it belongs.

`subscribing.py` runs where subscribers are, `answering.py` where the server is; here is what a test asks them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from network import Network
from plan import SERVER4, SERVER6, SERVER_PORT, owner, prefix

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Flow:
    """One flow, as its subscriber sees it. Times are in seconds."""

    subscriber: int
    number: int
    kind: str
    local: list
    sent: int
    heard: int
    lost: int  # requests of more than 2 s ago without an answer
    gap: float  # the longest time without an answer
    silent: float  # since the last answer
    broken: str
    seen: list[list]  # external addresses and ports, one after the other

    @property
    def stays(self) -> bool:
        """Whether it is the same flow as before, for the server."""
        return not self.broken and (self.kind == "ping" or len(self.seen) == 1)


@dataclass(frozen=True)
class Opened:
    """New flows of one subscriber."""

    subscriber: int
    kind: str
    opened: int
    failed: int
    gap: float  # the longest time without one that succeeds
    silent: float  # since the last one that succeeded
    seen: dict[str, int]  # how many came from which external address


class Program:
    """One of the witness's programs, in a namespace."""

    def __init__(self, network: Network, name: str, script: str, *arguments: str) -> None:
        log = network.scratch / f"log-{script}-{name}"
        with log.open("w") as sink:
            self.process = network.start(
                name,
                *(sys.executable, str(HERE / script), *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
            )
        self.log = log

    def ask(self, word: str) -> dict:
        """Give an order, and return what it reports."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, json.JSONDecodeError) as fault:
            raise AssertionError(f"the witness has ended: {self.log.read_text()}") from fault


class Answering(Program):
    """The server."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network, name, "answering.py", SERVER4, str(SERVER_PORT))


class Subscribers(Program):
    """All subscribers of one namespace."""

    def __init__(self, network: Network, name: str, numbers: list[int], **options: float) -> None:
        given = {"server": SERVER6, "port": SERVER_PORT, "prefixes": {number: prefix(number) for number in numbers}}
        super().__init__(network, name, "subscribing.py", json.dumps(given | options))


@dataclass(frozen=True)
class Report:
    """What all of them say at one time."""

    flows: list[Flow]
    new: list[Opened]
    wrong: list[str]
    begun: bool
    external: dict[str, int]
    changed: int  # times that an external port has had another subscriber than before

    def moved(self) -> list[Flow]:
        """Flows that are not what they were."""
        return [flow for flow in self.flows if not flow.stays]

    def nothing_moved(self) -> None:
        """No flow is broken, and each is at the external address and port where it was."""
        moved = self.moved()
        ways = Counter((flow.kind, flow.broken, *(owner(address) for address, _ in flow.seen)) for flow in moved)
        assert not moved, f"{len(moved)} of {len(self.flows)} flows: {ways}, such as {moved[:2]}"

    def nothing_lost(self) -> None:
        """Each datagram has had its answer."""
        lost = [flow for flow in self.flows if flow.lost and flow.kind == "udp"]
        kinds = Counter((flow.subscriber, *(owner(address) for address, _ in flow.seen[-1:])) for flow in lost)
        assert not lost, f"{sum(flow.lost for flow in lost)} datagrams of {len(lost)} flows: {kinds}, such as {lost[:3]}"

    def gap(self) -> float:
        """The longest silence of any flow, seconds."""
        return max(flow.gap for flow in self.flows)

    def silent(self, seconds: float) -> list[Flow]:
        """Flows that have had no answer for so long."""
        return [flow for flow in self.flows if flow.silent > seconds]

    def homes(self) -> Counter[str]:
        """How many flows of UDP and TCP have their last external address at which gateway; see `plan.owner`."""
        return Counter(owner(flow.seen[-1][0]) for flow in self.flows if flow.seen)


class Witness:
    """The server and all subscribers."""

    def __init__(self, network: Network, server: str, clients: dict[str, list[int]], **options: float) -> None:
        self.answering = Answering(network, server)
        self.answering.ask("report")  # from now on it listens
        self.subscribers = [Subscribers(network, name, numbers, **options) for name, numbers in clients.items()]

    def report(self, word: str = "report") -> Report:
        """What they say now. No byte at the wrong subscriber, and no port of two, ever."""
        said = [each.ask(word) for each in self.subscribers]
        served = self.answering.ask(word)
        wrong = [text for each in (*said, served) for text in each["wrong"]]
        assert not wrong, "\n".join(wrong)
        return Report(
            [Flow(**flow) for each in said for flow in each["flows"]],
            [Opened(**opened) for each in said for opened in each["new"]],
            wrong,
            all(each["begun"] for each in said),
            served["external"],
            served["changed"],
        )

    def fresh(self) -> Report:
        """The same, and what was measured until now is forgotten: gaps, losses, former external addresses, new flows."""
        return self.report("fresh")
