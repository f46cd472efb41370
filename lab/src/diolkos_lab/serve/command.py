# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`serve`: the site that `export` writes, in a temporary folder and in the browser, until Ctrl-C."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from diolkos_lab.faults import Interrupted
from diolkos_lab.serve import site
from diolkos_lab.serve.http import Server
from diolkos_lab.serve.index import Index


def serve(folder: Path, host: str, port: int, say: Callable[[str], None]) -> None:
    """Returns when a signal asks for the end. Raises UsageFault when folder or address cannot be used."""
    with Index([folder]) as index, tempfile.TemporaryDirectory(prefix="diolkos-lab-site-") as made:

        def write(name: str, content: bytes) -> None:
            path = Path(made) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".new").write_bytes(content)
            path.with_suffix(".new").replace(path)  # somebody may be reading the one before

        with Server(Path(made), host, port) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            try:
                thread.start()
                if not server.ip.is_loopback:
                    say("Everybody who reaches this address can read the results.")
                runs = f"{len(index.listing.runs)} run" + "s" * (len(index.listing.runs) != 1)
                say(f"{runs} in {folder}: {server.url} (Ctrl-C ends it)")
                title = f"Runs in {folder.resolve().name or folder}"
                site.write(title, index, site.MOST_PAIRS, site.MOST_REPORTS, write, lambda _: None)
                say("All pages are made.")
                thread.join()
            except (Interrupted, KeyboardInterrupt):
                say("Ended.")
            finally:
                server.shutdown()
