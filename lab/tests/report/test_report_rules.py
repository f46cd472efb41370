# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of a study whose systems have factors: what it says of them, and that its pictures have the published keys."""

import csv
from pathlib import Path

import pytest
import synthetic_rules

from diolkos_lab import report, studies
from diolkos_lab.experiment.length import expected_of_form_s
from diolkos_lab.report import effect_chapter, factor_page, nat_rules
from diolkos_lab.report.read import read
from diolkos_lab.report.systems import label

DNAT = "natrules/dnat/ipv6/1"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_rules.folder(tmp_path_factory.mktemp("rules") / "quick")


def test_cells_are_called_by_their_levels(quick: Path) -> None:
    names = {label(cell) for cell in read(quick).cells}
    assert "NAT rules dnat, nft-list, at the router, append, 10000 rules" in names
    assert {"native IPv6", "NAT rules conntrack, at the router"} <= names
    assert "NAT rules dnat over IPv4, nft-list, at the router, append, 1000 rules" in names
    assert len(names) == len(read(quick).cells), "each has a name of its own"


def test_every_row_of_a_level_has_its_ratio_to_the_path_without_nat(quick: Path) -> None:
    rows = [row for row in read(quick).rows if row.cell.system == "natrules" and row.metric in ("throughput", "rtt", "rate")]
    assert rows and all(row.ratio is not None and row.ratio_ci95 is not None for row in rows)


def test_the_effects_found_are_those_that_were_made(quick: Path) -> None:
    results = read(quick)
    found = {(e.load, e.metric, e.factor, e.levels, e.given): e for e in effect_chapter.found(results) if e.subject == DNAT}
    by_rules = found["new-flows", "rate", "rules", (10, 1000), (("position", "append"),)]
    assert by_rules.significant and by_rules.ci95
    assert by_rules.ci95[0] < (3 + 0.2) / (3 + 20) < by_rules.ci95[1]
    first = found["new-flows", "rate", "rules", (10, 1000), (("position", "top"),)]
    assert not first.significant and first.ci95 and first.ci95[0] < 1 < first.ci95[1]
    assert not found["tcp-upload", "throughput", "position", ("top", "append"), ()].significant
    assert not found["ping", "rtt", "place", ("client", "router"), ()].significant
    assert found["new-flows", "rate", "backend", ("iptables-legacy", "nft-map"), ()].ratio.low > 5


def test_the_page_says_it_in_words_and_has_the_published_pictures(quick: Path) -> None:
    results = read(quick)
    page = report.write(quick).read_text()
    lead = factor_page.lead(results, effect_chapter.found(results))
    assert lead.startswith("The position of the rule") or "The number of rules matters for" in lead
    assert "The number of rules matters for" in lead and "makes no difference that could be seen for" in lead
    assert lead.split(".")[0] in page
    names = {file.stem for file in (quick / "pictures").glob("*.svg")}
    assert {"box-ping-append", "box-ping-top", "box-tcp-append", "box-tcp-top", "box-tcp-positions"} <= names
    assert {"box-udp-append", "box-udp-top", "box-udp-positions"} <= names
    assert names.isdisjoint({"box-tcp-middle", "box-udp-middle"}), "the quick form has no rule in the middle"
    assert {"new-flows-rules", "http-rules"} <= names
    assert "WireGuard" in page and "kernel" in page and "ip link add wg0" in page, "a level that is missing"
    with (quick / "tables" / "effects.csv").open() as file:
        raw = list(csv.DictReader(file))
    assert {row["factor"] for row in raw} == {"rules", "position", "place", "backend", "engine"}


def test_the_full_form_has_all_eleven_pictures(tmp_path: Path) -> None:
    results = read(synthetic_rules.folder(tmp_path / "full", "full", blocks=6))
    [_, boxes] = nat_rules.chapters(results)
    names = [picture.name.removeprefix("box-") for picture in boxes.pictures]
    streams = [f"{load}-{which}" for load in ("tcp", "udp") for which in ("append", "middle", "top", "positions")]
    assert names == ["ping-append", "ping-middle", "ping-top", *streams]
    assert "11 of them" in boxes.paragraphs[0] and "by iptables-legacy" in boxes.paragraphs[0]
    assert "7, 1000 rules, nursery: median" in boxes.pictures[0].alt
    for picture in boxes.pictures[-4:]:
        assert picture.title.startswith("UDP throughput, ") and "1, no NAT: median 3." in picture.alt, picture.alt


@pytest.mark.parametrize("form", ["quick", "full"])
def test_what_the_published_pictures_compare_is_measured_under_every_published_load(form: str) -> None:
    study = studies.load("nat-rules").of_form(form)
    keyed = [each for each in study.system if each.key == DNAT and each.forms and set(each.factors["position"]) > {"append"}]
    assert {level for each in keyed for level in each.factors["place"]} == {"client", "router"}
    native = [each for each in study.system if each.system == "native"]
    assert all({"ping", "tcp-upload", "udp"} <= set(each.loads) for each in [*keyed, *native])
    assert {"ping", "tcp-upload", "udp"} <= {load.name for load in study.form[form].load}


def test_the_quick_form_ends_in_ten_minutes_with_all_its_blocks() -> None:
    study = studies.load("nat-rules")
    form = study.form["quick"]
    unlimited = study.model_copy(update={"form": {"quick": form.model_copy(update={"time_budget_s": None})}})
    assert form.time_budget_s and expected_of_form_s(unlimited, "quick") <= form.time_budget_s <= 600
