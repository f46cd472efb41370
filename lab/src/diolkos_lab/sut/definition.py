# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a system's file may say: how it is found, started, recognised as ready, and how its path is told from a bypass.

Words in braces are filled in when the system starts; `PLACEHOLDERS` lists them. One file per system in `systems/`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, PrivateAttr, model_validator

from diolkos_lab import own_files
from diolkos_lab.experiment import document, locate
from diolkos_lab.experiment.frames import Traffic
from diolkos_lab.experiment.levels import TAKEN, FactorName, Level
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut import rules
from diolkos_lab.sut.factors import PLACE, Command, Factor, Part

Place = Literal["client", "translator", "router", "server"]
PLACES: tuple[str, ...] = get_args(Place)
SHIPPED = Path(__file__).parent / "systems"
PLAIN_RESOLVER = "unbound/recursive"  # what a network without translation offers

PLACEHOLDERS = {
    "binary": "path of the program",
    "installation": "root folder of the installation that the program belongs to; / is the host's own",
    "scripts": "folder with the scripts that start what is no single program",
    "controller": "path of the program that controls it",
    "p4": "path of its P4 program",
    "p4_sources": "folder with the sources of P4 programs and the scripts beside them",
    "config": "path of the file that `config` was written to",
    "directory": "an empty folder of the lane's own",
    "uplink": "device towards the router, where the system runs",
    "downlink": "device towards the client, on a translator or router",
    "server_link": "device between router and server",
    "pref64": "translation prefix with its length",
    "pref64_address": "translation prefix without its length",
    "clat4": "IPv4 address of the host behind the translator",
    "clat4_peer": "a second IPv4 address beside it",
    "clat6": "IPv6 address that stands for clat4; its /64 is routed to the translator",
    "clat6_peer": "a second IPv6 address beside it",
    "pool4": "IPv4 address that a PLAT lends to its clients; routed to the router",
    "pool4_network": "the network around pool4, all of it routed to the router",
    "pool4_spare": "another network, to lend from instead",
    "pool4_neighbours": "network that stands for as many neighbours of the router on the link to the server",
    "neighbours6": "the IPv6 addresses of these",
    "plat6": "IPv6 address for a PLAT's own use, routed to the router",
    "tunnel_socket": "the router's address on the access network with port 51820, as a URL has it",
    "server6": "IPv6 address of the server",
    "bound": "port of static bindings, which the server of streams has; of echoes it is the identifier",
    "resolver": "address on the router where the client asks for names",
    "resolver_socket": "the same with its port, as a URL has it",
    "authority": "address of the server that knows the names",
    "client": "the client's own address, in the family that the application speaks, as those below",
    "client_network": "the network around it",
    "server": "address of the server",
    "server_network": "the network around it",
    "alias": "unassigned address, to which the client talks where target is alias",
    "iptables": "iptables, or ip6tables where the application speaks IPv6",
    "rule_list": "path of the file with the rules that the lab made",
    "mtu": "MTU of the links, bytes",
    "programs": "folder with the sources of its BPF programs",
    "headers": "folder with the C headers of this machine's architecture, which a compiler for BPF does not look into",
    "object": "what `compile` made",
    "cores": "number of CPUs",
}


class SessionTable(document.StrictModel):
    """How to ask what keeps state about its sessions. Commands run where the system runs."""

    count: Command  # prints how many there are: a number, or {"counters": {name: count}}
    counter: str | None = None  # which of these counters
    limit: Command | None = None  # prints how many there can be; a number
    clear: Command | Literal["conntrack"]  # ends all of them; `conntrack` is the kernel's own table, emptied by netlink


class Helper(document.StrictModel):
    """Another process that the datapath needs. It starts before `command` in the same namespace, and ends after it."""

    command: Command
    ready: str | None = None  # text it prints when it works
    daemon: bool = False  # the command forks into the background


