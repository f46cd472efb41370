# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Collectors of logs of bindings: nfcapd, rsyslogd, journald, and files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from nat64 import CONFIG, Nat64Network

# An address of the translator's own, on which collectors listen.
COLLECTOR = "127.0.0.1"
PORT = 4739


def collector(**keys: str | int | bool) -> str:
    """A section of one."""
    return "\n[[log.bindings]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def to_file(path: Path, config: str = CONFIG, **keys: str | int | bool) -> str:
    """A configuration that logs to a file."""
    return config + collector(to="file", path=str(path), **keys)


def records(path: Path) -> list[dict]:
    """The whole lines of a file of JSON."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def until_listed(nat64: Nat64Network, path: Path) -> None:
    """Wait until the log has listed what is in force. A binding that is opened earlier can have two records."""
    nat64.until(lambda: any(record["event"] == "listed" for record in records(path)))


def endpoints(record: dict) -> tuple:
    """Whose an address and port were."""
    return tuple(str(record[key]) for key in ("protocol", "source", "source_port", "address", "port"))


def shown_bindings(nat64: Nat64Network) -> set[tuple]:
    """The same of what is in force."""
    found = set()
    for row in nat64.shown("bindings"):
        (source, source_port), (address, port) = (row[side].rsplit(":", 1) for side in ("v6", "v4"))
        found.add((row["protocol"], source.strip("[]"), source_port, address, port))
    return found


def ready(nat64: Nat64Network) -> None:
    """Local collectors can be reached."""
    nat64.run(nat64.translator, "ip", "link", "set", "lo", "up")


class Rsyslog:
    """A collector of syslog that writes what it has understood, one JSON object a line."""

    FIELDS = ("instance", "protocol", "source", "source_port", "address", "port", "records")

    def __init__(self, nat64: Nat64Network, transport: str) -> None:
        """Prepare one; it does not run yet."""
        self.nat64 = nat64
        self.path = nat64.scratch / "rsyslog.json"
        self.config = nat64.scratch / "rsyslog.conf"
        listens = {"udp": f'input(type="imudp" address="{COLLECTOR}" port="{PORT}")',
                   "tcp": f'input(type="imtcp" address="{COLLECTOR}" port="{PORT}")'}[transport]  # fmt: skip
        sd = ['constant(value="{\\"event\\":\\"") property(name="msgid") constant(value="\\"")']
        for name in ("timereported", "syslogfacility-text", "syslogseverity-text", "app-name"):
            form = ' dateFormat="rfc3339"' if name == "timereported" else ""
            sd.append(f'constant(value=",\\"{name}\\":\\"") property(name="{name}"{form}) constant(value="\\"")')
        for name in self.FIELDS:
            path = f"$!rfc5424-sd!binding@32473!{name}"
            sd.append(f'constant(value=",\\"{name}\\":\\"") property(name="{path}") constant(value="\\"")')
        self.config.write_text(
            f'global(workDirectory="{nat64.scratch}")\n'
            f'module(load="im{transport}")\nmodule(load="mmpstrucdata")\n'
            f'template(name="seen" type="list") {{ {" ".join(sd)} constant(value="}}\\n") }}\n'
            f'ruleset(name="all") {{ action(type="mmpstrucdata") action(type="omfile" file="{self.path}" template="seen") }}\n'
            + listens.replace(")", ' ruleset="all")')
            + "\n"
        )

    def start(self) -> subprocess.Popen:
        """Start it."""
        pid = self.nat64.scratch / "rsyslog.pid"
        pid.unlink(missing_ok=True)
        log = (self.nat64.scratch / "rsyslog.log").open("w")
        return self.nat64.start(
            self.nat64.translator, "rsyslogd", "-n", "-f", str(self.config), "-i", str(pid), stdout=log, stderr=log
        )

    def seen(self) -> list[dict]:
        """What it has understood."""
        return records(self.path)


class Nfcapd:
    """The collector of nfdump."""

    def __init__(self, nat64: Nat64Network) -> None:
        """Start one."""
        self.nat64 = nat64
        self.folder = nat64.scratch / "nfcapd"
        self.folder.mkdir()
        self.log = nat64.scratch / "nfcapd.log"
        arguments = ("-w", str(self.folder), "-p", str(PORT), "-b", COLLECTOR, "-t", "3600")
        with self.log.open("w") as log:
            self.process = nat64.start(nat64.translator, "nfcapd", *arguments, stdout=log, stderr=log)

    def finish(self) -> list[dict]:
        """End it; the records that it has kept."""
        self.process.terminate()
        self.process.wait(10)
        shown = self.nat64.run(self.nat64.translator, "nfdump", "-R", str(self.folder), "-o", "json").stdout
        return json.loads(shown)


class Journald:
    """A journal of its own: it sees neither the host's files nor its kernel's messages."""

    CONFIG = "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nRateLimitIntervalSec=0\n"
    MOUNTED = """
mount --make-rprivate /
mount --bind "$1/journald.conf" /etc/systemd/journald.conf
mount --bind "$1/run" /run
exec /lib/systemd/systemd-journald
"""

    def __init__(self, nat64: Nat64Network) -> None:
        """Start one."""
        self.nat64 = nat64
        self.run = nat64.scratch / "run"
        for folder in ("systemd/journal", "log/journal"):
            (self.run / folder).mkdir(parents=True)
        (nat64.scratch / "journald.conf").write_text(self.CONFIG)
        self.socket = self.run / "systemd" / "journal" / "socket"
        arguments = ("unshare", "--mount", "sh", "-ec", self.MOUNTED, "sh", str(nat64.scratch))
        with (nat64.scratch / "journald.log").open("w") as log:
            nat64.start(nat64.translator, *arguments, stdout=log, stderr=log)
        nat64.until(self.socket.exists)

    def search(self, *fields: str) -> list[dict]:
        """What journalctl finds."""
        folder = str(self.run / "log" / "journal")
        found = self.nat64.run(self.nat64.translator, "journalctl", "-D", folder, "-o", "json", *fields, check=False).stdout
        return [json.loads(line) for line in found.splitlines()]
