# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The site is whole: a dead link or a page that is not listed fails it, and search needs no server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import build_site
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 60


@pytest.mark.parametrize(
    ("page", "read"),
    [
        ("```sh host\na  b\n```\n", "```sh\na  b\n```\n"),
        ("1. a\n\n   ```toml\n   [b]\n     c\n   ```\n\n   d\n", "1. a\n\n\n        [b]\n          c\n\n\n    d\n"),
        ("* a\n  b\n  * c\n    d\n", "* a\n    b\n    * c\n        d\n"),
        ("```\n  as it is\n```\n", "```\n  as it is\n```\n"),
    ],
)
def test_pages_for_mkdocs(page: str, read: str) -> None:
    assert build_site.as_mkdocs_reads(page) == read


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://example.net/a.js"></script>', 1),
        ('<link rel="stylesheet" href="//example.net/a.css">', 1),
        ('<a href="https://example.net/">there</a> <img src="../img/a.svg">', 0),
    ],
)
def test_what_a_page_loads(tmp_path: Path, html: str, found: int) -> None:
    (tmp_path / "a.html").write_text(html)
    assert len(list(build_site.loaded_from_elsewhere(tmp_path))) == found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The pages of the tree, for MkDocs."""
    assert build_site.copy_pages(tmp_path / "pages") > 50
    return tmp_path


@pytest.mark.parametrize("link", ["none.md", "DESIGN.md#no-such-heading"])
def test_a_dead_link(folder: Path, link: str) -> None:
    with (folder / "pages/README.md").open("a") as page:
        page.write(f"\n[there]({link})\n")
    assert list(build_site.build_in(folder)) != []


def test_a_page_that_is_not_listed(folder: Path) -> None:
    (folder / "pages/docs/new.md").write_text("# New\n")
    assert list(build_site.build_in(folder)) != []


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    """One that asks nothing of the network."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no chromium here")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield started
    finally:
        started.quit()


def test_search_from_the_disk(folder: Path, browser: webdriver.Chrome) -> None:
    assert list(build_site.build_in(folder)) == []
    browser.get(f"file://{folder}/html/docs/networks/bgp.html?q=ports_per_block")
    found = "#mkdocs-search-results article a"
    WebDriverWait(browser, PATIENCE).until(lambda driver: driver.find_elements(By.CSS_SELECTOR, found))
    links = [link.get_attribute("href") for link in browser.find_elements(By.CSS_SELECTOR, found)]
    assert any(link.startswith(f"file://{folder}/html/docs/logging.html#") for link in links), links
    assert all(Path(link.removeprefix("file://").partition("#")[0]).is_file() for link in links)
