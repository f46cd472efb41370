# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two interfaces of this host with a black box between them: whatever is cabled to both, and the lab cannot look into.

The interfaces are in a namespace of their own as long as the run lasts, and every lane has a macvlan device on each. All lanes
have the same addresses, of Ethernet too, so that the box always sees one client and one server; only the devices of the lane
that is measured are up. The lab touches no other interface, and gives these two back; after SIGKILL `clean` does.

Stages: interfaces taken → carrier → joined, lane by lane → one lane awake at a time → interfaces given back.
"""

import os
import time
from typing import TYPE_CHECKING

from diolkos_lab.experiment.nics import Pair
from diolkos_lab.faults import MissingFault
from diolkos_lab.topology import namespace
from diolkos_lab.topology.machine import THIS_MACHINE
from diolkos_lab.topology.nic_links import CARRIER_S, ethernet_address, ip
from diolkos_lab.topology.remote import cleanup

if TYPE_CHECKING:
    from diolkos_lab.topology.lane import Lane


class BoxLinks:
    """Use as a context manager."""

    remote = None  # nothing of the lab is behind these links

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._awake: Lane | None = None

    def __enter__(self) -> "BoxLinks":
        try:
            THIS_MACHINE.create(self._trunk)
            for nic in (self.pair.client, self.pair.server):
                cleanup.take(nic, self._trunk, os.getpid())
            self._wait_for_carrier()
        except cleanup.Refused as refused:
            self.close()
            raise MissingFault(f"--box: {refused}") from None
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        namespace.remove([self._trunk])

    def reconnect(self) -> bool:
        """The interfaces are here, and never have to be reached again."""
        return False

    def join(self, end: str, device: str, where: str, mtu: int) -> None:
        """Make the device of a lane's client or server. It is down."""
        nic = self.pair.client if end == "client" else self.pair.server
        add = ["link", "add", "link", nic, "name", device, "netns", where, "address", ethernet_address(end, THIS_MACHINE.owner)]
        ip(THIS_MACHINE, self._trunk, [*add, "mtu", str(mtu), "type", "macvlan", "mode", "private"])

    def wake(self, lane: "Lane") -> bool:
        """Lay the lane that was awake to sleep; True where it is another one, so that this one's devices are still down."""
        if self._awake is lane:
            return False
        if self._awake is not None:
            self._awake.sleep()
        self._awake = lane
        return True

    def forget(self, lane: "Lane") -> None:
        """It is removed."""
        if self._awake is lane:
            self._awake = None

    @property
    def _trunk(self) -> str:
        return namespace.full_name(THIS_MACHINE.owner, cleanup.NICS, cleanup.NICS)

    def _wait_for_carrier(self) -> None:
        end = time.monotonic() + CARRIER_S
        while idle := cleanup.without_carrier((self.pair.client, self.pair.server), self._trunk):
            if time.monotonic() > end:
                raise MissingFault(
                    f"--box: no carrier within {CARRIER_S:g} s on {', '.join(idle)}: is the box connected and on?"
                )
            time.sleep(0.1)
