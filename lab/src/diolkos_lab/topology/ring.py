# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rings of a network device, as `ethtool -g` shows and `-G` sets them. Virtual devices have none that can be set."""

import contextlib
from dataclasses import dataclass

from pyroute2.ethtool import Ethtool
from pyroute2.ethtool.ioctl import EthtoolError

from diolkos_lab.faults import Fault
from diolkos_lab.topology import namespace


@dataclass(frozen=True)
class Rings:
    """Packets that wait on the way in and on the way out; None where the device does not have that ring."""

    rx: int | None
    tx: int | None


@dataclass(frozen=True)
class Device:
    """A device of a lane."""

    namespace: str
    name: str

    def rings(self) -> Rings | None:
        """As they are; None for a device without rings."""
        return self._read("")

    def largest(self) -> Rings | None:
        """The device's limits."""
        return self._read("_max")

    def use(self, rings: Rings) -> None:
        """Raises Fault when the device does not take them."""
        wanted = {name: size for name, size in (("rx", rings.rx), ("tx", rings.tx)) if size}
        try:
            with self._ethtool() as ethtool:
                ethtool.set_rings(self.name, **wanted)
        except (EthtoolError, OSError) as error:
            sizes = ", ".join(f"{name} {size}" for name, size in wanted.items())
            raise Fault(f"{self.name} does not take rings of {sizes}: {error}") from error
        if (kept := self.rings()) != rings:
            raise Fault(f"{self.name} was given {rings} and has {kept}")

    def _read(self, suffix: str) -> Rings | None:
        try:
            with self._ethtool() as ethtool:
                found = ethtool.get_rings(self.name)
        except (EthtoolError, OSError):
            return None
        rings = Rings(*(getattr(found, f"{name}{suffix}") or None for name in ("rx", "tx")))
        return rings if rings.rx or rings.tx else None

    @contextlib.contextmanager
    def _ethtool(self):  # type: ignore[no-untyped-def]
        with namespace.entered(self.namespace), contextlib.closing(Ethtool()) as ethtool:
            yield ethtool
