# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/quickstart.md does what it says: its commands, in their order, on a bare host, with traffic through it.

page ─► blocks of commands ─► run on the router, or on the IPv6 host ("sh host") ─► what each is there for has come true
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import servers
from host import Host
from nat64 import V6, Nat64Network
from test_deb import Conversation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quickstart.md"
BLOCK = re.compile(r"^```sh( host)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the page installs from the distribution, so that no test needs a mirror.
FROM_DISTRIBUTION = ("curl", "prometheus", "rsyslog")
UNIT_OF_PAGE = "diolkos@nat64.service"
TEXT = b"a page by IPv4\n"


def blocks() -> Iterator[tuple[str, str]]:
    """Where each block of commands runs, and its text."""
    for match in BLOCK.finditer(PAGE.read_text()):
        yield ("host" if match[1] else "router"), match[2]


@pytest.fixture
def router(release: str, network: Nat64Network, packages: Path) -> Iterator[Host]:
    """The router of the page, and what is around it: an IPv4 host with names and pages."""
    servers.names(network)
    servers.web(network, {"index.html": TEXT})
    made = Host(network, network.translator, release, packages, FROM_DISTRIBUTION)
    try:
        made.boot()
        yield made
    finally:
        made.remove()


def test_every_command_of_the_page(router: Host, network: Nat64Network) -> None:
    """No block is left out, and each leads to what the page promises."""
    for folder, package in (("today", "diolkos"), ("next-day", "newer")):
        router.run("mkdir", f"/srv/{folder}")
        router.run("cp", f"/packages/{package}.deb", f"/srv/{folder}/diolkos_1_amd64.deb")
    conversation: Conversation | None = None
    done: list[str] = []
    for where, text in blocks():
        upgrades = "apt install ./diolkos" in text and bool(done)
        if where == "host":
            addresses, page = on_host(network, text).split("\n", 1)
            assert addresses == "2001:db8:64::c633:6402"
            assert page.encode() == TEXT
            conversation = conversation or Conversation(network)
        elif "api/v1/query" in text:
            # Prometheus scrapes every 15 seconds.
            router.until(lambda text=text: has_sessions(on_router(router, text, check=False)))
        elif text.startswith("grep"):
            router.until(lambda text=text: f'source="{V6}"' in on_router(router, text, check=False))
        else:
            before = router.shown(UNIT_OF_PAGE, "MainPID")
            said = on_router(router, text, "next-day" if upgrades else "today")
            if upgrades:
                assert router.shown(UNIT_OF_PAGE, "MainPID") not in ("0", before), said
                assert "999" in router.run("dpkg-query", "-W", "diolkos").stdout
        done.append(text)

    assert conversation is not None
    reached = conversation.turns
    router.until(lambda: conversation.turns > reached + 10 or conversation.wrong is not None)
    conversation.end()
    # A page whose form has changed would have no commands.
    assert len(done) == PAGE.read_text().count("```sh") > 8


def on_router(router: Host, text: str, folder: str = "today", check: bool = True) -> str:
    """What the commands print; the first that fails ends them."""
    return router.run("sh", "-e", "-c", f"cd /srv/{folder}\n{text}", check=check).stdout


def on_host(network: Nat64Network, text: str) -> str:
    """The same on the IPv6 host."""
    enter = ("ip", "netns", "exec", network.v6)
    ran = subprocess.run((*enter, "sh", "-e", "-c", text), check=False, capture_output=True, text=True)
    assert ran.returncode == 0, f"{text}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def has_sessions(answer: str) -> bool:
    """Whether Prometheus has figures of sessions, of TCP at least one. While it starts, its answer is no JSON."""
    rows = json.loads(answer)["data"]["result"] if answer.startswith("{") else []
    return any(row["metric"]["protocol"] == "tcp" and int(row["value"][1]) > 0 for row in rows)
