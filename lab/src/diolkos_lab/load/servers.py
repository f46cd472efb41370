# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The servers at the far end of a lane: iperf3 and a receiver of datagrams for streams, nginx for objects, unbound as the
authority for names.

Each is one process with files in a folder of its own; nothing of the system's own servers is read or touched. They sleep
between trials.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from diolkos_lab.experiment.loads import AnyLoad, HttpLoad
from diolkos_lab.experiment.procedures import Procedure
from diolkos_lab.faults import MissingFault
from diolkos_lab.load import curl, iperf3, registry, udp_gso
from diolkos_lab.load.names import DOMAIN
from diolkos_lab.sut.lookup import program

DNS_PORT = 53
OBJECTS = "objects"

# One process, so that its CPU time is known. `keepalive_timeout 0`: every fetch has a connection of its own.
_NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr warn;
events {{ }}
http {{
    access_log off;
    default_type application/octet-stream;
    keepalive_timeout 0;
    sendfile on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        {listen}
        root {objects};
    }}
}}
"""

# Every name below the domain has the same addresses, so no name has to be known before it is asked for.
_AUTHORITY = """
server:
    {interfaces}
    port: {port}
    access-control: 0.0.0.0/0 allow
    access-control: ::/0 allow
    username: ""
    chroot: ""
    directory: "{folder}"
    pidfile: ""
    use-syslog: no
    do-daemonize: no
    num-threads: 1
    module-config: "iterator"
    root-hints: ""
    so-rcvbuf: 1m
    local-zone: "{domain}." redirect
    local-data: "{domain}. 3600 IN SOA ns.{domain}. hostmaster.{domain}. 1 3600 600 86400 3600"
    {records}
remote-control:
    control-enable: no
"""


@dataclass(frozen=True)
class Server:
    name: str
    command: Sequence[str]  # in the foreground
    port: int  # TCP, which it accepts connections on when it is ready


def wanted(
    loads: Sequence[AnyLoad | Procedure],
    folder: Path,
    objects: Path,
    authority: Sequence[IPv4Address | IPv6Address],
    records: Sequence[IPv4Address | IPv6Address],
) -> list[Server]:
    """The servers these loads need. `authority` holds the addresses for queries, `records` those that every name has."""
    found = []
    names = {name for load in loads for name in registry.LOADS[load.name].servers(load)}
    if "iperf3" in names:
        found.append(Server("iperf3", iperf3.SERVER_COMMAND, iperf3.PORT))
    if "datagrams" in names:
        found.append(Server("datagrams", udp_gso.SERVER_COMMAND, udp_gso.PORT))
    if "nginx" in names:
        found.append(_nginx(folder / "nginx", objects))
    if "authority" in names:
        found.append(_authority(folder / "authority", authority, records))
    return found


def write_objects(loads: Sequence[AnyLoad | Procedure], folder: Path) -> Path:
    """The objects to fetch, named by their sizes, once for all lanes. They are zeros, and take no space on the disk."""
    objects = folder / OBJECTS
    objects.mkdir(exist_ok=True)
    for size in {load.object_bytes for load in loads if isinstance(load, HttpLoad)}:
        with (objects / str(size)).open("wb") as file:
            file.truncate(size)
    return objects


def _nginx(folder: Path, objects: Path) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nginx.conf"
    listen = "\n        ".join(f"listen [::]:{port} ipv6only=off;" for port in curl.PORTS)
    config.write_text(_NGINX.format(folder=folder, objects=objects, listen=listen).lstrip())
    return Server("nginx", (_path("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(config)), curl.PORTS[-1])


def _authority(
    folder: Path, addresses: Sequence[IPv4Address | IPv6Address], records: Sequence[IPv4Address | IPv6Address]
) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    types = [("A" if record.version == 4 else "AAAA", record) for record in records]
    config = folder / "unbound.conf"
    config.write_text(
        _AUTHORITY.format(
            interfaces="\n    ".join(f"interface: {address}" for address in addresses),
            port=DNS_PORT,
            folder=folder,
            domain=DOMAIN,
            records="\n    ".join(f'local-data: "{DOMAIN}. 3600 IN {kind} {record}"' for kind, record in types),
        ).lstrip()
    )
    # Under its own path AppArmor may keep it from files that are not below /etc/unbound.
    binary = shutil.copy(_path("unbound"), folder / "unbound")
    return Server("authority", (str(binary), "-d", "-c", str(config)), DNS_PORT)


def _path(name: str) -> str:
    """Servers are in folders that are not in everyone's PATH."""
    found = program(name, None, None)
    if found is None:
        raise MissingFault(f"the tool {name} is not on this host")
    return str(found)
