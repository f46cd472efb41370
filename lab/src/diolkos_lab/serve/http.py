# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages over HTTP, for a browser on this machine.

The server is the standard library's: it answers GET, and everything that it answers is known to `site`. What the library
leaves open is closed here: whose name the request was sent to, from which page, how long it may be and how many at a time.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote_to_bytes

from diolkos_lab.faults import UsageFault
from diolkos_lab.serve.site import Page, Site

LONGEST = 1000  # bytes of an address
MOST_AT_ONCE = 16  # connections
PATIENCE_S = 10  # for a request that does not come to its end, and for a browser that does not read on
PART = 64 * 1024  # bytes that a browser has to read in that time
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")

# Pages of ours say in themselves, too, what may run. A report may come from anybody: it runs without an origin, so that it
# reads no other page, and loads nothing but what stands beside it.
OURS = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'; connect-src 'none'"
FOREIGN = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """Serves a site at one address until `shutdown` or a signal."""

    daemon_threads = True  # one that still reads does not hold up the end
    allow_reuse_address = True

    def __init__(self, site: Site, host: str, port: int) -> None:
        """Raises UsageFault when the address cannot be used."""
        try:
            family, address = _resolved(host, port)
            self.address_family = family
            super().__init__(address, _Handler)
        except OSError as error:
            raise UsageFault(f"--host {host} --port {port}: {_why(error)}") from error
        self.site = site
        self.names = {host.casefold().strip("[]"), "localhost"}
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(str(self.server_address[0]).partition("%")[0]).is_loopback

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away is no fault of ours; `_Handler` answers all else."""

    def knows(self, host: str | None) -> bool:
        """Whether a request was sent to a name of this server. A name that a stranger's DNS leads here is none: his pages
        would have its origin, and could read ours. Addresses belong to nobody."""
        found = HOST.fullmatch(host or "")
        if not found or int(found[2] or 80) != self.port:
            return False
        name = found[1].strip("[]").casefold()
        return name in self.names or _is_address(name)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = PATIENCE_S
    server_version = "diolkos-lab"
    sys_version = ""

    def do_GET(self) -> None:
        if len(self.path) > LONGEST:
            return self._refuse(414, "This address is too long.")
        if not self.server.knows(self.headers.get("Host")):
            return self._refuse(421, "This server is not called so: use the address that diolkos-lab serve printed.")
        if _from_elsewhere(self.headers):
            return self._refuse(403, "Another site asked for this page.")
        try:
            page = self.server.site.page(_path(self.path))
        except Exception as error:  # a fault of ours; the others are pages
            self.log_error("%s: %r", self.path[:LONGEST], error)
            return self._refuse(500, "This page could not be made. The terminal of diolkos-lab serve says why.")
        return self._send(page)

    def _send(self, page: Page) -> None:
        self._begin(page.status, page.type, len(page.content), FOREIGN if page.foreign else OURS)
        content = memoryview(page.content)
        for start in range(0, len(content), PART):  # one write would have its patience for all of it
            self.wfile.write(content[start : start + PART])

    def _refuse(self, status: int, sentence: str) -> None:
        content = f"{sentence}\n".encode()
        self._begin(status, "text/plain; charset=utf-8", len(content), OURS)
        self.wfile.write(content)

    def _begin(self, status: int, kind: str, length: int, policy: str) -> None:
        self.send_response(status)
        for name, value in {**ALWAYS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses: other methods, broken requests. It would repeat them in a page."""
        self.close_connection = True
        self._refuse(405 if code == 501 else code, "This server answers GET requests.")

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""

    def log_error(self, format: str, *args: object) -> None:
        if "Request timed out" not in format:
            super().log_message(format, *args)


def _path(address: str) -> str:
    """Without query and in plain characters. It is looked up and never opened, so that `..` and the like are no page."""
    path, _, _ = address.partition("?")
    return unquote_to_bytes(path.removeprefix("/")).decode("utf-8", "replace")


def _from_elsewhere(headers: Message) -> bool:
    """Whether a page of another site wants to use this one. A person may follow a link to it."""
    site, mode = headers.get("Sec-Fetch-Site"), headers.get("Sec-Fetch-Mode")
    return site in ("cross-site", "same-site") and not (mode == "navigate" and headers.get("Sec-Fetch-Dest") == "document")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    return family, (str(address[0]), int(address[1]))


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program uses this port; choose another one with --port, or 0 for any that is free"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address"
    if error.errno == errno.EACCES:
        return "this port needs a privilege; choose one above 1023"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    return error.strerror or str(error)
