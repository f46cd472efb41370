# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`serve`: a folder's runs in the browser until Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from diolkos_lab.faults import Interrupted
from diolkos_lab.report import helpers
from diolkos_lab.serve.http import Server
from diolkos_lab.serve.index import Index
from diolkos_lab.serve.site import Site


def serve(folder: Path, host: str, port: int, say: Callable[[str], None]) -> None:
    """Returns when a signal asks for the end. Raises UsageFault when folder or address cannot be used."""
    with Index([folder]) as index:
        site = Site(f"Runs in {folder.resolve().name or folder}", index)
        found = index.listing()
        helpers.bundle()  # takes a second, in a process beside this one
        with Server(site, host, port) as server:
            if not server.loopback:
                say("Everybody who reaches this address can read the results.")
            runs = f"{len(found.runs)} run" + "s" * (len(found.runs) != 1)
            say(f"{runs} in {folder}: {server.url} (Ctrl-C ends it)")
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            try:
                thread.start()  # from now on somebody may have an answer, and send a signal
                thread.join()
            except (Interrupted, KeyboardInterrupt):
                say("Ended.")
            finally:
                if thread.is_alive():
                    server.shutdown()
