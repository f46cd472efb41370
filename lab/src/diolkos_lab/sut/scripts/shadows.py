# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a switch that takes devices away from the kernel, and moves what the kernel knows of them to their shadows meanwhile.

    shadows.py FOLDER DEVICE=SHADOW … -- COMMAND …

    note addresses, routes and permanent neighbours ─► start COMMAND ─► "ready" ─► move them, "moved" ─► SIGTERM ─► give back

FOLDER keeps the note: who is killed leaves the devices bare, and the next start knows what they had.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

PATIENCE_S = 1.5


def main(folder: Path, pairs: dict[str, str], command: list[str]) -> int:
    note = folder / "kernel.json"
    if note.exists():
        known = json.loads(note.read_text())
    else:
        known = {device: what_the_kernel_knows(device) for device in pairs}
        write_whole(note, json.dumps(known))
    # If this process is killed, the kernel ends the switch.
    switch = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--", *command], stderr=subprocess.PIPE, text=True)
    assert switch.stderr
    signal.signal(signal.SIGTERM, lambda *_: switch.terminate())
    try:
        for line in switch.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            if line.endswith("ready\n"):
                for device, shadow in pairs.items():
                    bare(device)
                    give(shadow, known[device])
                print("moved", file=sys.stderr, flush=True)
    except BaseException:  # a switch that was told to end takes the shadows along, also while they are given something
        switch.terminate()
        raise
    finally:
        code = exit_code(switch)
        for device in pairs:
            Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("0")
            give(device, known[device])
        note.unlink()
    return code if code >= 0 else 128 - code


def exit_code(switch: subprocess.Popen[str]) -> int:
    """Of a switch that is about to end, or is killed."""
    try:
        return switch.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        switch.kill()
        return switch.wait()


def write_whole(path: Path, text: str) -> None:
    """Who is killed meanwhile leaves no part of it."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(text)
    unfinished.replace(path)


def what_the_kernel_knows(device: str) -> list[list[str]]:
    """Arguments of `ip` that give it all of it, but for the name of the device."""
    (link,) = json.loads(ip("-json", "address", "show", "dev", device))
    found = []
    for address in link["addr_info"]:
        if address["scope"] != "link":
            ends = ["nodad"] if address["family"] == "inet6" else []
            found.append(["address", "replace", f"{address['local']}/{address['prefixlen']}", *ends])
    for family in ("-4", "-6"):
        for line in ip(family, "route", "show", "dev", device).splitlines():
            words = line.split()
            if words[words.index("proto") + 1 :][:1] != ["kernel"] if "proto" in words else True:
                found.append([family, "route", "replace", *(word for word in words if word != "linkdown")])
    for entry in json.loads(ip("-json", "neighbour", "show", "dev", device, "nud", "permanent") or "[]"):
        found.append(["neighbour", "replace", entry["dst"], "lladdr", entry["lladdr"], "nud", "permanent"])
    return found


def bare(device: str) -> None:
    """The kernel must not answer there, too."""
    ip("address", "flush", "dev", device)
    ip("neighbour", "flush", "dev", device, "nud", "permanent")
    Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("1")


def give(device: str, known: list[list[str]]) -> None:
    for words in known:
        ip(*words, "dev", device)


def ip(*words: str) -> str:
    """What it prints. Raises CalledProcessError, whose words it has printed."""
    return subprocess.run(["ip", *words], stdout=subprocess.PIPE, check=True, text=True).stdout


if __name__ == "__main__":
    at = sys.argv.index("--")
    sys.exit(main(Path(sys.argv[1]), dict(pair.split("=") for pair in sys.argv[2:at]), sys.argv[at + 1 :]))