class Datapath(document.StrictModel):
    """One way to run the system. In all of them, what is created lives in the lane's namespaces and ends with them."""

    like: str | None = None  # `system/datapath` of studies in whose place --only measures this one
    place: Place = "client"  # a factor called place goes before it
    # What the access network carries. ipv4-only: the client has IPv4, and static bindings on the router lead to a server that
    # has IPv6.
    access: Literal["ipv6-only", "dual-stack", "ipv4-only"] = "ipv6-only"
    serves: Literal["packets", "names"] = "packets"  # a resolver serves names: no packet of the application crosses it
    beside: tuple[str, ...] = ()  # datapaths of the same system that run at other places with it, started before it
    target: Literal["server", "alias"] = "server"  # whom the client talks to; rules make the server's address of the alias
    rules: Literal["dnat"] | None = None  # the lab makes a list of rules by the factors (`sut/rules.py`), in {rule_list}
    factor: dict[FactorName, Factor] = Field({})  # each is a placeholder, too
    plat: str | None = None  # the datapath of the same system that makes IPv4 of it again, on the router
    resolver: str = PLAIN_RESOLVER  # `system/datapath` that serves names on this path, started for loads that ask for some
    forwarding: bool = False  # switch packet forwarding on where the system runs
    config: str | None = None
    compile: Command | None = None  # compiles its BPF program; the lab adds where to, and keeps what was made
    prepare: tuple[Command, ...] = ()  # short commands before the start
    nftables: str | None = None
    command: Command | None = None  # runs in the foreground until SIGTERM
    when_ready: tuple[Command, ...] = ()  # short commands once it is ready
    daemon: bool = False  # the command forks into the background
    helper: tuple[Helper, ...] = ()
    container: str | None = None  # image in which podman runs the command
    own_mounts: bool = False  # the command runs in a mount namespace of its own
    ready: str | None = None  # text it prints when traffic can flow
    # What it cannot take, and is switched off at the devices of its lane whatever the load says. Others keep theirs.
    without: tuple[Literal["super-packets", "unfinished-checksums"], ...] = ()
    xdp: bool = False  # it sends frames of XDP, which enter a virtual Ethernet only where that polls (GRO)
    external: bool = False  # it runs outside of this host, between the interfaces of --box
    keeps_state: bool = True  # on the router: it remembers flows, each of which is opened before packets are counted
    tun: str | None = None  # its TUN device
    set_up: bool = False  # the lab gives the TUN device its state, address and routes
    sessions: SessionTable | None = None  # of what keeps state
    bulk: Literal["through", "past"] | None = None  # does the bulk of the bytes cross the TUN device's own queue?
    _lines: dict[str, str] = PrivateAttr({})  # key to `file:line`, in a file of the user's

    def where(self, key: str) -> str:
        """Where a file of the user's has this key, to begin a message with; empty for what is shipped."""
        found = self._lines.get(key) or self._lines.get("")
        return f"{found}: " if found else ""

    @property
    def is_native(self) -> bool:
        levels = [part for factor in self.factor.values() for part in factor.level.values()]
        parts: list[Datapath | Part] = [self, *levels]
        return not (
            self.rules
            or self.external
            or any(part.command or part.prepare or part.when_ready or part.nftables for part in parts)
        )

    def at(self, levels: Mapping[str, Level]) -> "Datapath":
        """The same with what these levels of its factors bring."""
        chosen = [self.factor[name].level.get(str(level)) for name, level in levels.items() if name in self.factor]
        parts = [part for part in chosen if part]
        changed: dict[str, object] = {
            "prepare": (*self.prepare, *(line for part in parts for line in part.prepare)),
            "when_ready": (*self.when_ready, *(line for part in parts for line in part.when_ready)),
        }
        for name in ("config", "nftables", "command", "own_mounts", "ready"):
            if given := next((value for part in parts if (value := getattr(part, name)) is not None), None):
                changed[name] = given
        if PLACE in self.factor and PLACE in levels:
            changed[PLACE] = levels[PLACE]
        return self.model_copy(update=changed)

    @property
    def is_plat(self) -> bool:
        """Does it stand between IPv6-only clients and IPv4?"""
        return self.place == "router" and self.access == "ipv6-only" and self.serves == "packets" and not self.is_native

    @property
    def is_inbound(self) -> bool:
        """Do clients that have IPv4 reach a server that has IPv6?"""
        return self.access == "ipv4-only"

    @property
    def _of_sessions(self) -> list[Command]:
        table = self.sessions
        lines = (table.count, table.limit, table.clear) if table else ()
        return [line for line in lines if isinstance(line, tuple)]

    @model_validator(mode="after")
    def _consistent(self) -> "Datapath":
        if (self.daemon or self.container or self.ready) and not self.command and not self.factor:
            raise ValueError("daemon, container and ready say something about a command, and there is none")
        if self.set_up and not self.tun:
            raise ValueError("set_up needs the name of the tun device")
        if self.bulk and not self.tun:
            raise ValueError("bulk needs the name of the tun device")
        if self.is_inbound and self.place != "router":
            raise ValueError('static bindings are on the router: place = "router"')
        if self.serves == "names" and self.place != "router":
            raise ValueError('what serves names is on the router: place = "router"')
        texts = [*_texts(self), *(word for line in self._of_sessions for word in line)]
        texts += [text for factor in self.factor.values() for part in factor.level.values() for text in _texts(part)]
        known = {**PLACEHOLDERS, **dict.fromkeys(self.factor)}
        for name in {name for text in texts for name in re.findall(r"\{([a-z0-9_]+)\}", text)}:
            if name not in known:
                raise ValueError(f"unknown placeholder {{{name}}}; known are {', '.join(known)}")
        return self

    @model_validator(mode="after")
    def _factors_fit(self) -> "Datapath":
        for name, factor in self.factor.items():
            if name in TAKEN or name in PLACEHOLDERS:
                raise ValueError(f"a factor cannot be called {name}")
            if name == PLACE and not set(factor.levels or ("",)) <= set(PLACES):
                raise ValueError(f"the levels of place can be {', '.join(PLACES)}")
        if self.rules and (lacks := sorted(rules.FACTORS - self.factor.keys())):
            raise ValueError(f"a list of rules needs the factor {lacks[0]}")
        return self


