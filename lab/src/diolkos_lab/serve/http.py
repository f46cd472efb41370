# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files of a folder of ours over HTTP, by the standard library's server, for a browser on this machine.

What the library leaves open is closed here: to whose name the request was sent, and how many there are at a time.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from diolkos_lab.faults import UsageFault

MOST_AT_ONCE = 16  # connections
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
WHY = {
    errno.EADDRINUSE: "another program uses this port; choose another one with --port, or 0 for any that is free",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "this port needs a privilege; choose one above 1023",
}


class Server(ThreadingHTTPServer):
    """Serves the files of a folder at one address until `shutdown` or a signal."""

    daemon_threads = True  # one that still reads does not hold up the end

    def __init__(self, folder: Path, host: str, port: int) -> None:
        """Raises UsageFault when the address cannot be used."""
        self.folder, self.host = folder, host.strip("[]")
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        try:
            self.address_family, _, _, _, address = socket.getaddrinfo(self.host, port, type=socket.SOCK_STREAM)[0]
            super().__init__((str(address[0]), int(address[1])), _Handler)
        except OSError as error:
            why = "there is no such host" if isinstance(error, socket.gaierror) else WHY.get(error.errno or 0, str(error))
            raise UsageFault(f"--host {host} --port {port}: {why}") from error
        self.ip = ipaddress.ip_address(str(self.server_address[0]).partition("%")[0])
        self.url = f"http://{f'[{self.ip}]' if self.ip.version == 6 else self.ip}:{self.server_port}/"

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away is no fault of ours."""

    def knows(self, host: str | None) -> bool:
        """Whether a request was sent to a name of this server. A name that a stranger's DNS leads here is none: his pages
        would have its origin, and could read ours. Addresses belong to nobody."""
        found = HOST.fullmatch(host or "")
        if not found or int(found[2] or 80) != self.server_port:
            return False
        name = found[1].strip("[]").casefold()
        try:
            return name in (self.host.casefold(), "localhost") or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


class _Handler(SimpleHTTPRequestHandler):
    server: Server
    timeout = 10  # s, for a request that does not come to its end, and for a browser that does not read on
    server_version, sys_version = "diolkos-lab", ""

    def __init__(self, request: socket.socket, address: object, server: Server) -> None:
        super().__init__(request, address, server, directory=str(server.folder))

    def send_head(self):  # type: ignore[no-untyped-def]  # as the library's, for GET and HEAD
        if not self.server.knows(self.headers.get("Host")):
            return self.send_error(421, "This server is not called so: use the address that diolkos-lab serve printed")
        try:
            return super().send_head()
        except ValueError:  # a name that no file can have
            return self.send_error(404)

    def list_directory(self, path: object) -> None:
        self.send_error(404)

    def end_headers(self) -> None:
        for name, value in {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Content-Security-Policy": "frame-ancestors 'none'",  # each page has a policy of its own as well
            "Cache-Control": "no-store",  # the list changes while pages are made
        }.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""
