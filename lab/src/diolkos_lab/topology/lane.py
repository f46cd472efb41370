# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A lane: client, router and server in namespaces of their own, joined by veth pairs; one system under test lives in it.

Each system has a whole lane to itself. All lanes have the same shape and the same addresses, so paths of the same hops are
equal by construction, and nothing that one system brings along (conntrack hooks, routes, programs on a device) can slow
another. A lane that is not measured sleeps and costs nothing.

Stages: namespaces → settings → links → addresses → routes → offloads.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from pathlib import Path

from pyroute2.ethtool import Ethtool

from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace

IPV6_HEADER_MINUS_IPV4 = 20


@dataclass(frozen=True)
class Shape:
    """What distinguishes one kind of lane from another."""

    hops: int  # routers between client and server that are not the router itself count: 1 or 2
    ipv6_only: bool  # the access network carries no IPv4, as where a CLAT is needed
    offloads: bool
    pref64: IPv6Network
    mtu: int
    inbound: bool = False  # the client has IPv4, and a translator on the router leads to a server that has IPv6
    plat: bool = False  # the system on the router translates to IPv4; without it the server itself answers behind the prefix
    addresses: plan.Plan = plan.BENCHMARK


class Lane:
    """Namespaces and links of one system. Use as a context manager: leaving it removes everything."""

    def __init__(self, name: str, shape: Shape) -> None:
        self.name = name
        self.shape = shape
        self._polling: set[tuple[str, str]] = set()
        self.roles = ("client", "translator", "router", "server") if shape.hops == 2 else ("client", "router", "server")
        owner = namespace.Owner.me()
        self._namespaces = {role: namespace.full_name(owner, name, role) for role in self.roles}

    def __enter__(self) -> "Lane":
        try:
            self._build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def namespace(self, role: str) -> str:
        """Name of the namespace of `client`, `translator` (2 hops only), `router` or `server`."""
        return self._namespaces[role]

    def client_address(self, version: int) -> IPv4Address | IPv6Address:
        """The client's own address, IPv4 (which an IPv6-only access of one hop does not have) or IPv6."""
        at = self.shape.addresses
        if version == 6:
            return (at.a6 if self.shape.hops == 1 else at.b6)[0].ip
        if self.shape.ipv6_only:
            return (plan.CLAT4 if self.shape.hops == 1 else plan.CLAT4_PEER).ip
        return (at.a4 if self.shape.hops == 1 else at.b4)[0].ip

    def remove(self) -> None:
        namespace.remove(list(self._namespaces.values()))

    def default_route(self, role: str, device: str, mtu: int) -> None:
        """IPv4 default route into a translator's device, with an MTU that no packet outgrows when it becomes IPv6."""
        with namespace.netlink(self.namespace(role)) as route:
            index = route.link_lookup(ifname=device)[0]
            route.route("replace", dst="0.0.0.0/0", oif=index, metrics={"mtu": mtu})

    def _build(self) -> None:
        for role in self.roles:
            namespace.create(self._namespaces[role])
            self._settings(role)
        near = "client"
        if self.shape.hops == 2:
            self._link("client", "translator", plan.UPLINK, plan.DOWNLINK)
            near = "translator"
        self._link(near, "router", plan.UPLINK, plan.DOWNLINK)
        self._link("router", "server", plan.SERVER_LINK, plan.SERVER_LINK)
        self._addresses(near)
        self._routes(near)
        if not self.shape.offloads:
            for role, device in self.devices():
                self._switch_offloads_off(role, device)

    def devices(self) -> Iterator[tuple[str, str]]:
        """Every (role, device) of the lane, from the client to the server."""
        yield "client", plan.UPLINK
        if self.shape.hops == 2:
            yield "translator", plan.DOWNLINK
            yield "translator", plan.UPLINK
        yield "router", plan.DOWNLINK
        yield "router", plan.SERVER_LINK
        yield "server", plan.SERVER_LINK

    def features(self, role: str, device: str) -> dict[str, bool]:
        """The device's offloads as `ethtool -k` lists them: name to on or off."""
        with namespace.entered(self._namespaces[role]), contextlib.closing(Ethtool()) as ethtool:
            return {name: feature.enable for name, feature in ethtool.get_features(device).features.items()}

    def poll(self, role: str, device: str, *, on: bool) -> None:
        """Let a device poll, by generic receive offload (GRO). One that has to poll for the system under test goes on."""
        with namespace.entered(self._namespaces[role]), contextlib.closing(Ethtool()) as ethtool:
            features = ethtool.get_features(device)
            features.features["rx-gro"].enable = on or (role, device) in self._polling
            ethtool.set_features(device, features)

    def poll_around(self, role: str) -> None:
        """Let the other ends of the links of `role` poll from now on, so that its frames of XDP enter them."""
        ends = list(self.devices())
        for near, far in zip(ends[::2], ends[1::2], strict=True):
            for (owner, _), other in ((near, far), (far, near)):
                if owner == role:
                    self._polling.add(other)
                    self.poll(*other, on=True)

    def _settings(self, role: str) -> None:
        """Kernel settings of one namespace; they end with it."""
        router = role in ("router", "translator")
        settings = {
            # Duplicate address detection would keep an address unusable for a second.
            "ipv6/conf/default/accept_dad": 0,
            "ipv6/conf/all/accept_dad": 0,
            "ipv6/conf/all/forwarding": int(router),
            "ipv4/ip_forward": int(router),
            "ipv4/conf/all/rp_filter": 0,
            "ipv4/conf/default/rp_filter": 0,
            # Otherwise a connection inherits window and threshold from the one before: trials would not be independent.
            "ipv4/tcp_no_metrics_save": 1,
            # The ends' buffers. Unlimited, several megabytes wait at one end in some trials and not in others; they fall
            # out of the CPU's cache, and the native path drops to 0.6 of itself for seconds. 2 MiB are a window for
            # 30 Gbit/s at half a millisecond, far more than any path here has.
            "ipv4/tcp_rmem": "4096 131072 2097152",
            "ipv4/tcp_wmem": "4096 16384 4194304",
            "ipv4/tcp_notsent_lowat": 131072,
        }
        with namespace.netlink(self._namespaces[role]) as route:
            for key, value in settings.items():
                Path("/proc/sys/net", key).write_text(str(value))
            route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")

    def _link(self, near: str, far: str, near_device: str, far_device: str) -> None:
        """A veth pair, created inside the namespaces: no device of it ever appears on the host."""
        with namespace.netlink(self._namespaces[near]) as route:
            route.link(
                "add",
                ifname=near_device,
                kind="veth",
                mtu=self.shape.mtu,
                peer={"ifname": far_device, "net_ns_fd": self._namespaces[far], "mtu": self.shape.mtu},
            )

    def _addresses(self, near: str) -> None:
        at = self.shape.addresses
        dual = not self.shape.ipv6_only
        literal: list[object] = [
            f"{plan.LITERAL4}/32" if self.shape.plat else f"{plan.synthesized(self.shape.pref64, plan.LITERAL4)}/128"
        ]
        assign: dict[tuple[str, str], list[object]] = {
            (near, plan.UPLINK): [at.a6[0], *([at.a4[0]] if dual else [])],
            ("router", plan.DOWNLINK): [at.a6[1], *([at.a4[1]] if dual else [])],
            ("router", plan.SERVER_LINK): [at.s6[0], at.s4[0]],
            ("server", plan.SERVER_LINK): [at.s6[1], at.s4[1], *([] if self.shape.inbound else literal)],
        }
        if self.shape.hops == 2:
            assign["client", plan.UPLINK] = [at.b6[0], at.b4[0] if dual else plan.CLAT4_PEER]
            assign["translator", plan.DOWNLINK] = [at.b6[1], at.b4[1] if dual else plan.CLAT4]
        for (role, device), interfaces in assign.items():
            with namespace.netlink(self._namespaces[role]) as route:
                index = route.link_lookup(ifname=device)[0]
                for interface in interfaces:
                    address, _, length = str(interface).partition("/")
                    route.addr("add", index=index, address=address, prefixlen=int(length))
                route.link("set", index=index, state="up")

    def _routes(self, near: str) -> None:
        at = self.shape.addresses
        dual = not self.shape.ipv6_only
        routes: dict[str, list[dict[str, object]]] = {
            near: [{"dst": "::/0", "gateway": str(at.a6[1].ip)}],
            "router": [
                *([] if self.shape.inbound else [self._behind_prefix]),
                {"dst": str(plan.CLAT6_NETWORK), "gateway": str(at.a6[0].ip)},
                {"dst": str(at.b6[0].network), "gateway": str(at.a6[0].ip)},
            ],
            "server": [
                {"dst": "::/0", "gateway": str(at.s6[0].ip)},
                {"dst": "0.0.0.0/0", "gateway": str(at.s4[0].ip)},
            ],
        }
        if not dual:
            # A server of datagrams answers from the address that its route prefers, not from the one that it was asked at.
            own = plan.LITERAL4 if self.shape.plat else plan.synthesized(self.shape.pref64, plan.LITERAL4)
            routes["server"][own.version == 4]["prefsrc"] = str(own)
        if dual:
            routes[near].append({"dst": "0.0.0.0/0", "gateway": str(at.a4[1].ip)})
            routes["router"].append({"dst": str(at.b4[0].network), "gateway": str(at.a4[0].ip)})
        if self.shape.hops == 2:
            gateway4 = {"gateway": str((at.b4[1] if dual else plan.CLAT4).ip)}
            if not dual:
                gateway4["metrics"] = {"mtu": self.shape.mtu - IPV6_HEADER_MINUS_IPV4}  # type: ignore[assignment]
            routes["client"] = [
                {"dst": "::/0", "gateway": str(at.b6[1].ip)},
                {"dst": "0.0.0.0/0", **gateway4},
            ]
        for role, wanted in routes.items():
            with namespace.netlink(self._namespaces[role]) as route:
                for entry in wanted:
                    route.route("add", **entry)

    @property
    def _behind_prefix(self) -> dict[str, object]:
        """The router's route to what the application of a translated path talks to."""
        if self.shape.plat:
            return {"dst": f"{plan.LITERAL4}/32", "gateway": str(self.shape.addresses.server(4))}
        return {"dst": str(self.shape.pref64), "gateway": str(self.shape.addresses.server(6))}

    def _switch_offloads_off(self, role: str, device: str) -> None:
        """No super-packets: every segment crosses the lane as a packet of its own. Checksum offload stays."""
        with namespace.entered(self._namespaces[role]), contextlib.closing(Ethtool()) as ethtool:
            features = ethtool.get_features(device)
            for name, feature in features.features.items():
                if feature.available and (name.endswith("-segmentation") or name == "rx-gro"):
                    feature.enable = False
            ethtool.set_features(device, features)
