# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What an IPv4 host on the Internet offers: pages (nginx), names (unbound), and a STUN server (coturn)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from nat64 import V4_OTHER, Nat64Network
from siit import V4

WEB = """
daemon off;
master_process off;
pid {folder}/pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/1;
    proxy_temp_path {folder}/2;
    fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4;
    scgi_temp_path {folder}/5;
    server {{
        listen {address}:80;
        root {folder}/pages;
    }}
}}
"""

NAMES = """
server:
    interface: {address}
    port: 53
    access-control: 0.0.0.0/0 allow
    username: ""
    chroot: ""
    directory: "{folder}"
    pidfile: "{folder}/pid"
    use-syslog: no
    do-daemonize: no
    module-config: "iterator"
    root-hints: ""
    local-zone: "example." static
    local-data: "example. 300 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 120"
    local-data: "www.example. 300 IN A {address}"
remote-control:
    control-enable: no
"""

# RFC 5780 section 6 wants two addresses and two ports.
STUN_PORT, OTHER_STUN_PORT = 3478, 3479


def web(net: Nat64Network, pages: dict[str, bytes]) -> None:
    """Pages at port 80, and nowhere else."""
    folder = folder_of(net, "web")
    (folder / "pages").mkdir()
    for name, page in pages.items():
        (folder / "pages" / name).write_bytes(page)
    (folder / "conf").write_text(WEB.format(folder=folder, address=V4))
    start(net, folder, "nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "conf"))
    net.until(lambda: f"{V4}:80 " in net.run(net.v4, "ss", "-Hltn").stdout)


def names(net: Nat64Network) -> None:
    """The name www.example, which has an A record and no other."""
    folder = folder_of(net, "names")
    (folder / "conf").write_text(NAMES.format(folder=folder, address=V4))
    # Under its own path AppArmor may keep it from files that are not below /etc/unbound.
    program = shutil.copy(shutil.which("unbound") or "/usr/sbin/unbound", folder / "unbound")
    start(net, folder, str(program), "-d", "-c", str(folder / "conf"))
    net.until(lambda: f"{V4}:53 " in net.run(net.v4, "ss", "-Hlun").stdout)


def stun(net: Nat64Network) -> None:
    """A STUN server on both addresses of the host."""
    folder = folder_of(net, "stun")
    at = ("--listening-ip", V4, "--listening-ip", V4_OTHER)
    ports = ("--listening-port", str(STUN_PORT), "--alt-listening-port", str(OTHER_STUN_PORT))
    files = ("--pidfile", str(folder / "pid"), "--userdb", str(folder / "users"), "--log-file", "stdout")
    less = ("--stun-only", "--no-auth", "--no-cli", "--no-tcp", "--no-tls", "--no-dtls", "--no-tcp-relay")
    start(net, folder, "turnserver", "-n", *at, *ports, *files, *less)
    places = [f"{address}:{port} " for address in (V4, V4_OTHER) for port in (STUN_PORT, OTHER_STUN_PORT)]
    net.until(lambda: all(place in net.run(net.v4, "ss", "-Hlun").stdout for place in places))


def folder_of(net: Nat64Network, what: str) -> Path:
    """A new folder for a server's files."""
    folder = net.scratch / what
    folder.mkdir()
    return folder


def start(net: Nat64Network, folder: Path, *command: str) -> None:
    """Start a server on the IPv4 host; what it says goes into its folder."""
    with (folder / "log").open("w") as log:
        net.start(net.v4, *command, stdout=log, stderr=subprocess.STDOUT)