class System(document.StrictModel):
    """A system under test."""

    system: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    title: str
    binary: str | None = None  # looked up by --path, environment and PATH
    installation: str | None = None  # path of the program in another installation, whose root folder may be named instead
    oldest: str | None = Field(None, pattern=r"^[0-9]+(\.[0-9]+)*$")  # version from which on it can be measured
    controller: str | None = None  # another program that it needs, looked for by its own name as `binary` is
    p4: str | None = None  # P4 program that it runs: a file of the clone's p4/ or target/p4/, or of the package diolkos-switch
    module: str | None = None  # kernel module it needs
    programs: str | None = None  # folder in sut/bpf/ with the BPF programs that it compiles
    package: str | None = None  # distribution package that can tell the version
    how: str = ""  # how to get it
    box: bool = False  # a black box between two interfaces, of which the lab runs nothing
    known_answer: bool = False  # a router of known rate, loss or delay, which tests the lab
    version: Command | None = None
    counters: Command | None = None  # prints {"counters": {name: count}}; run where the system runs
    datapath: dict[str, Datapath] = Field(min_length=1)

    def path(self, name: str, levels: Mapping[str, Level] | None = None) -> tuple[Datapath, ...]:
        """What has to run for a datapath: itself, and before it the PLAT that it needs and all that stands beside it."""
        chosen = self.datapath[name]
        before = (*((chosen.plat,) if chosen.plat else ()), *chosen.beside)
        return tuple(self.datapath[each].at(levels or {}) for each in (*before, name))

    def keeps_state(self, name: str, levels: Mapping[str, Level] | None = None) -> bool:
        """Is there a translator or NAT on the router? Those lend addresses, so they remember who has them."""
        parts = self.path(name, levels)
        return any(part.place == "router" and part.keeps_state and not part.is_native for part in parts)

    def obstacle(self, name: str, load: object) -> str | None:
        """Why a datapath cannot get the packets of a load; None where it can."""
        if not isinstance(load, Traffic):
            return None
        chosen = self.datapath[name]
        one = chosen.target == "alias" or (chosen.is_inbound and "{pool4_neighbours}" not in (chosen.config or ""))
        if load.next_hops > 1 and one:
            return f"its clients know one destination, and the load asks for {load.next_hops} next hops"
        if load.nodes > 1 and chosen.place != "router" and not chosen.is_native:
            return f"it has a single client, and the load asks for {load.nodes}"
        if load.directions == "both" and load.native_share and self.keeps_state(name):
            return "packets are sent back over sessions that are there, and native ones go beside others in one direction only"
        if load.directions == "both" and load.flows == "unique" and self.keeps_state(name):
            return "packets are sent back over sessions that are there, and with unique flows each packet opens one"
        return None

    @model_validator(mode="after")
    def _plats_are_plats(self) -> "System":
        for name, datapath in self.datapath.items():
            other = self.datapath.get(datapath.plat) if datapath.plat else None
            if datapath.plat and not (other and other.is_plat and not datapath.is_plat):
                raise ValueError(f"datapath {name}: {datapath.plat} is not a datapath of this system for the router")
            if unknown := next((each for each in datapath.beside if each not in self.datapath), None):
                raise ValueError(f"datapath {name}: {unknown} is not a datapath of this system")
        return self


