# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Settings of the host that a run varies, on a host made of files: what is offered, each in turn, and as before at the end.

The kernel's real files are never written: every test has a folder of its own in their place.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diolkos_lab.experiment import document
from diolkos_lab.experiment.definition import Study
from diolkos_lab.experiment.varied import Varied
from diolkos_lab.faults import Fault, UsageFault
from diolkos_lab.run.conditions import Conditions
from diolkos_lab.topology import clocksource, leftovers, saved_settings
from diolkos_lab.topology.namespace import PREFIX, Owner

BOTH = Varied(clocksource=("tsc", "hpet"))


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host that offers tsc, hpet and acpi_pm, and uses tsc."""
    folder = tmp_path / "clocksource0"
    folder.mkdir()
    (folder / "available_clocksource").write_text("tsc hpet acpi_pm \n")
    (folder / "current_clocksource").write_text("tsc\n")
    monkeypatch.setattr(clocksource, "FOLDER", folder)
    monkeypatch.setattr(saved_settings, "FOLDER", tmp_path / "notes")
    yield folder


def _now(host: Path) -> str:
    return (host / "current_clocksource").read_text().strip()


def _notes() -> list[Path]:
    return list(saved_settings.FOLDER.glob("*"))


def test_what_is_not_named_is_never_touched(host: Path) -> None:
    for file in host.iterdir():
        file.unlink()
    with Conditions(Varied()) as conditions:
        assert conditions.settings == [()] and not conditions.skipped
    assert not saved_settings.FOLDER.exists()


def test_one_after_the_other_and_as_before_at_the_end(host: Path) -> None:
    with Conditions(BOTH) as conditions:
        assert conditions.settings == [(("clocksource", "tsc"),), (("clocksource", "hpet"),)]
        assert _now(host) == "tsc", "offers are tried, and nothing is left changed"
        conditions.apply(conditions.settings[1])
        assert _now(host) == "hpet"
        [save] = _notes()
        assert json.loads(save.read_text())["before"] == {"name": "tsc"}
    assert _now(host) == "tsc" and not _notes()


def test_the_note_is_there_before_the_change(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(clocksource, "use", lambda name: seen.append((name, len(_notes()))))
    with Conditions(BOTH):
        assert seen and all(number == 1 for _, number in seen)


@pytest.mark.parametrize("ended", [Fault("the lane broke"), KeyboardInterrupt()])
def test_it_is_given_back_however_the_run_ends(host: Path, ended: BaseException) -> None:
    with pytest.raises(type(ended)), Conditions(BOTH) as conditions:
        conditions.apply(conditions.settings[1])
        raise ended
    assert _now(host) == "tsc" and not _notes()


def test_what_the_host_does_not_offer_is_skipped_with_its_reason() -> None:
    with Conditions(Varied(clocksource=("kvm-clock", "tsc", "hpet"))) as conditions:
        assert [setting[0][1] for setting in conditions.settings] == ["tsc", "hpet"]
        [skipped] = conditions.skipped
    assert (skipped.factor, skipped.value, skipped.reason) == (
        "clocksource",
        "kvm-clock",
        "this host offers tsc, hpet, acpi_pm",
    )


def test_a_host_that_offers_none_of_them_is_measured_as_it_is(host: Path) -> None:
    with Conditions(Varied(clocksource=("kvm-clock", "arch_sys_counter"))) as conditions:
        assert conditions.settings == [()] and len(conditions.skipped) == 2
    assert not saved_settings.FOLDER.exists() and _now(host) == "tsc"


def test_a_kernel_that_refuses_what_it_lists(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the write and stays where it is."""
    refused = clocksource.current

    def current() -> str:
        return "tsc" if refused() == "hpet" else refused()

    monkeypatch.setattr(clocksource, "current", current)
    with Conditions(Varied(clocksource=("tsc", "hpet", "acpi_pm"))) as conditions:
        assert [setting[0][1] for setting in conditions.settings] == ["tsc", "acpi_pm"]
        assert conditions.skipped[0].reason == 'the kernel does not take the clocksource "hpet" and stays with tsc'
    assert _now(host) == "tsc"


def test_clean_restores_settings_that_a_killed_lab_changed(host: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from diolkos_lab.experiment.varied import Varied\n"
        "from diolkos_lab.run.conditions import Conditions\n"
        "from diolkos_lab.topology import clocksource, saved_settings\n"
        f"clocksource.FOLDER, saved_settings.FOLDER = Path({str(host)!r}), Path({str(saved_settings.FOLDER)!r})\n"
        "conditions = Conditions(Varied(clocksource=('tsc', 'hpet'))).__enter__()\n"
        "conditions.apply(conditions.settings[1])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert _now(host) == "hpet" and len(_notes()) == 1
    assert [saved.words for _, saved in saved_settings.abandoned() if saved] == ["clocksource tsc"]
    assert leftovers.clean().restored == ["clocksource tsc"]
    assert _now(host) == "tsc" and not _notes()
    assert not leftovers.clean().restored, "doing it twice is harmless"


def test_what_somebody_has_set_since_is_left_alone(host: Path) -> None:
    _note(host, Owner(2**22 + 1, 1), "hpet")
    (host / "current_clocksource").write_text("acpi_pm\n")
    saved_settings.restore_all(saved_settings.abandoned())
    assert _now(host) == "acpi_pm" and not _notes()


def test_a_note_that_was_not_finished_is_of_nothing_that_was_changed(host: Path) -> None:
    path = _note(host, Owner(2**22 + 1, 1), "hpet")
    path.write_text(path.read_text()[:20])
    assert saved_settings.restore_all(saved_settings.abandoned()) == []
    assert _now(host) == "tsc" and not _notes()


def test_two_labs_cannot_vary_the_same(host: Path) -> None:
    one = Owner.of(1)
    assert one
    _note(host, one, "hpet")
    with pytest.raises(
        Fault, match=r"^another lab \(process 1\) varies the clocksource of this host: wait until it has ended$"
    ):
        Conditions(BOTH).__enter__()
    assert leftovers.clean().restored == [], "it lives"


def _note(host: Path, owner: Owner, level: str) -> Path:
    saved_settings.FOLDER.mkdir(exist_ok=True)
    path = saved_settings.FOLDER / f"{PREFIX}-{owner.pid}-{owner.started}-clocksource.json"
    save = {"format": 1, "setting": "clocksource", "before": {"name": "tsc"}, "levels": ["tsc", level]}
    path.write_text(json.dumps(save))
    return path


# ---- in a study


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ('clocksource = ["tsc"]', "clocksource: one value is no factor; name two or more, or leave it out"),
        ('clocksource = ["tsc", "tsc"]', "clocksource: a value is named twice"),
        ('clocksource = ["tsc", "../../x"]', "String should match pattern"),
        ("ring = [512, 4096]", "ring: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_factor_is_refused_with_its_place(tmp_path: Path, vary: str, message: str) -> None:
    text = (Path(__file__).parent / "study_packets.toml").read_text() + f"\n[form.quick.vary]\n{vary}\n"
    with pytest.raises(UsageFault, match=r"study.toml:\d+:\d+: form.quick.vary.*") as refused:
        document.parse(text, tmp_path / "study.toml", Study)
    assert message in str(refused.value)
