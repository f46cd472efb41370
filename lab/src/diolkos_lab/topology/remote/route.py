# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the lab asks of rtnetlink, said to ip(8) on the router's machine: the methods of `pyroute2.IPRoute` that lanes use."""

import json
from collections.abc import Sequence
from typing import Any

from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD

from diolkos_lab.topology.remote.connection import Connection


class RemoteRoutes:
    def __init__(self, connection: Connection, where: str) -> None:
        self._connection, self._where = connection, where

    def link_lookup(self, ifname: str) -> list[int]:
        return [link["ifindex"] for link in self._links() if link["ifname"] == ifname]

    def link(self, verb: str, *, index: int | None = None, **what: Any) -> None:
        if verb == "add":
            self._add(**what)
            return
        assert verb == "set" and index is not None
        words = [each for name in ("mtu", "address") if name in what for each in (name, str(what[name]))]
        self._ip("link", "set", "dev", self._name(index), *words, *([what["state"]] if "state" in what else []))

    def addr(self, verb: str, *, index: int, address: str, prefixlen: int, flags: int = 0) -> None:
        at_once = ["nodad"] if flags & IFA_F_NODAD else []
        self._ip("address", verb, f"{address}/{prefixlen}", "dev", self._name(index), *at_once)

    def route(
        self, verb: str, *, dst: str, gateway: str | None = None, oif: int | None = None, metrics: dict[str, int] | None = None
    ) -> None:
        version = "-6" if ":" in dst else "-4"
        words = ["via", gateway] if gateway else []
        words += ["dev", self._name(oif)] if oif is not None else []
        words += ["mtu", str(metrics["mtu"])] if metrics else []
        self._ip(version, "route", verb, dst, *words)

    def neigh(self, verb: str, *, dst: str, lladdr: str, ifindex: int, state: str) -> None:
        self._ip("neighbour", verb, dst, "lladdr", lladdr, "dev", self._name(ifindex), "nud", state)

    def _add(self, *, ifname: str, kind: str, mtu: int, peer: dict[str, Any]) -> None:
        assert kind == "veth"
        other = ["peer", "name", peer["ifname"], "mtu", str(peer["mtu"]), "netns", peer["net_ns_fd"]]
        self._ip("link", "add", "name", ifname, "mtu", str(mtu), "type", "veth", *other)

    def _name(self, index: int) -> str:
        return next(str(link["ifname"]) for link in self._links() if link["ifindex"] == index)

    def _links(self) -> Sequence[Any]:
        found: list[Any] = json.loads(self._ip("-json", "link"))
        return found

    def _ip(self, *words: str) -> str:
        return str(self._connection.call("ip", words=words, where=self._where))