@dataclass(frozen=True)
class Catalogue:
    """What the folders hold. A faulty file hides the shipped one of its name: nobody measures another one than they think."""

    systems: dict[str, System] = field(default_factory=dict)
    faults: dict[str, UsageFault] = field(default_factory=dict)  # by the name of the system
    own: dict[str, Path] = field(default_factory=dict)  # files of the user's, by the name of the system

    def require(self, name: str) -> System | None:
        """None for a system that nobody defines. Raises the UsageFault of a file that should define it and is faulty."""
        if name in self.faults:
            raise self.faults[name]
        return self.systems.get(name)


def catalogue() -> Catalogue:
    """All definitions: the user's own, which hide those of the same name that are shipped."""
    found = Catalogue()
    for each in own_files.definitions("systems", SHIPPED):
        name, system, fault = _read(each)
        if earlier := found.own.get(name):
            if each.own and earlier.parent == each.file.parent and name not in found.faults:
                found.systems.pop(name, None)
                found.faults[name] = UsageFault(f"{each.file}: defines the system {name}, as {earlier} does; rename one")
            continue
        if each.own:
            found.own[name] = each.file
        if fault:
            found.faults[name] = fault
        elif system:
            found.systems[name] = system
    for name in found.own.keys() & found.systems.keys():
        if fault := _unresolved(found, found.systems[name]):
            found.faults[name] = fault
            del found.systems[name]
    return found


def load_all() -> dict[str, System]:
    """The definitions that are sound, by name."""
    return catalogue().systems


def _read(of: own_files.Definition) -> tuple[str, System | None, UsageFault | None]:
    """The name of the system, and the system or why there is none."""
    name = of.file.stem
    try:
        if of.own:
            own_files.require_safe(of.file)
        text = document.text(of.file)
        if said := re.search(r"""^system\s*=\s*["']([a-z][a-z0-9]*)["']""", text, re.MULTILINE):
            name = said[1]
        system = document.parse(text, of.file, System)
    except UsageFault as fault:
        return name, None, fault
    if of.own:
        for path, (line, _) in locate.positions(text).items():
            if len(path) in (2, 3) and path[0] == "datapath" and (datapath := system.datapath.get(str(path[1]))):
                datapath._lines[str(path[2]) if len(path) == 3 else ""] = f"{of.file}:{line}"
    return system.system, system, None


def _unresolved(found: Catalogue, system: System) -> UsageFault | None:
    """A resolver that a file of the user's names and nobody defines."""
    for name, datapath in system.datapath.items():
        other, _, path = datapath.resolver.partition("/")
        known = found.systems.get(other)
        if "resolver" in datapath.model_fields_set and not (known and path in known.datapath):
            return UsageFault(
                f"{datapath.where('resolver')}{system.system}/{name}: nobody defines its resolver {datapath.resolver}"
            )
    return None


def _texts(part: Datapath | Part) -> list[str]:
    """All that is filled in."""
    compiles = part.compile or () if isinstance(part, Datapath) else ()
    helpers = part.helper if isinstance(part, Datapath) else ()
    lines = (part.command or (), *(helper.command for helper in helpers), *part.prepare, *part.when_ready)
    words = [*compiles, *(word for line in lines for word in line)]
    return [part.config or "", part.nftables or "", *words]


def fill(text: str, values: dict[str, str]) -> str:
    """Put values for the placeholders. Other braces (nftables has its own) stay."""
    return re.sub(r"\{([a-z0-9_]+)\}", lambda found: values.get(found[1], found[0]), text)
