# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The published files: strict, whole, and turned into ratios to the native path of the same environment."""

import pytest

from diolkos_lab.experiment import document
from diolkos_lab.faults import UsageFault
from diolkos_lab.published import ratios
from diolkos_lab.published.definition import NATIVE, UNITS, Published

STUDIES = ("clat", "nat64-parallel", "nat-rules", "router-accuracy")


def group(study, name):
    return next(each for each in ratios.published_figures(study).group if each.name == name)


def figure(study, name, environment, system, **factors):
    found = [
        each
        for each in group(study, name).figures
        if (each.environment, each.system) == (environment, system) and factors.items() <= each.factors.items()
    ]
    assert len(found) == 1
    return group(study, name), found[0]


def test_each_of_the_four_studies_has_its_file():
    assert ratios.studies() == sorted(STUDIES)
    for study in STUDIES:
        assert ratios.published_figures(study).study == study
    assert ratios.published_figures("capacity") is None
    assert ratios.published_figures("../clat") is None


# Figures as they stand in the originals; native and translated.
@pytest.mark.parametrize(
    ("study", "name", "environment", "system", "factors", "expected"),
    [
        ("clat", "throughput", "one-tsc", "jool", {}, 33.87 / 35.88),
        ("clat", "throughput", "one-tsc", "tundra", {}, 4.435 / 42.3),
        ("clat", "rtt", "aws", "tayga", {}, 0.091 / 0.042),
        ("clat", "rtt", "two", "jool", {}, 0.563 / 0.532),
        ("nat64-parallel", "tcp-v6-to-v4", "x520", "jool", {"streams": 50}, 8.23 / 9.28),
        ("nat64-parallel", "tcp-v4-to-v6", "x520", "tayga", {"streams": 20}, 2.85 / 9.28),
        ("nat64-parallel", "udp-v4-to-v6", "x520", "jool", {"streams": 50}, 22.57 / 10),
        ("nat-rules", "wireguard", "i7-4600u-before", "wireguard", {}, 3.08 / 44),
        ("router-accuracy", "pdr", "clab1-bare", "ebpf", {"kernel": "5.15", "ring": 512}, 6972109 / 374494),
    ],
)
def test_a_ratio_is_to_the_native_path_of_its_environment_and_hops(study, name, environment, system, factors, expected):
    assert ratios.ratio(*figure(study, name, environment, system, **factors)) == pytest.approx((expected, expected))


def test_where_two_native_values_may_be_meant_there_are_two_ratios():
    assert ratios.ratio(*figure("clat", "throughput", "aws-kvm-clock", "tayga")) == pytest.approx((0.834 / 23.3, 0.834 / 14.8))


def test_a_range_stays_a_range():
    found = ratios.ratio(*figure("nat-rules", "tcp", "i7-4600u", "nat66", place="client", position="top"))
    assert found == pytest.approx((33.7 / 45.65, 36.9 / 45.65))


def test_what_failed_has_no_ratio():
    assert ratios.ratio(*figure("clat", "throughput", "one-tsc", "tayga")) is None


def test_forwarding_by_bpf_has_no_ratio_where_its_testbed_has_no_routing_of_the_same_setting():
    assert ratios.ratio(*figure("router-accuracy", "pdr", "clab1-bare", "ebpf", kernel="6.5", ring=512)) is None


def test_five_published_rates_are_above_their_link():
    data = ratios.published_figures("nat64-parallel")
    above = [
        (each.name, f.system, f.factors["streams"])
        for each in data.group
        for f in each.figures
        if ratios.impossible(data, each, f, UNITS[each.unit])
    ]
    assert above == [
        ("udp-v6-to-v4", "netfpga", 20),
        ("udp-v6-to-v4", "netfpga", 50),
        ("udp-v4-to-v6", "jool", 20),
        ("udp-v4-to-v6", "jool", 50),
        ("udp-v4-to-v6", "netfpga", 50),
    ]


def test_received_is_what_was_sent_less_what_was_lost():
    """As far as the published rounding to whole per cents and two decimals goes."""
    for name in ("udp-v6-to-v4", "udp-v4-to-v6"):
        for each in group("nat64-parallel", name).figures:
            assert each.sent * (1 - each.loss) == pytest.approx(each.value, abs=each.sent * 0.0055 + 0.02), each


def test_verdicts_of_published_experiments_are_counted():
    figures = group("router-accuracy", "pdr").figures
    assert len(figures) == 58
    assert [sum(rule in f.good for f in figures) for rule in ("paper", "hysteresis", "notebook")] == [20, 23, 34]
    assert sum(f.system == NATIVE for f in figures) == 54


def damaged(tmp_path, before, after):
    text = (ratios.FOLDER / "nat-rules.toml").read_text()
    assert before in text
    file = tmp_path / "nat-rules.toml"
    file.write_text(text.replace(before, after, 1))
    return file


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('unit = "Gbit/s"', 'unit = "Gbit"', "unit"),
        ("value = 45.65", "value = -45.65", "value"),
        ("value = 45.65", "value = nan", "value"),
        ("low = 33.7, high = 36.9", "low = 36.9, high = 33.7", "the lower one first"),
        ("low = 33.7, high = 36.9", "low = 33.7", "ends of a range"),
        ("value = 45.65", "value = 45.65, failed = true", "give one of"),
        (
            'environment = "i7-4600u", system = "native", value = 45.65',
            'environment = "nowhere", system = "native", value = 1',
            "nowhere",
        ),
        ('system = "wireguard", value = 3.08', 'system = "wire", value = 3.08', "wire"),
        ("value = 3.08", "value = 3.08, colour = 1", "colour"),
        ("format = 1", "format = 2", "this lab reads format 1"),
        ('counterparts = ["wireguard"]', "", "say in `absent` why"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path, before, after, says):
    file = damaged(tmp_path, before, after)
    with pytest.raises(UsageFault, match=rf"nat-rules\.toml:\d+:\d+: .*{says}"):
        document.read(file, Published)
