# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The names that loads ask for, and how a program gets a resolver of its own without touching the host's files.

All names are of one length, so that the address in an answer always stands at the same place. Each trial's serial is in its
names: no cache on the way knows them.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from diolkos_lab.topology import mounts

DOMAIN = "example.test"  # RFC 6761 sets `test` aside
MOST = 9_999_999
RESOLV_CONF, NSSWITCH = Path("/etc/resolv.conf"), Path("/etc/nsswitch.conf")
# Its socket would lead past the namespace to the host's resolver.
NSCD = Path("/run/nscd")

# Each pair of arguments before `--` is a file and what it hides.
_MOUNT = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done; shift; exec "$@"'


def name(serial: int, number: int) -> str:
    return f"t{serial:06d}n{number:07d}.{DOMAIN}"


def wire_length() -> int:
    """Bytes that each of the names takes in a message (RFC 1035 §3.1)."""
    return len(name(0, 0)) + 2


def pattern(serial: int) -> str:
    """The same names for curl, from the first to the last."""
    return f"t{serial:06d}n[{1:07d}-{MOST:07d}].{DOMAIN}"


def with_resolver(command: Sequence[str], resolver: IPv4Address | IPv6Address, folder: Path) -> list[str]:
    """The command, for which `resolver` is the only source of names. What it sees of /etc is its own; the host's stays."""
    own = {RESOLV_CONF: f"nameserver {resolver}\n", NSSWITCH: "hosts: dns\n"}
    hidden: list[str] = []
    for file, text in own.items():
        if file.exists():
            (folder / file.name).write_text(text)
            hidden += [str(folder / file.name), str(file)]
    if NSCD.is_dir():
        (folder / "nothing").mkdir(exist_ok=True)
        hidden += [str(folder / "nothing"), str(NSCD)]
    return mounts.own(["sh", "-c", _MOUNT, "sh", *hidden, "--", *command])
