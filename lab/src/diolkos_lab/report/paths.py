# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What was compared: each kind of path in one sentence, with the systems that were measured on it."""

from __future__ import annotations

from diolkos_lab.report.chapters import Chapter
from diolkos_lab.report.read import Results
from diolkos_lab.report.systems import order, short_label
from diolkos_lab.report.tables import kind

KINDS = {
    "Baseline": "The kernel forwards what the client sends; nothing translates.",
    "CLAT": "The application speaks IPv4, the access network has IPv6 only. The translator makes IPv6 of it at the client's "
    "side; the server answers on the IPv6 address that stands for its IPv4 address.",
    "SIIT": "A router translates without state: IPv4 on the client's side, IPv6 on the server's.",
    "NAT64": "The client has IPv6 only and sends to an address behind the translation prefix. The router makes IPv4 of it, "
    "with state, for a server that has IPv4 only.",
    "NAT64 from IPv4": "The client has IPv4 only and sends to an address of the router. A static binding leads to a server "
    "that has IPv6 only.",
    "464XLAT": "The application speaks IPv4, the access network has IPv6 only, the server has IPv4 only: translated at the "
    "client, and back again on the router.",
    "DNS64": "No packets of an application: the resolver on the router, which answers with an address behind the translation "
    "prefix for a name that has IPv4 only. On the paths called NAT64 it is there as well, for loads that ask for names.",
    "cluster": "Three stateful NAT64 gateways, which have copies of each other's bindings.",
    "independent": "Three stateful NAT64 gateways that share nothing: what nothing protects is lost.",
    "stateless": "Three stateless gateways, which have nothing to lose: what routing alone takes.",
    "NAT44": "IPv4 throughout; the router hides the client's address behind its own.",
}


def chapter(results: Results) -> Chapter:
    found: dict[str, list[str]] = {}
    for cell in sorted(results.cells, key=order):
        names = found.setdefault(kind(cell), [])
        if short_label(cell) not in names:
            names.append(short_label(cell))
    return Chapter("paths", "What was compared", pairs=[("; ".join(names), KINDS[name]) for name, names in found.items()])
