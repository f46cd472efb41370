# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The links between the tester's NICs and the router's, shared by all lanes.

All lanes stand at once and have the same addresses, but there is one cable to the client's side and one to the server's. The
NICs are in a namespace of their own on both machines, and every lane gets a macvlan device on each end: Ethernet addresses tell
lanes apart, frames stay as long as they are, and switches need no setting. Each end knows the address of the other (permanent
neighbours), so nobody asks in the hearing of all lanes. Both machines and all lanes pay for macvlan alike, the native path too.

Stages: NICs taken → carrier → joined, lane by lane → NICs given back.
"""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from diolkos_lab.experiment.nics import Nics
from diolkos_lab.faults import Fault, MissingFault
from diolkos_lab.topology import namespace
from diolkos_lab.topology.machine import THIS_MACHINE, Machine
from diolkos_lab.topology.remote import cleanup
from diolkos_lab.topology.remote.machine import RemoteMachine

CARRIER_S = 15.0  # a link of 10 Gbit/s may take this long to come up

RETURN_S = 10.0  # before each block, for a machine that went away
RETRY_S = 0.5


@dataclass(frozen=True)
class LinkEnd:
    """One end of a link of a lane."""

    role: str
    device: str
    address: str  # Ethernet


class NicLinks:
    """Use as a context manager. `connect` reaches the router's machine, again when it has gone away."""

    def __init__(self, nics: Nics, connect: Callable[[], RemoteMachine]) -> None:
        self.nics = nics
        self._connect = connect
        self._joined = 0
        self._is_ready = True
        self.remote = connect()

    def __enter__(self) -> "NicLinks":
        try:
            self._take_here()
            self._take_there()
            self._wait_for_carrier()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.remote.close()
        namespace.remove([self._trunk(THIS_MACHINE)])

    def reconnect(self) -> bool:
        """Reach the router again where it had gone away; True where lanes have to be built anew. Waits a while for it."""
        if self._is_ready and self.remote.gone is None:
            return False
        self._is_ready, end = False, time.monotonic() + RETURN_S
        while True:
            self.remote.close()
            try:
                self.remote = self._connect()
                self._take_there()
                self._wait_for_carrier()
                self._is_ready = True
                return True
            except (Fault, OSError):  # not yet, or what it had before is not yet removed
                if time.monotonic() > end:
                    return False
                time.sleep(RETRY_S)

    def join(self, lane: str, near: tuple[str, str], far: tuple[str, str], names: tuple[str, str], mtu: int) -> list[LinkEnd]:
        """Make a link between roles on both machines. `names` are their namespaces, in the order of `near` and `far`."""
        joints = []
        for (role, device), name in zip((near, far), names, strict=True):
            here = role in ("client", "server")
            machine: Machine = THIS_MACHINE if here else self.remote
            pair = self.nics.tester if here else self.nics.router
            nic = pair.client if near[0] == "client" else pair.server
            self._joined += 1
            address = ethernet_address(f"{lane}/{role}/{self._joined}", machine.owner)
            add = ["link", "add", "link", nic, "name", device, "netns", name, "address", address]
            ip(machine, self._trunk(machine), [*add, "mtu", str(mtu), "type", "macvlan", "mode", "private"])
            joints.append(LinkEnd(role, device, address))
        return joints

    @staticmethod
    def _trunk(machine: Machine) -> str:
        return namespace.full_name(machine.owner, cleanup.NICS, cleanup.NICS)

    def _take_here(self) -> None:
        THIS_MACHINE.create(self._trunk(THIS_MACHINE))
        for nic in (self.nics.tester.client, self.nics.tester.server):
            try:
                cleanup.take(nic, self._trunk(THIS_MACHINE), os.getpid())
            except cleanup.Refused as refused:
                raise MissingFault(f"this machine: {refused}") from None

    def _take_there(self) -> None:
        self.remote.clean()
        self.remote.begin()
        self.remote.create(self._trunk(self.remote))
        for nic in (self.nics.router.client, self.nics.router.server):
            self.remote.connection.call("take", device=nic, where=self._trunk(self.remote))

    def _wait_for_carrier(self) -> None:
        end = time.monotonic() + CARRIER_S
        while True:
            here, there = self.nics.tester, self.nics.router
            idle = [f'"{nic}" here' for nic in cleanup.without_carrier((here.client, here.server), self._trunk(THIS_MACHINE))]
            ask = {"devices": [there.client, there.server], "where": self._trunk(self.remote)}
            idle += [f'"{nic}" of {self.remote.host}' for nic in self.remote.connection.call("without_carrier", **ask)]
            if not idle:
                return
            if time.monotonic() > end:
                raise MissingFault(f"no carrier within {CARRIER_S:g} s on {', '.join(idle)}: check cables and names of NICs")
            time.sleep(0.1)


def ethernet_address(end: str, owner: namespace.Owner) -> str:
    """One of its own for each end of each build, locally administered: a device that was removed keeps its for a while."""
    digest = hashlib.blake2s(f"{end}/{owner.pid}/{owner.started}".encode(), digest_size=5).digest()
    return ":".join(f"{byte:02x}" for byte in (2, *digest))


def ip(machine: Machine, where: str, words: list[str]) -> None:
    status, text = machine.output(["nsenter", f"--net={namespace.DIRECTORY / where}", "ip", *words])
    if status:
        raise Fault(f"{machine.host or 'this machine'}: `ip {' '.join(words)}` failed: {' '.join(text.split())}")
