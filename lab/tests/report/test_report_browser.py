# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page in a real browser, without a network: what a reader clicks, and what happens then."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
import synthetic
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from diolkos_lab import report

PATIENCE = 60  # s; a page is ready in one or two
# An element that a hostile name would make; it must never be there.
MARKUP = "<img src=x onerror=\"document.title='run'\"></script><script>document.title='run'</script>\u2028'\"&amp;"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A page whose files name a system, a load and a guard by markup."""
    folder = synthetic.folder(tmp_path_factory.mktemp("hostile") / "result")
    text = (folder / "samples.jsonl").read_text()
    text = text.replace('"tayga"', json.dumps(MARKUP)).replace('"steal"', json.dumps(MARKUP))
    (folder / "samples.jsonl").write_text(text)
    summary = (folder / "summary.json").read_text().replace('"tayga"', json.dumps(MARKUP))
    (folder / "summary.json").write_text(summary)
    report.write(folder)
    return folder


def options(downloads):
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = found("chromium")
    # Root may not use the sandbox; /dev/shm is small in containers; nothing is asked of the network.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"):
        chosen.add_argument(argument)
    chosen.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    chosen.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return chosen


def found(program):
    path = shutil.which(program)
    if path is None:
        pytest.fail(f"{program} is missing, so the page cannot be tested; to install it: sudo packaging/setup.sh run")
    return path


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def chromium(downloads):
    driver = webdriver.Chrome(options=options(downloads), service=webdriver.ChromeService(found("chromedriver")))
    driver.set_window_size(1000, 1200)
    yield driver
    driver.quit()


@pytest.fixture
def page(chromium, whole):
    return opened(chromium, whole)


def opened(chromium, folder):
    """The page as for the first time."""
    chromium.get((folder / "report.html").as_uri())
    chromium.execute_script("localStorage.clear()")
    chromium.get_log("browser")
    chromium.refresh()
    return chromium


def wait(driver, holds):
    """Until it holds. A picture that is drawn meanwhile takes its elements away from whoever looks at them."""
    waiting = WebDriverWait(driver, PATIENCE, poll_frequency=0.05, ignored_exceptions=[StaleElementReferenceException])
    return waiting.until(lambda _: holds())


def alive(driver, name):
    """The figure, with its live picture drawn."""
    figure = driver.find_element(By.ID, f"picture-{name}")
    unfolded(driver, figure)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    wait(
        driver, lambda: "alive" in (figure.get_attribute("class") or "") and figure.find_elements(By.CSS_SELECTOR, ".live svg")
    )
    return figure


def unfolded(driver, element):
    """Its chapter, as a click on the title leaves it."""
    for fold in element.find_elements(By.XPATH, "ancestor::details[not(@open)]"):
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", fold)
        fold.find_element(By.TAG_NAME, "summary").click()


def words(figure):
    """All texts of the live picture, as they are at one moment."""
    return figure.parent.execute_script(
        "return [...arguments[0].querySelectorAll('.live svg text')].map((text) => text.textContent)", figure
    )


def complaints(driver):
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def downloaded(driver, folder, name):
    wait(driver, lambda: (folder / name).is_file() and (folder / name).stat().st_size > 0)
    return folder / name


# ---- pictures


def test_every_picture_comes_alive_without_a_complaint(page):
    names = [figure.get_attribute("data-chart") for figure in page.find_elements(By.CSS_SELECTOR, "figure[data-chart]")]
    assert len(names) > 10
    for name in names:
        figure = alive(page, name)
        assert words(figure), name
        assert not figure.find_element(By.CSS_SELECTOR, ".drawn").is_displayed(), "the still picture makes room"
    assert complaints(page) == []


def test_a_click_in_the_legend_hides_a_system_and_another_shows_it(page):
    figure = alive(page, "glance")
    assert "Tayga" not in "".join(words(figure)) or "Tayga" in words(figure)
    button = next(each for each in figure.find_elements(By.CSS_SELECTOR, ".legend button") if "Tayga" in each.text)
    before = words(figure).count("Tayga")
    assert before >= 3
    button.click()
    wait(page, lambda: "Tayga" not in words(figure))
    assert button.get_attribute("aria-pressed") == "false"
    assert words(figure).count("diolkos tc") == before
    button.click()
    wait(page, lambda: words(figure).count("Tayga") == before)
    assert button.get_attribute("aria-pressed") == "true"


def test_a_pointer_over_a_point_shows_value_interval_and_number_of_trials(page):
    figure = alive(page, "glance")

    def tooltip():
        """A neighbour that comes alive may move the point away from below the pointer."""
        ActionChains(page).move_to_element(figure.find_element(By.CSS_SELECTOR, ".live .mark-symbol path")).perform()
        return page.execute_script("return document.querySelector('#vg-tooltip-element.visible')?.innerText")

    shown = wait(page, tooltip)
    for part in ("system", "ratio", "95 % interval", "trials"):
        assert part in shown
    assert re.search(r"\d+ of \d+ count", shown)


def test_ctrl_and_the_wheel_zoom_and_reset_puts_back(page):
    figure = alive(page, "throughput-linear")
    before = words(figure)
    wheel = """const [place, ctrlKey] = arguments, box = place.getBoundingClientRect();
        const event = new WheelEvent("wheel", {deltaY: -400, ctrlKey, bubbles: true, cancelable: true,
            clientX: box.x + box.width / 4, clientY: box.y + box.height / 2});
        document.elementFromPoint(event.clientX, event.clientY).dispatchEvent(event); return event.defaultPrevented"""
    svg = figure.find_element(By.CSS_SELECTOR, ".live svg")
    assert not page.execute_script(wheel, svg, False), "the wheel alone scrolls the page"
    assert page.execute_script(wheel, svg, True)
    wait(page, lambda: words(figure) != before)
    figure.find_element(By.CSS_SELECTOR, ".reset").click()
    wait(page, lambda: words(figure) == before)


def test_the_page_fits_a_phone(page):
    page.set_window_size(500, 900)  # headless chromium takes no less
    page.refresh()
    try:
        for name in ("glance", "published-rtt", "throughput-two-scales"):
            figure = alive(page, name)
            live = figure.find_element(By.CSS_SELECTOR, ".live")
            assert live.size["width"] <= figure.size["width"], "what is wider scrolls by itself"
        widths = page.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert widths[0] <= widths[1], "nothing scrolls sideways but what scrolls by itself"
    finally:
        page.set_window_size(1000, 1200)


def test_a_desk_has_the_answer_first_and_is_not_long(page):
    page.set_window_size(1400, 900)
    page.refresh()
    try:
        alive(page, "glance")
        page.execute_script("scrollTo(0, 0)")
        screen = page.execute_script("return innerHeight")
        first, picture, table = (page.find_element(By.CSS_SELECTOR, each) for each in ("h1", "figure", "table.costs"))
        assert first.location["y"] < picture.location["y"] < table.location["y"]
        assert first.location["y"] + first.size["height"] < screen / 2
        assert page.execute_script("return document.documentElement.scrollHeight") < 15 * 900
        page.execute_script("scrollTo(0, 4000)")
        top = "return document.querySelector('nav').getBoundingClientRect()."
        assert page.execute_script(f"{top}top") >= 0 and page.execute_script(f"{top}bottom") <= screen, "contents stay in sight"
    finally:
        page.set_window_size(1000, 1200)


def test_no_word_of_a_picture_is_cut_off(page):
    page.set_window_size(1400, 900)
    page.refresh()
    try:
        for figure in page.find_elements(By.CSS_SELECTOR, "figure[data-chart]"):
            alive(page, figure.get_attribute("data-chart"))
        beyond = """return [...document.querySelectorAll('.live')].flatMap((live) => [...live.querySelectorAll('svg text')]
            .filter((text) => text.getBoundingClientRect().width)
            .filter((text) => text.getBoundingClientRect().right > Math.min(live.getBoundingClientRect().right,
                live.querySelector('svg').getBoundingClientRect().right) + 1)
            .map((text) => live.parentElement.id + ': ' + text.textContent))"""
        assert page.execute_script(beyond) == []
    finally:
        page.set_window_size(1000, 1200)


# ---- colours


def ground(driver):
    return driver.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_dark_is_chosen_remembered_and_reaches_the_pictures(page):
    alive(page, "throughput-linear")
    assert ground(page) == "rgb(255, 255, 255)"
    Select(page.find_element(By.ID, "theme")).select_by_value("dark")
    assert ground(page) == "rgb(23, 23, 22)"

    def colours():
        texts = "document.querySelectorAll('#picture-throughput-linear .live svg text')"
        return set(page.execute_script(f"return [...{texts}].map((text) => text.getAttribute('fill'))"))

    wait(page, lambda: colours() == {"#f2f2ee"})
    page.refresh()
    assert ground(page) == "rgb(23, 23, 22)"
    assert Select(page.find_element(By.ID, "theme")).first_selected_option.get_attribute("value") == "dark"
    alive(page, "throughput-linear")
    assert colours() == {"#f2f2ee"}


def test_colours_that_are_chosen_while_a_picture_is_drawn_reach_it(chromium, whole):
    """The choice falls right after the place of the picture is made, before Vega has drawn into it."""
    source = """new MutationObserver((_, watch) => {
        const list = document.querySelector("#theme"), place = document.querySelector(".live");
        if (!list || !place) return;
        watch.disconnect();
        place.closest("figure").dataset.first = "yes";
        list.value = "dark";
        list.dispatchEvent(new Event("change"));
    }).observe(document, {childList: true, subtree: true})"""
    added = chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        page = opened(chromium, whole)
    finally:
        chromium.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    first = wait(page, lambda: page.execute_script("return document.querySelector('[data-first]')?.dataset.chart"))
    figure = alive(page, first)
    texts = "[...document.querySelectorAll('[data-first] .live svg text')].map((text) => text.getAttribute('fill'))"
    assert "#f2f2ee" in page.execute_script(f"return {texts}")
    assert len(figure.find_elements(By.CSS_SELECTOR, ".live")) == 1
    assert complaints(page) == []


def test_auto_follows_the_system(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    try:
        assert ground(page) == "rgb(23, 23, 22)"
        Select(page.find_element(By.ID, "theme")).select_by_value("light")
        assert ground(page) == "rgb(255, 255, 255)"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# ---- tables


def column(box, number):
    return [row.find_elements(By.CSS_SELECTOR, "th, td")[number].text for row in box.find_elements(By.CSS_SELECTOR, "tbody tr")]


def test_a_table_sorts_by_number_both_ways(page):
    box = page.find_element(By.CSS_SELECTOR, "[data-table=throughput]")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
    head = box.find_elements(By.CSS_SELECTOR, "thead th")[2]

    def numbers():
        return [float(text.split()[0]) for text in column(box, 2)]

    assert len(numbers()) > 10 and numbers() != sorted(numbers())
    head.find_element(By.TAG_NAME, "button").click()
    assert numbers() == sorted(numbers()) and head.get_attribute("aria-sort") == "ascending"
    head.find_element(By.TAG_NAME, "button").click()
    assert numbers() == sorted(numbers(), reverse=True) and head.get_attribute("aria-sort") == "descending"


def test_a_filter_leaves_the_lines_that_have_its_words(page):
    box = page.find_element(By.CSS_SELECTOR, "[data-table=throughput]")
    field = page.find_element(By.CSS_SELECTOR, "p.tools:has(+ [data-table=throughput]) input")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
    every = len(column(box, 0))
    field.send_keys("diolkos upload")
    shown = [row for row in box.find_elements(By.CSS_SELECTOR, "tbody tr") if row.is_displayed()]
    assert 0 < len(shown) < every
    assert all("diolkos" in row.text and "upload" in row.text for row in shown)
    assert (
        f"{len(shown)} of {every} lines"
        in page.find_element(By.CSS_SELECTOR, "p.tools:has(+ [data-table=throughput]) output").text
    )


# ---- downloads


def test_each_kind_of_file_is_downloaded_from_the_page_alone(chromium, whole, downloads, tmp_path):
    alone = shutil.copy(whole / "report.html", tmp_path)
    page = opened(chromium, Path(alone).parent)
    figure = alive(page, "glance")
    button = next(each for each in figure.find_elements(By.CSS_SELECTOR, ".legend button") if "Tayga" in each.text)
    button.click()
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        figure.find_element(By.CLASS_NAME, f"get-{kind}").click()
        assert downloaded(page, downloads, f"glance.{kind}").read_bytes().startswith(start)
    svg = (downloads / "glance.svg").read_text()
    assert "diolkos tc" in svg and "Tayga" not in svg, "the picture as it is shown"
    table = page.find_element(By.CSS_SELECTOR, "p.tools:has(+ [data-table=throughput]) .get-csv")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", table)
    table.click()
    assert downloaded(page, downloads, "throughput.csv").read_text() == (whole / "tables" / "throughput.csv").read_text()
    raw = page.find_element(By.ID, "raw")
    unfolded(page, raw)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", raw)
    raw.click()
    with downloaded(page, downloads, "trials.csv").open() as file:
        trials = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (whole / "samples.jsonl").read_text().splitlines()[1:]]
    assert len(trials) == len(lines)
    assert float(trials[5]["duration"]) == lines[5]["duration"] and trials[5]["system"] == lines[5]["system"]
    assert complaints(page) == []


# ---- what must not happen


def test_names_that_are_markup_are_shown_and_not_run(chromium, hostile):
    page = opened(chromium, hostile)
    figure = alive(page, "glance")
    assert any("<img src=x" in text for text in words(figure))
    buttons = figure.find_elements(By.CSS_SELECTOR, ".legend button")
    next(each for each in buttons if "<img src=x" in each.text).click()
    wait(page, lambda: not any("<img src=x" in text for text in words(figure)))
    alive(page, "throughput-linear")
    alive(page, "glance")
    for point in figure.find_elements(By.CSS_SELECTOR, ".live .mark-symbol path")[:3]:
        ActionChains(page).move_to_element(point).perform()
    assert page.title != "run"
    assert not page.find_elements(By.TAG_NAME, "img")
    assert complaints(page) == []


def test_the_page_may_ask_nobody_and_run_nothing_else(page):
    page.execute_script("const script = document.createElement('script'); script.textContent = 'document.title = \"run\"';"
                        "document.head.append(script); const picture = new Image(); picture.src = 'http://198.18.0.1/x.png';"
                        "document.body.append(picture)")  # fmt: skip
    asked = page.execute_async_script(
        "const done = arguments[0]; fetch('http://198.18.0.1/').then(() => done('yes'), () => done('no'))"
    )
    assert asked == "no" and page.title != "run"
    said = " ".join(complaints(page))
    assert said.count("Content Security Policy") >= 3


def test_without_scripts_the_still_pictures_and_tables_are_there(chromium, whole):
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.get((whole / "report.html").as_uri())
        pictures = chromium.find_elements(By.CSS_SELECTOR, "figure .drawn svg")
        assert len(pictures) > 10 and pictures[0].is_displayed()
        folds = chromium.find_elements(By.CSS_SELECTOR, "details > summary")
        assert len(folds) > 5 and not all(each.is_displayed() for each in pictures)
        for fold in folds:
            fold.click()
        assert all(each.is_displayed() for each in pictures)
        assert len(chromium.find_elements(By.CSS_SELECTOR, "[data-table=throughput] tbody tr")) > 10
        assert not chromium.find_elements(By.CSS_SELECTOR, "button, select, input"), "nothing that would do nothing"
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
