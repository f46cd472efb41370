# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the kernel still has of a translator in the client's namespace."""

from __future__ import annotations

import platform
import re
import sys

from network import Network

VERSION = tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])
HAS_TCX = VERSION >= (6, 6)
# Where programs can hang here. Unless it is told otherwise, diolkos takes the first.
HOOKS = ["tcx", "clsact"] if HAS_TCX else ["clsact"]

# bpf(2) with BPF_PROG_QUERY (command 16): how many programs hang at a tcx hook. Attach types 46 and 47, of which a kernel
# without tcx knows nothing.
TCX_QUERY = f"""
import ctypes, socket, struct, sys
if not {HAS_TCX}:
    sys.exit(print(0))
libc = ctypes.CDLL(None, use_errno=True)
total = 0
for attach_type in (46, 47):
    attr = bytearray(struct.pack("<IIIIQIIQ", socket.if_nametoindex(sys.argv[1]), attach_type, 0, 0, 0, 0, 0, 0))
    attr += bytes(128 - len(attr))
    buffer = (ctypes.c_char * len(attr)).from_buffer(attr)
    if libc.syscall(321, 16, buffer, len(attr)) < 0:
        sys.exit(f"bpf: errno {{ctypes.get_errno()}}")
    total += struct.unpack_from("<I", attr, 24)[0]
print(total)
"""


def tcx_programs(net: Network, interface: str) -> int:
    """Programs on both tcx hooks of an interface."""
    return int(net.run(net.client, sys.executable, "-c", TCX_QUERY, interface).stdout)


def remains(net: Network) -> list[str]:
    """Everything in the client's namespace that a translator could have left."""
    found = [link["ifname"] for link in net.ip_json(net.client, "link") if link["ifname"].startswith("diolkos")]
    for family in ("-4", "-6"):
        routes = net.run(net.client, "ip", family, "route", "show", "table", "all").stdout.splitlines()
        found += [route for route in routes if "diolkos" in route or "192.0.0.1" in route]
        # The way of what a CLAT's device sends.
        found += [route for route in routes if " from " in route and " expires " in route]
    if any(link["ifname"] == "wan0" for link in net.ip_json(net.client, "link")):
        if tcx_programs(net, "wan0"):
            found.append("tcx program on wan0")
        if "clsact" in net.run(net.client, "tc", "qdisc", "show", "dev", "wan0").stdout:
            found.append("qdisc clsact on wan0")
        for side in ("ingress", "egress"):
            shown = net.run(net.client, "tc", "filter", "show", "dev", "wan0", side, check=False).stdout
            found += [f"filter {line}" for line in shown.splitlines() if "bpf" in line]
    return found


def forwarding(net: Network) -> dict[str, str]:
    """Every setting of the namespace about forwarding and router advertisements, by its path."""
    script = "grep -H . $(find /proc/sys/net/ipv[46]/conf -name forwarding -o -name force_forwarding -o -name accept_ra)"
    lines = net.run(net.client, "sh", "-c", script).stdout.split()
    settings = dict(line.split(":", 1) for line in lines)
    # The TUN device takes its own settings along.
    return {path: value for path, value in settings.items() if "diolkos" not in path}
