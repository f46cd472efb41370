# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A lane: client, router and server in namespaces of their own, joined by veth pairs; one system under test lives in it.

Each system has a whole lane to itself. All lanes have the same shape and the same addresses, so paths of the same hops are
equal by construction, and nothing that one system brings along (conntrack hooks, routes, programs on a device) can slow
another. A lane that is not measured sleeps and costs nothing.

Stages: namespaces → settings → links → addresses → routes → offloads.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Any

from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD

from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology import namespace
from diolkos_lab.topology.box_links import BoxLinks
from diolkos_lab.topology.machine import THIS_MACHINE, Machine
from diolkos_lab.topology.nic_links import LinkEnd, NicLinks

IPV6_HEADER_MINUS_IPV4 = 20
ENDS = ("client", "server")
CHECKSUMS = "tx-checksum-ip-generic"  # the one feature by which a veth device promises to finish them


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
    checksums: bool = True  # senders may leave them to their devices
    neighbours: bool = False  # the router has many on the link to the server, each of them a next hop
    addresses: plan.Plan = plan.BENCHMARK


class Lane:
    """Namespaces and links of one system. Use as a context manager: leaving it removes everything."""

    def __init__(self, name: str, shape: Shape, nic_links: NicLinks | BoxLinks | None = None) -> None:
        """With `nic_links`, what is between the ends is on another machine, or a black box: then the namespaces between them
        are there, and empty."""
        self.name = name
        self.shape = shape
        self._polling: set[tuple[str, str]] = set()
        self._nic_links = None if isinstance(nic_links, BoxLinks) else nic_links
        self._box = nic_links if isinstance(nic_links, BoxLinks) else None
        self._between: Machine = (nic_links and nic_links.remote) or THIS_MACHINE
        self._joints: list[list[LinkEnd]] = []
        self.roles = ("client", "translator", "router", "server") if shape.hops == 2 else ("client", "router", "server")
        self._namespaces = {role: namespace.full_name(self.at(role).owner, name, role) for role in self.roles}

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

    def at(self, role: str) -> Machine:
        """The machine that has the role's namespace."""
        return self._between if role in ("translator", "router") else THIS_MACHINE

    @property
    def is_split(self) -> bool:
        """Does it cross two machines?"""
        return self._between is not THIS_MACHINE

    def client_address(self, version: int) -> IPv4Address | IPv6Address:
        """The client's own address, IPv4 (which an IPv6-only access of one hop does not have) or IPv6."""
        at = self.shape.addresses
        if version == 6:
            return (at.a6 if self.shape.hops == 1 else at.b6)[0].ip
        if self.shape.ipv6_only:
            return (plan.CLAT4 if self.shape.hops == 1 else plan.CLAT4_PEER).ip
        return (at.a4 if self.shape.hops == 1 else at.b4)[0].ip

    def wake(self) -> bool:
        """Where lanes share a black box, only one is awake. True where it slept, so that neighbours have to be found anew."""
        if self._box is None or not self._box.wake(self):
            return False
        self._addresses("client")
        self._routes("client")
        return True

    def sleep(self) -> None:
        """The devices at both ends go down, and with them all routes. Addresses stay."""
        for role, device in self.devices():
            with self._netlink(role) as route:
                route.link("set", index=route.link_lookup(ifname=device)[0], state="down")

    def remove(self) -> None:
        if self._box:
            self._box.forget(self)
        for machine in dict.fromkeys((self._between, THIS_MACHINE)):
            machine.remove([name for role, name in self._namespaces.items() if self.at(role) is machine])

    def default_route(self, role: str, device: str, mtu: int) -> None:
        """IPv4 default route into a translator's device, with an MTU that no packet outgrows when it becomes IPv6."""
        with self._netlink(role) as route:
            index = route.link_lookup(ifname=device)[0]
            route.route("replace", dst="0.0.0.0/0", oif=index, metrics={"mtu": mtu})

    def _build(self) -> None:
        for role in self.roles:
            self.at(role).create(self._namespaces[role])
            self._settings(role)
        if self._box:
            self._box.join("client", plan.UPLINK, self._namespaces["client"], self.shape.mtu)
            self._box.join("server", plan.SERVER_LINK, self._namespaces["server"], self.shape.mtu)
            self.wake()
            return
        near = "client"
        if self.shape.hops == 2:
            self._link("client", "translator", plan.UPLINK, plan.DOWNLINK)
            near = "translator"
        self._link(near, "router", plan.UPLINK, plan.DOWNLINK)
        self._link("router", "server", plan.SERVER_LINK, plan.SERVER_LINK)
        self._addresses(near)
        self._routes(near)
        if self.shape.neighbours:
            self._neighbours()
        for role, device in self.devices():
            if not self.shape.offloads:
                self._switch_offloads_off(role, device)
            if not self.shape.checksums:
                self._switch_off(role, device, [CHECKSUMS])

    def devices(self) -> Iterator[tuple[str, str]]:
        """Every (role, device) of the lane, from the client to the server."""
        yield "client", plan.UPLINK
        if self._box:
            yield "server", plan.SERVER_LINK
            return
        if self.shape.hops == 2:
            yield "translator", plan.DOWNLINK
            yield "translator", plan.UPLINK
        yield "router", plan.DOWNLINK
        yield "router", plan.SERVER_LINK
        yield "server", plan.SERVER_LINK

    def features(self, role: str, device: str) -> dict[str, bool]:
        """The device's offloads as `ethtool -k` lists them: name to on or off."""
        return self.at(role).features(self._namespaces[role], device)

    def set_gro(self, role: str, device: str, *, on: bool) -> None:
        """Let a device poll, by generic receive offload (GRO). One that has to poll for the system under test goes on."""
        polls = on or (role, device) in self._polling
        self.at(role).set_features(self._namespaces[role], device, {"rx-gro": polls})

    def set_gro_on_peers(self, role: str) -> None:
        """Let the other ends of the links of `role` poll from now on, so that its frames of XDP enter them."""
        ends = list(self.devices())
        for near, far in zip(ends[::2], ends[1::2], strict=True):
            for (owner, _), other in ((near, far), (far, near)):
                if owner == role:
                    self._polling.add(other)
                    self.set_gro(*other, on=True)

    def _settings(self, role: str) -> None:
        """Kernel settings of one namespace; they end with it."""
        router = role in ("router", "translator")
        settings = {
            # Duplicate address detection would keep an address unusable for a second.
            "ipv6/conf/default/accept_dad": 0,
            "ipv6/conf/all/accept_dad": 0,
            # Where lanes take turns at the same links, those that wait are down, and servers are bound to their addresses.
            "ipv6/conf/all/keep_addr_on_down": 1,
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
        self.at(role).settings(self._namespaces[role], settings)
        with self._netlink(role) as route:
            route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")

    def _link(self, near: str, far: str, near_device: str, far_device: str) -> None:
        """A veth pair, created inside the namespaces: no device of it ever appears on the host. Or a cable."""
        if self._nic_links and self.at(near) is not self.at(far):
            ends, names = ((near, near_device), (far, far_device)), (self._namespaces[near], self._namespaces[far])
            self._joints.append(self._nic_links.join(self.name, *ends, names, self.shape.mtu))
            return
        with self._netlink(near) as route:
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
            if self._box and role not in ENDS:
                continue
            with self._netlink(role) as route:
                index = route.link_lookup(ifname=device)[0]
                for interface in interfaces:
                    address, _, length = str(interface).partition("/")
                    # Usable at once: even where no duplicates are looked for, the kernel takes its time to say so, and refuses
                    # a route that prefers the address meanwhile.
                    at_once = {"flags": IFA_F_NODAD} if ":" in address else {}
                    # Of a lane that slept they are there still.
                    route.addr("replace", index=index, address=address, prefixlen=int(length), **at_once)
                route.link("set", index=index, state="up")
        for joints in self._joints:
            for mine, other in (joints, joints[::-1]):
                with self._netlink(mine.role) as route:
                    index = route.link_lookup(ifname=mine.device)[0]
                    for interface in assign[other.role, other.device]:
                        neighbour = str(interface).partition("/")[0]
                        route.neigh("add", dst=neighbour, lladdr=other.address, ifindex=index, state="permanent")

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
            if own.version == 4:
                # The same for what a masquerade sends in the router's own name, which is on the link.
                beside = str(at.s4[0].ip)
                routes["server"].append({"dst": f"{beside}/32", "gateway": beside, "prefsrc": str(own)})
        if dual:
            routes[near].append({"dst": "0.0.0.0/0", "gateway": str(at.a4[1].ip)})
            networks4 = (at.b4[0].network, at.crowd4)
            routes["router"] += [{"dst": str(each), "gateway": str(at.a4[0].ip)} for each in networks4]
        if self.shape.hops == 2:
            gateway4 = {"gateway": str((at.b4[1] if dual else plan.CLAT4).ip)}
            if not dual:
                gateway4["metrics"] = {"mtu": self.shape.mtu - IPV6_HEADER_MINUS_IPV4}  # type: ignore[assignment]
            routes["client"] = [
                {"dst": "::/0", "gateway": str(at.b6[1].ip)},
                {"dst": "0.0.0.0/0", **gateway4},
            ]
        for role, wanted in routes.items():
            if self._box and role not in ENDS:
                continue
            with self._netlink(role) as route:
                for entry in wanted:
                    route.route("add", **entry)

    def _neighbours(self) -> None:
        """Their entries are permanent, so that none is looked for while packets are counted. But the kernel takes this from an
        entry that somebody asks it to use (NTF_USE), so the server answers for them, too."""
        at = self.shape.addresses
        every = list(enumerate(zip(at.neighbours(4), at.neighbours(6), strict=True)))
        with self._netlink("server") as route:
            index = route.link_lookup(ifname=plan.SERVER_LINK)[0]
            for _, (v4, v6) in every:
                route.addr("add", index=index, address=str(v4), prefixlen=32)
                route.addr("add", index=index, address=str(v6), prefixlen=128, flags=IFA_F_NODAD)
        with self._netlink("router") as route:
            index = route.link_lookup(ifname=plan.SERVER_LINK)[0]
            for number, (v4, v6) in every:
                for address in (v4, v6):
                    mac = f"02:00:5e:00:53:{number:02x}"
                    route.neigh("add", dst=str(address), lladdr=mac, ifindex=index, state="permanent")
                if not (self.shape.inbound or self.shape.plat):
                    assert isinstance(v4, IPv4Address)
                    route.route("add", dst=f"{plan.synthesized(self.shape.pref64, v4)}/128", gateway=str(v6))

    @property
    def _behind_prefix(self) -> dict[str, object]:
        """The router's route to what the application of a translated path talks to."""
        if self.shape.plat:
            return {"dst": f"{plan.LITERAL4}/32", "gateway": str(self.shape.addresses.server(4))}
        return {"dst": str(self.shape.pref64), "gateway": str(self.shape.addresses.server(6))}

    def _switch_offloads_off(self, role: str, device: str) -> None:
        """No super-packets: every segment crosses the lane as a packet of its own. Checksum offload stays."""
        features = self.features(role, device)
        self._switch_off(role, device, [name for name in features if name.endswith("-segmentation") or name == "rx-gro"])

    def _switch_off(self, role: str, device: str, features: Iterable[str]) -> None:
        self.at(role).set_features(self._namespaces[role], device, dict.fromkeys(features, False))

    def _netlink(self, role: str) -> AbstractContextManager[Any]:
        return self.at(role).netlink(self._namespaces[role])
