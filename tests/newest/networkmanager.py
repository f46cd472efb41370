# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A NetworkManager of another release in the client's network namespace: its programs, /etc and /run are an installation's
below a layer in memory. All of it ends with its first process."""

from __future__ import annotations

from pathlib import Path

from network import Network

# The lab measures the CLAT of one that this script starts.
SCRIPT = Path(__file__).resolve().parents[2] / "lab/src/diolkos_lab/sut/scripts/networkmanager.sh"
PATIENCE = 60


class NetworkManager:
    """It manages wan0 and nothing else, by a profile that is called `uplink`."""

    def __init__(self, net: Network, installation: Path, ipv4: str) -> None:
        """Start it, and wait until it takes orders. `ipv4`: lines of that section of the profile."""
        self.net, self.log = net, net.scratch / "log-networkmanager"
        folder = net.scratch / "newest"
        folder.mkdir()
        with self.log.open("w") as sink:
            command = ("unshare", "--mount", "sh", str(SCRIPT), str(folder), str(installation), "wan0", ipv4)
            self.shell = net.start(net.client, *command, stdout=sink, stderr=sink)
        net.until(lambda: "it runs\n" in self.log.read_text() or self.shell.poll() is not None, patience=PATIENCE)
        assert self.shell.poll() is None, self.log.read_text()

    def end(self) -> None:
        """Returns when nothing of it runs any more."""
        self.shell.terminate()
        self.shell.wait()

    def inside(self, *command: str) -> tuple[str, ...]:
        """A command that runs in the installation."""
        first = str(self.shell.pid)
        for _ in ("unshare", "process 1"):
            first = Path(f"/proc/{first}/task/{first}/children").read_text().strip()
        return ("nsenter", f"--target={first}", "--mount", "--uts", "--pid", "--root", "--wd=/", "--", *command)

    def nmcli(self, *words: str) -> str:
        """What nmcli(1) says. It returns when the order is carried out."""
        return self.net.run(self.net.client, *self.inside("nmcli", *words)).stdout

    def tools(self) -> Path:
        """A folder with an nmcli(1) that a script outside can run."""
        folder = self.net.scratch / "tools"
        folder.mkdir()
        (folder / "nmcli").write_text(f'#!/bin/sh\nexec {" ".join(self.inside("nmcli"))} "$@"\n')
        (folder / "nmcli").chmod(0o755)
        return folder
