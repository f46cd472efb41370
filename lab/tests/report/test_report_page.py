# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page: well formed, alone in the world, complete; and made of folders that are not whole."""

import csv
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
import synthetic

from diolkos_lab import report
from diolkos_lab.faults import UsageFault
from diolkos_lab.report import live

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Balance(HTMLParser):
    """Checks that every element is closed in order, and collects ids and references."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references, self.texts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self._note(dict(attrs))

    def handle_startendtag(self, tag, attrs):
        self._note(dict(attrs))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]} at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data):
        if self.open[-1:] != ["script"]:
            self.texts.append(data)

    def _note(self, attrs):
        if "id" in attrs:
            self.ids.append(attrs["id"])
        for value in attrs.values():
            self.references += re.findall(r"url\(#([^)]+)\)", value or "")
        if (attrs.get("href") or "").startswith("#"):
            self.references.append(attrs["href"][1:])
        if "aria-labelledby" in attrs:
            self.references.append(attrs["aria-labelledby"])


def only_its_own_scripts(page):
    """Data blocks that a browser does not run, and one script, which its policy names."""
    found = re.findall(r"(?s)<script\b([^>]*)>(.*?)</script>", page)
    kinds = [kind.strip() for kind, _ in found]
    assert kinds == [
        'type="text/plain" id="charts"',
        'type="application/json" id="carried"',
        'type="text/plain" id="files"',
        'type="text/plain" id="vega"',
        "",
    ]
    assert len(re.findall(r"(?i)<script", page)) == len(kinds)
    assert not re.search("[<>&\u2028\u2029]", found[1][1])
    json.loads(found[1][1])
    for _, packed in (found[0], *found[2:4]):
        assert re.fullmatch("[A-Za-z0-9+/=]*", packed), "base64 holds no markup"
    assert found[-1][1] == live.script()


def parsed(page):
    balance = Balance()
    balance.feed(page)
    balance.close()
    assert balance.open == []
    return balance


def made(tmp_path, edit=None, **plan):
    folder = synthetic.folder(tmp_path / "result", synthetic.Plan(**plan))
    if edit:
        edit(folder)
    return report.write(folder).read_text()


def check(page):
    """What must hold of every report."""
    balance = parsed(page)
    assert len(balance.ids) == len(set(balance.ids))
    assert set(balance.references) <= set(balance.ids)
    only_its_own_scripts(page)
    assert not re.search(
        r"(?i)<(link|iframe|object|embed|base)\b|@import|https?:|url\((?!#)", re.sub(r"(?s)<script.*?</script>", "", page)
    )
    assert not re.search(r"\b(nan|None|inf)\b", " ".join(balance.texts))
    return balance


def test_the_page_is_well_formed_and_needs_nothing_from_outside(whole):
    check((whole / "report.html").read_text())


def test_the_page_is_small_enough_to_send(whole):
    assert (whole / "report.html").stat().st_size < 2_000_000


def test_every_picture_is_there_as_svg_and_pdf_and_has_a_text(whole):
    page = (whole / "report.html").read_text()
    names = re.findall(r'<figure id="picture-([^"]+)"', page)
    assert {"glance", "throughput-linear", "throughput-log", "throughput-two-scales", "rtt-linear", "rtt-log"} <= set(names)
    assert {"rtt-distribution", "cpu", "blocks-rtt", "published-throughput", "published-rtt"} <= set(names)
    for name in names:
        assert (whole / "pictures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        ET.parse(whole / "pictures" / f"{name}.svg")
    for alt in re.findall(r'role="img" aria-label="([^"]*)"', page):
        assert len(alt) > 40


def test_inline_pictures_are_well_formed_and_follow_the_page_s_colours(whole):
    page = (whole / "report.html").read_text()
    pictures = re.findall(r"<svg\b.*?</svg>", page, re.S)
    assert len(pictures) == len(re.findall("<figure ", page))
    for svg in pictures:
        ET.fromstring(svg)
        assert "var(--ink)" in svg
        assert not re.search(r"#[0-9a-f]{6}\b", svg), "a colour that does not follow a dark page"


def test_making_a_picture_fit_for_the_page_changes_no_word_of_it(whole):
    page = (whole / "report.html").read_text()
    for file in (whole / "pictures").glob("*.svg"):
        inline = re.search(rf'id="picture-{file.stem}".*?(<svg\b.*?</svg>)', page, re.S)[1]
        alone = re.sub(r"<metadata>.*?</metadata>", "", file.read_text(), flags=re.S)
        assert re.findall(r"<text[^>]*>([^<]*)<", inline) == re.findall(r"<text[^>]*>([^<]*)<", alone)


def test_axes_carry_units(whole):
    for name, unit in (("throughput-linear", "Gbit/s"), ("rtt-log", "µs"), ("cpu", "s per GB"), ("rtt-distribution", "µs")):
        assert unit in (whole / "pictures" / f"{name}.svg").read_text()


def test_the_same_folder_gives_the_same_page(whole):
    def page():  # but for the PDFs in it, whose parts vl-convert puts in another order each time
        return re.sub(r'<script type="text/plain" id="files">[^<]*', "", (whole / "report.html").read_text())

    first, picture = page(), (whole / "pictures" / "glance.svg").read_bytes()
    report.write(whole)
    assert page() == first
    assert (whole / "pictures" / "glance.svg").read_bytes() == picture


def test_the_page_tells_how_to_repeat_the_run(whole):
    page = (whole / "report.html").read_text()
    assert "diolkos-lab run clat --quick --seed 7" in page
    assert "drawn with seed 7" in page


def test_verdicts_are_shown_with_their_rule(whole):
    page = (whole / "report.html").read_text()
    for word in ("not met", "undecided"):
        assert f"</span> {word}</span>" in page
    assert "lower end of the 95 % interval" in page


@pytest.mark.usefixtures("sketched")
def test_text_of_the_files_is_never_markup(tmp_path):
    def spoil(folder):
        summary = json.loads((folder / "summary.json").read_text())
        summary["missing"] = [{"system": "<b>x</b>", "reason": "<script>alert(1)</script>", "how": '"><img src=x>'}]
        (folder / "summary.json").write_text(json.dumps(summary))

    page = made(tmp_path, spoil)
    assert "<script>alert" not in page and "<img" not in page and "<b>x" not in page
    check(page)


# ---- folders that are not whole


def drop(name):
    return lambda folder: (folder / name).unlink()


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("name", ["summary.json", "samples.jsonl", "host.json", "study.toml"])
def test_a_missing_file_costs_a_part_and_is_named(tmp_path, name):
    page = made(tmp_path, drop(name))
    check(page)
    assert f"{name} is missing" in page


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize(
    "plan",
    [
        {"blocks": 0},
        {"blocks": 1},
        {"failed": frozenset({"diolkos", "tayga", "nat44"})},
        {"failed": frozenset({"native"})},
        {"absent": frozenset({"native"})},
        {"absent": frozenset({"diolkos", "tayga", "nat44", "jool", "tundra"})},
        {"untrusted": frozenset(("tayga", block) for block in range(10))},
        {"echoes": 1, "seconds": 1},
    ],
    ids=["warm-up only", "one block", "all fail", "native fails", "no native", "only native", "all untrusted", "tiny"],
)
def test_a_partial_run_still_gives_a_page(tmp_path, plan):
    check(made(tmp_path, **plan))


@pytest.mark.usefixtures("sketched")
def test_a_run_with_more_factors_tells_its_cells_apart(tmp_path):
    page = made(tmp_path, offloads=("on", "off"), streams=(1, 10), quick=False)
    check(page)
    assert "The same with offloads off" in page
    assert "TCP upload, 10 streams, offloads off" in page


@pytest.mark.usefixtures("sketched")
def test_a_torn_last_line_costs_one_trial(tmp_path):
    def tear(folder):
        file = folder / "samples.jsonl"
        file.write_text(file.read_text()[:-200])

    page = made(tmp_path, tear)
    assert "1 line of samples.jsonl could not be read" in page


@pytest.mark.usefixtures("sketched")
def test_what_cannot_be_trusted_stands_in_brackets_and_is_grey(tmp_path):
    def undecide(folder):  # no rule is decided by trials that do not count
        summary = json.loads((folder / "summary.json").read_text()) | {"verdicts": []}
        (folder / "summary.json").write_text(json.dumps(summary))

    every = frozenset((system, block) for system in synthetic.SYSTEMS for block in range(10))
    page = made(tmp_path, undecide, untrusted=every)
    check(page)
    assert '<p class="untrusted">In brackets: not trusted.' in page
    cells = re.findall(r'<td class="untrusted">([^<]+)', page)
    assert len(cells) > 6 and all(cell.startswith("(") and cell.endswith(")") for cell in cells)
    assert "This run cannot say" in page
    with (tmp_path / "result" / "tables" / "throughput.csv").open() as file:
        assert {line["not_trusted"] for line in csv.DictReader(file)} == {"median", "median ratio"}


@pytest.mark.usefixtures("sketched")
def test_the_page_says_what_was_compared(tmp_path):
    page = made(tmp_path)
    assert re.search(r"<dt>native IPv6; .*</dt><dd>The kernel forwards", page)
    assert "<dt>NAT44, 2 hops</dt>" in page


@pytest.mark.usefixtures("sketched")
def test_a_study_without_chapters_of_its_own_gets_its_tables(tmp_path):
    def rename(folder):
        summary = json.loads((folder / "summary.json").read_text()) | {"study": "another"}
        (folder / "summary.json").write_text(json.dumps(summary))

    page = made(tmp_path, rename)
    check(page)
    assert "study another" in page
    assert "published" not in page and "thesis" not in page
    for chapter in ("throughput", "rtt", "cpu", "unseen-here"):
        assert f'<section id="{chapter}">' in page


# ---- folders that are none


def test_an_unknown_format_is_refused_in_one_sentence(tmp_path):
    def future(folder):
        summary = json.loads((folder / "summary.json").read_text()) | {"format": 2}
        (folder / "summary.json").write_text(json.dumps(summary))

    with pytest.raises(report.UnreadableFolder, match="has format 2; this diolkos-lab reads format 1"):
        made(tmp_path, future)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(report.UnreadableFolder, match="holds no trials"):
        report.write(tmp_path)


def test_no_folder_is_refused(tmp_path):
    with pytest.raises(UsageFault, match="is not a folder"):
        report.write(tmp_path / "absent")
