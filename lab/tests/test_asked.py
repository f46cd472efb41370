# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the command line makes of a study: --only, --blocks, --seconds, --hours."""

import json
from typing import Any

import pytest

from diolkos_lab import asked, studies
from diolkos_lab.asked import Length
from diolkos_lab.experiment.length import all_systems, expected_of_form_s
from diolkos_lab.faults import UsageFault
from diolkos_lab.sut import definition
from whole_program import Lab, refused


def _plan(lab: Lab, study: str, *arguments: object) -> dict[str, Any]:
    code, output, errors = lab("plan", study, "--quick", "--diolkos", "/bin/true", "--json", *arguments)
    assert (code, errors) == (0, "")
    found: dict[str, Any] = json.loads(output)
    return found


def _paths(found: dict[str, Any]) -> set[str]:
    return {f"{cell['system']}/{cell['datapath']}" for cell in found["cells"]}


@pytest.mark.parametrize(
    ("only", "paths"),
    [
        (["tayga"], {"native/kernel", "tayga/masquerade"}),
        (["diolkos/nat64-tc"], {"native/kernel", "diolkos/nat64-tc"}),
        (["nat64-tc", "tayga"], {"native/kernel", "diolkos/nat64-tc", "tayga/masquerade"}),
        (["native"], {"native/kernel"}),
    ],
)
def test_only_takes_systems_and_datapaths(only: list[str], paths: set[str], lab: Lab) -> None:
    assert _paths(_plan(lab, "nat64", *(word for name in only for word in ("--only", name)))) == paths


def test_only_takes_placements_and_loads(lab: Lab) -> None:
    found = _plan(lab, "speed", "--only", "direct", "--only", "forwarding-rate")
    assert {cell["load"] for cell in found["cells"]} == {"forwarding-rate"}
    assert all("direct" in path for path in _paths(found) - {"native/kernel"}) and len(_paths(found)) > 2
    assert {cell["load"] for cell in _plan(lab, "siit", "--only", "ping")["cells"]} == {"ping"}


def test_rules_about_what_is_left_out_are_left_out() -> None:
    study = asked.study(studies.load("clat"), "quick", ["ping"], definition.catalogue(), Length())
    assert all(set(claim.loads) == {"ping"} for claim in study.claim)


def test_names_that_mean_nothing_are_refused(lab: Lab) -> None:
    said = refused(lab("plan", "siit", "--quick", "--only", "qwerty"))
    assert "--only qwerty: not a system of the study siit, nor a datapath or a load of it; there are native, " in said
    assert "ping" in said and "siit-tc" in said


def test_blocks_and_seconds(lab: Lab) -> None:
    found = _plan(lab, "siit", "--blocks", 3, "--seconds", 2)
    assert (found["blocks"], found["claim_blocks"]) == (3, 0)
    assert all(cell["expected_s"] > 2 for cell in found["cells"] if cell["load"].startswith("tcp"))
    assert "--seconds 1.5: tcp-upload: seconds must be a whole number" in refused(
        lab("plan", "siit", "--quick", "--diolkos", "/bin/true", "--seconds", 1.5)
    )
    assert "give one of them" in refused(lab("plan", "siit", "--quick", "--blocks", 9, "--hours", 1))


@pytest.mark.parametrize(("name", "form"), [("clat", "quick"), ("siit", "full"), ("router-accuracy", "clocksources")])
def test_hours_hold_as_many_blocks_as_fit(name: str, form: str) -> None:
    study = studies.load(name)
    study = study.of_form(form)
    fit = asked.fitting(study, form, all_systems(study), 20)
    chosen = fit.form[form]
    assert chosen.time_budget_s == 72_000 and chosen.claim_blocks == 0

    def expected_s(blocks: int) -> float:
        longer = chosen.model_copy(update={"blocks": blocks, "time_budget_s": None})
        return expected_of_form_s(fit.model_copy(update={"form": {form: longer}}), form)

    assert expected_s(chosen.blocks) <= 72_000 < expected_s(chosen.blocks + 1)
    with pytest.raises(UsageFault, match=r"--hours 0\.001: too short for the .* form of .*, which needs .* hours for 7 blocks"):
        asked.fitting(study, form, all_systems(study), 0.001)
