# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages of packages link only what packages have, and packages start nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "packaging"))

from doc_links import ELSEWHERE, LINK, install, installed, rewritten  # noqa: E402

PLACES = installed(PROJECT, PROJECT / "packaging/debian")


def test_every_link_of_an_installed_page_leads_to_an_installed_file() -> None:
    """As seen from where the page lies then."""
    there = set(PLACES.values())
    checked = 0
    for page, place in PLACES.items():
        if page.suffix != ".md":
            continue
        for link in LINK.findall(rewritten(page, (PROJECT / page).read_text(), PLACES)):
            if link.startswith(ELSEWHERE):
                continue
            file = Path(os.path.normpath(place.parent / link.partition("#")[0]))
            assert file in there, f"{page}: {link} is in no package"
            checked += 1
    assert checked > 100


def test_the_pages_of_make_install_link_what_lies_there(tmp_path: Path) -> None:
    """And `make uninstall` finds all of it."""
    install(PROJECT, tmp_path)
    pages = sorted(tmp_path.rglob("*.md"))
    links = [(page, link) for page in pages for link in LINK.findall(page.read_text()) if not link.startswith(ELSEWHERE)]
    broken = [(page, link) for page, link in links if not (page.parent / link.partition("#")[0]).is_file()]
    assert broken == [] and len(links) > 100
    here = tmp_path / "share/doc/diolkos"
    assert {"README.md", "DESIGN.md", "clat.md", "examples/nat64.toml"} <= {
        str(file.relative_to(here)) for file in here.rglob("*")
    }
    assert os.access(here / "examples/networkmanager/90-diolkos-clat", os.X_OK)
    left = {str(file.relative_to(tmp_path)).split("/org.diolkos.")[0] for file in tmp_path.rglob("*") if file.is_file()}
    removed = ("share/doc/diolkos/", "share/doc/diolkos-pktgen/", "share/varlink")
    assert all(file.startswith(removed) for file in left), left
    for name in removed:
        assert name.rstrip("/") in (PROJECT / "Makefile").read_text().partition("\nuninstall:")[2]


def test_what_the_pages_promise_is_there() -> None:
    """Examples by the paths that pages name."""
    examples = "usr/share/doc/diolkos/examples"
    for name in (
        "cluster/frr.conf",
        "networkmanager/90-diolkos-clat",
        "prometheus/prometheus.yml",
        "grafana/diolkos.json",
        "nat64.toml",
    ):
        assert Path(examples, name) in PLACES.values(), name


def test_nothing_lies_where_another_program_would_run_it() -> None:
    """A script for NetworkManager is an example: it starts and stops CLATs, and not everybody wants that."""
    build = (PROJECT / "packaging/deb.sh").read_text()
    for folder in ("NetworkManager/dispatcher.d", "networkd-dispatcher", "if-up.d", "cron"):
        assert folder not in build
        assert not any(folder in str(place) for place in PLACES.values())


def test_a_link_to_what_no_package_has_is_text() -> None:
    """It names the file."""
    places = {Path("docs/a.md"): Path("usr/share/doc/x/a.md"), Path("b/c.txt"): Path("usr/share/y/c.txt")}
    page = "See [this](../b/c.txt#d), [that](../e.md) and [it](https://example.net/)."
    seen = "See [this](../../y/c.txt#d), that (e.md, in the sources) and [it](https://example.net/)."
    assert rewritten(Path("docs/a.md"), page, places) == seen
