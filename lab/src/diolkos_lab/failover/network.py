# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The network of the study, in namespaces that it makes and removes.

    client1 ──┐                lan (a switch)                  ┌── server
              ri ──────────┬──────┬──────┬──────────── ro ─────┘
    client2 ──┘            │      │      │
                          gw1    gw2    gw3 ── link (a switch, of the gateways alone)
                           │      │      │
                           └──────┴──────┴── mgmt (a switch) ── engine1, engine2, engine3

Each gateway has one link to the LAN, by which it speaks with both routers, one to the other gateways, and one to the
engine. The LAN carries both families; clients have IPv6 only, the server IPv4 only. `cut` takes a port out of a switch: the
link stays up at both ends, as it does when a cable behind the switch fails, so that only BFD notices.

Stages: namespaces → settings → links → addresses → routes.
"""

import subprocess
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from diolkos_lab.failover import plan
from diolkos_lab.faults import Fault
from diolkos_lab.topology import namespace
from diolkos_lab.topology.machine import THIS_MACHINE

FORWARDING = {"ipv6/conf/all/forwarding": 1, "ipv6/conf/default/forwarding": 1, "ipv4/ip_forward": 1}
QUIET = {"ipv6/conf/all/accept_dad": 0, "ipv6/conf/default/accept_dad": 0}  # addresses are usable at once
LOOSE = {"ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 0}
# Which gateway gets a packet: by its source alone (fib_multipath_hash_fields: 0x1 is the source address), so that all flows of
# a host meet one gateway. The other direction needs nothing: it follows the owner of the address.
BY_SOURCE = {
    "ipv6/fib_multipath_hash_policy": 3,
    "ipv6/fib_multipath_hash_fields": 1,
    "ipv4/fib_multipath_hash_policy": 1,
}


class Network:
    """Use as a context manager: leaving it ends everything that runs inside and removes it."""

    def __init__(self, name: str) -> None:
        owner = namespace.Owner.me()
        self._names = {role: namespace.full_name(owner, name, role) for role in plan.ROLES}

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def namespace(self, role: str) -> str:
        """The name of the namespace of a role of `plan.ROLES`."""
        return self._names[role]

    def remove(self) -> None:
        namespace.remove(list(self._names.values()))

    def cut(self, switch: str, role: str) -> None:
        """Take the port to a role out of `lan`, `link` or `mgmt`. The link stays up, and neither end notices.

        A state of the port would not do: without spanning tree, the kernel puts it back to forwarding at once.
        """
        self.ip(switch, [f"link set {role} nomaster"])

    def ip(self, role: str, lines: Iterable[str]) -> None:
        """Run lines of ip(8) in a role's namespace. Raises Fault with what ip said."""
        command = [*self._entered(role), "ip", "-batch", "-"]
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise Fault(f"the network cannot be built: ip in {role}: {done.stderr.strip()}")

    def show(self, role: str, *arguments: str) -> str:
        """What ip(8) says in a role's namespace; empty where it fails."""
        command = [*self._entered(role), "ip", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout

    def _entered(self, role: str) -> list[str]:
        """Not `ip -n`, which mounts things: in a chroot, `/` is no mount, and it refuses."""
        return ["nsenter", f"--net={namespace.DIRECTORY / self._names[role]}"]

    # ---- stages

    def _build(self) -> None:
        for role, name in self._names.items():
            namespace.create(name)
            THIS_MACHINE.settings(name, {**QUIET, **LOOSE})
            if role in plan.CLIENTS:  # programs may send from any address that is routed here
                THIS_MACHINE.settings(name, {"ipv6/ip_nonlocal_bind": 1})
            if role in plan.ROUTERS:
                THIS_MACHINE.settings(name, FORWARDING)
            self.ip(role, ["link set lo up"])
        THIS_MACHINE.settings(self._names[plan.INSIDE], BY_SOURCE)
        self._switches()
        self._gateways()
        self._ends()

    def _switches(self) -> None:
        for switch, roles, device in (
            (plan.LAN, plan.ROUTERS, plan.LAN_DEVICE),
            (plan.LINK, plan.GATEWAYS, plan.LINK_DEVICE),
            (plan.MANAGEMENT, (*plan.GATEWAYS, *plan.ENGINES), plan.MANAGEMENT_DEVICE),
        ):
            # No spanning tree and no snooping: a port forwards from its first packet on.
            self.ip(switch, ["link add br0 type bridge stp_state 0 mcast_snooping 0 forward_delay 0", "link set br0 up"])
            for role in roles:
                self.ip(
                    switch,
                    [
                        f"link add {role} type veth peer name {device} netns {self._names[role]}",
                        f"link set {role} master br0 up",
                    ],
                )
        for number, role in enumerate(plan.ENGINES, 1):
            self._up(role, plan.MANAGEMENT_DEVICE, f"{plan.engine4(number)}/24")

    def _gateways(self) -> None:
        for node in plan.NODES:
            self._up(node.name, plan.LAN_DEVICE, f"{node.lan6}/64", f"{node.lan4}/24")
            self._up(node.name, plan.LINK_DEVICE, f"{node.link6}/64")
            self._up(node.name, plan.MANAGEMENT_DEVICE, f"{node.management4}/24")
            # For want of what BGP brings: sessions do not come back together, and one that is early attracts packets.
            last_resort = [f"route add default via {router} metric 4096" for router in (plan.INSIDE6, plan.OUTSIDE4)]
            self.ip(node.name, last_resort)

    def _ends(self) -> None:
        self._up(plan.INSIDE, plan.LAN_DEVICE, f"{plan.INSIDE6}/64", f"{plan.INSIDE4}/24")
        self._up(plan.OUTSIDE, plan.LAN_DEVICE, f"{plan.OUTSIDE6}/64", f"{plan.OUTSIDE4}/24")
        for number, client in enumerate(plan.CLIENTS, 1):
            router, own = plan.client_link6(number)
            self._joint(plan.INSIDE, client, client, "up0")
            self._up(plan.INSIDE, client, f"{router}/64")
            self._up(client, "up0", f"{own}/64")
            # Any address of the prefix is the client's own.
            self.ip(client, [f"route add local {plan.sources6(number)} dev lo", f"route add default via {router}"])
            self.ip(plan.INSIDE, [f"route add {plan.sources6(number)} via {own}"])
        self._joint(plan.OUTSIDE, plan.SERVER, "srv0", "up0")
        self._up(plan.OUTSIDE, "srv0", f"{plan.SERVER_GATEWAY4}/24")
        self._up(plan.SERVER, "up0", f"{plan.SERVER_OWN4}/24")
        self.ip(
            plan.SERVER,
            [
                f"address add {plan.SERVER4}/32 dev lo",
                f"route add default via {plan.SERVER_GATEWAY4} src {plan.SERVER4}",
            ],
        )
        self.ip(plan.OUTSIDE, [f"route add {plan.SERVER4}/32 via {plan.SERVER_OWN4}"])

    def _joint(self, first: str, second: str, at_first: str, at_second: str) -> None:
        self.ip(first, [f"link add {at_first} type veth peer name {at_second} netns {self._names[second]}"])

    def _up(self, role: str, device: str, *interfaces: str) -> None:
        addresses = [f"address add {each} dev {device}{' nodad' if ':' in each else ''}" for each in interfaces]
        self.ip(role, [*addresses, f"link set {device} up"])
