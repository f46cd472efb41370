# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pages in a real browser, served and as files: what a reader clicks, and what happens then."""

import shutil
import threading
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from diolkos_lab.export import command
from diolkos_lab.serve.http import Server

PATIENCE = 60  # s; a page is ready in one or two


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"{program} is missing, so the pages cannot be tested; to install it: sudo packaging/setup.sh run")
    return path


@pytest.fixture(scope="module")
def chromium():
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = found("chromium")
    # Root may not use the sandbox; /dev/shm is small in containers; nothing is asked of the network.
    resolver = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", resolver):
        chosen.add_argument(argument)
    chosen.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=chosen, service=webdriver.ChromeService(found("chromedriver")))
    driver.set_window_size(1300, 1000)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def served(few: Path, tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("served") / "site"
    command.export(command.ExportRequest([few], out), lambda _: None)
    with Server(out, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url
        server.shutdown()


@pytest.fixture(scope="module")
def exported(few: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("exported") / "site"
    command.export(command.ExportRequest([few], out, pairs=2, reports=1), lambda _: None)
    return f"{out.as_uri()}/"


@pytest.fixture(params=["served", "exported"])
def site(request: pytest.FixtureRequest, chromium: webdriver.Chrome):
    """The list of runs, from the server and from a file; nothing may complain."""
    address = request.getfixturevalue(request.param)
    chromium.get_log("browser")
    chromium.get("about:blank")  # what stands behind # in the same address is not forgotten otherwise
    chromium.get(f"{address}index.html")
    yield chromium
    assert [entry["message"] for entry in chromium.get_log("browser") if "favicon" not in entry["message"]] == []


def wait(driver: webdriver.Chrome, holds):
    """Until it holds. A page that is left meanwhile takes its elements away from whoever looks at them."""
    waiting = WebDriverWait(driver, PATIENCE, poll_frequency=0.05, ignored_exceptions=[StaleElementReferenceException])
    return waiting.until(lambda _: holds())


def places(driver: webdriver.Chrome) -> list[str]:
    """The folders of the runs that are shown, in their order."""
    rows = driver.find_elements(By.CSS_SELECTOR, "[data-table=runs] tbody tr")
    return [row.find_elements(By.TAG_NAME, "td")[-1].text.split()[0] for row in rows if row.is_displayed()]


def look_for(driver: webdriver.Chrome, words: str) -> None:
    field = driver.find_element(By.CSS_SELECTOR, "input[type=search]")
    field.clear()
    field.send_keys(words)


def alive(driver: webdriver.Chrome, name: str):
    """The figure, with its live picture drawn."""
    figure = driver.find_element(By.ID, f"picture-{name}")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    wait(
        driver, lambda: "alive" in (figure.get_attribute("class") or "") and figure.find_elements(By.CSS_SELECTOR, ".live svg")
    )
    return figure


def points(figure) -> int:
    return len(figure.find_elements(By.CSS_SELECTOR, ".live .mark-symbol path"))


def test_words_leave_the_runs_that_have_them(site: webdriver.Chrome) -> None:
    assert len(places(site)) == 6
    look_for(site, "small beta")
    assert places(site) == ["beta/fourth", "beta/third"]
    assert site.find_element(By.CSS_SELECTOR, "output").text == "2 of 6 lines"
    look_for(site, "0.2.0 6.18.2")
    assert places(site) == ["beta/fourth"]


def test_a_click_on_a_head_sorts(site: webdriver.Chrome) -> None:
    newest = places(site)
    heads = {head.text.strip(" ↕↑↓"): head for head in site.find_elements(By.CSS_SELECTOR, "[data-table=runs] th button")}
    heads["Start"].click()
    assert places(site) == newest[::-1]
    heads["Start"].click()
    assert places(site) == newest
    heads["Folder"].click()
    assert places(site) == sorted(newest)


def test_a_comparison_opens(site: webdriver.Chrome) -> None:
    rows = site.find_elements(By.CSS_SELECTOR, "[data-table=pairs] tbody tr")
    row = next(row for row in rows if row.text.startswith("small beta/third beta/fourth"))
    row.find_element(By.LINK_TEXT, "What changed").click()
    wait(site, lambda: "more than chance explains" in site.find_element(By.TAG_NAME, "h1").text)
    first, second = (row.text for row in site.find_elements(By.CSS_SELECTOR, "#both dd"))
    assert first.startswith("beta/third") and second.startswith("beta/fourth"), "the older one first"
    assert "diolkos tc" in alive(site, "changes").text
    lines = site.find_elements(By.CSS_SELECTOR, "[data-table=changes] tbody tr")
    assert [line.find_elements(By.TAG_NAME, "td")[-1].text for line in lines] == ["no", "yes"]
    site.back()
    wait(site, lambda: site.find_elements(By.CSS_SELECTOR, "[data-table=runs]"))


def test_a_trend_is_drawn_and_filtered(site: webdriver.Chrome) -> None:
    site.find_element(By.LINK_TEXT, "small").click()
    wait(site, lambda: "over the runs" in site.find_element(By.TAG_NAME, "h1").text)
    figure = alive(site, "trend-value")
    assert points(figure) == 8, "two systems in four runs"
    select = next(each for each in figure.find_elements(By.CSS_SELECTOR, ".vega-bind select") if "beta" in each.text)
    Select(select).select_by_visible_text("beta")
    wait(site, lambda: points(figure) == 4)
    figure.find_element(By.CSS_SELECTOR, ".legend button").click()
    wait(site, lambda: points(figure) == 2)
    assert points(alive(site, "trend-ratio")) == 4, "native has no ratio"
    assert len(site.find_elements(By.CSS_SELECTOR, "[data-table=trend] tbody tr")) == 8


def test_a_report_opens(site: webdriver.Chrome) -> None:
    site.find_element(By.LINK_TEXT, "stopped").click()
    wait(site, lambda: "/run/" in site.current_url and site.find_elements(By.ID, "theme"))
    assert "SYNTHETIC" in site.find_element(By.TAG_NAME, "body").text
