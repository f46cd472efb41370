#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A container runtime as far as CNI sees it (CNI specification, section 3): it calls plugins of a list in turn.

    cni.py add|check|del NETWORK NAMESPACE

takes the words and variables (CNI_PATH, NETCONFPATH) of `cnitool`, the specification's own tool, which Debian 12 does not have.
Where CNITOOL names that tool, tests use it instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

INTERFACE = "eth0"
# Where Debian's containernetworking-plugins are.
PLUGINS = Path("/usr/lib/cni")


class Refused(Exception):
    """A plugin has answered with an error."""


@dataclass
class Runtime:
    """One list of plugins, and what it has made."""

    network: dict
    path: list[Path]
    results: dict[str, dict] = field(default_factory=dict)

    def environment(self, command: str, container: str = "", netns: str = "") -> dict[str, str]:
        """What a plugin is told by the environment."""
        given = {"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": netns}
        return {**given, "CNI_IFNAME": INTERFACE, "CNI_PATH": ":".join(map(str, self.path)), "PATH": os.environ["PATH"]}

    def configuration(self, plugin: dict, previous: dict | None, **more: object) -> str:
        """What a plugin is told on standard input."""
        whole = {**plugin, "name": self.network["name"], "cniVersion": self.network["cniVersion"], **more}
        return json.dumps(whole if previous is None else {**whole, "prevResult": previous})

    def program(self, plugin: dict) -> str:
        """Where a plugin is."""
        found = [folder / plugin["type"] for folder in self.path if (folder / plugin["type"]).exists()]
        assert found, f"no plugin {plugin['type']} in {self.path}"
        return str(found[0])

    def call(self, plugin: dict, command: str, container: str = "", netns: str = "", **given) -> dict:
        """Run one plugin; its result."""
        config = self.configuration(plugin, given.pop("previous", None), **given)
        environment = self.environment(command, container, netns)
        done = subprocess.run(self.program(plugin), input=config, env=environment, check=False, capture_output=True, text=True)
        said = json.loads(done.stdout) if done.stdout.strip() else {}
        if done.returncode != 0:
            raise Refused(plugin["type"], said or done.stderr)
        return said

    def add(self, container: str, netns: str) -> dict:
        """Attach a container."""
        previous = None
        for plugin in self.network["plugins"]:
            previous = self.call(plugin, "ADD", container, netns, previous=previous)
        assert previous is not None
        self.results[container] = previous
        return previous

    def delete(self, container: str, netns: str = "") -> None:
        """Detach it."""
        for plugin in reversed(self.network["plugins"]):
            self.call(plugin, "DEL", container, netns, previous=self.results.get(container))

    def check(self, container: str, netns: str) -> None:
        """Fail if it is not attached any more."""
        for plugin in self.network["plugins"]:
            self.call(plugin, "CHECK", container, netns, previous=self.results[container])


def main(command: str, name: str, namespace: str = "") -> int:
    """What `cnitool` does."""
    folder = Path(os.environ.get("NETCONFPATH", "/etc/cni/net.d"))
    lists = [json.loads(path.read_text()) for path in sorted(folder.glob("*.conflist"))]
    network = next(one for one in lists if one["name"] == name)
    runtime = Runtime(network, [Path(path) for path in os.environ["CNI_PATH"].split(":")])
    container = "cnitool-" + hashlib.sha512(namespace.encode()).hexdigest()[:20]
    kept = Path("/var/lib/cni/results") / f"{name}-{container}-{INTERFACE}"
    if kept.exists():
        runtime.results[container] = json.loads(kept.read_text())
    try:
        if command == "add":
            result = runtime.add(container, namespace)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(result))
            print(json.dumps(result, indent=4))
        elif command == "check":
            runtime.check(container, namespace)
        else:
            runtime.delete(container, namespace)
            kept.unlink(missing_ok=True)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
