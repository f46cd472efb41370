# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Under the units of the package, and the systemd of each release, the program's own filters are in force.

tests/services has the same with the units of this tree and this machine's systemd.
"""

from __future__ import annotations

import sys
from pathlib import Path

from host import Host
from nat64 import CONFIG, Nat64Network
from siit import PREF64

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "services"))

from confined import check, drop_in

NAT64, BESIDE, DNS64, CLAT = (
    "diolkos@nat.service",
    "diolkos-dns64@nat.service",
    "diolkos-dns64@names.service",
    "diolkos-clat@b6.service",
)
NAMES = '[dns64]\nlisten = ["[::1]:53"]\nupstream = ["[::1]:5300"]\n'
STATE = '[nat64]\nstate = "/var/lib/diolkos/nat.state"\n[[nat64.pool4]]'


def test_all_units(host: Host, network: Nat64Network, packages: Path) -> None:
    """A NAT64 and a DNS64 of one file, a DNS64 alone, and a CLAT."""
    host.install(packages / "diolkos.deb")
    host.run("ip", "link", "set", "lo", "up")
    host.write("/etc/diolkos/nat.toml", CONFIG.replace("[[nat64.pool4]]", STATE) + NAMES)
    host.write("/etc/diolkos/names.toml", NAMES)
    host.write("/etc/diolkos/clat-b6.env", f"CLAT_OPTIONS=--pref64 {PREF64}\n")
    for unit in (NAT64, BESIDE, DNS64, CLAT):
        path, text = drop_in(unit)
        host.run("mkdir", "-p", str(Path(path).parent))
        host.write(path, text)
    host.run("systemctl", "daemon-reload")

    host.run("systemctl", "start", NAT64)
    host.run("systemctl", "start", BESIDE)
    check(host, NAT64, 1, "diolkos0")
    check(host, BESIDE, 1, "dns64")
    host.run("systemctl", "stop", NAT64, BESIDE)

    host.run("systemctl", "start", DNS64)
    check(host, DNS64, 1, "dns64")
    host.run("systemctl", "stop", DNS64)

    host.run("systemctl", "start", CLAT)
    check(host, CLAT, 1, "diolkos0")
