# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Definitions of the user's own: where they are found, what hides what, and that a bad one harms nobody else."""

import json
import os
import pwd
from pathlib import Path

import pytest

from diolkos_lab import completion, own_files, studies
from diolkos_lab.experiment import document
from diolkos_lab.faults import UsageFault
from diolkos_lab.published import ratios
from diolkos_lab.published.definition import Published
from diolkos_lab.sut import definition
from whole_program import Lab, refused

SYSTEM = """
system = "NAME"
title = "Mine"

[datapath.kernel]
like = "tayga/tun"
command = ["sleep", "60"]
"""
SMALL = (Path(__file__).parent / "study_small.toml").read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and an empty folder of the user's, which is returned."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    folder = tmp_path / "config" / "diolkos-lab"
    for kind in ("systems", "studies", "published"):
        (folder / kind).mkdir(parents=True)
    return folder


def _system(folder: Path, name: str = "mine", text: str = SYSTEM) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(text.replace("NAME", name))
    return file


def test_systems_are_found_in_the_users_folders_and_the_first_one_counts(home: Path, tmp_path: Path, lab: Lab) -> None:
    named = tmp_path / "named"
    files = [_system(home / "systems"), _system(Path()), _system(named)]
    assert definition.catalogue().own["mine"] == Path("mine.toml"), "the current folder goes before the user's"
    code, output, errors = lab("list", "--json", "--systems", named)
    assert (code, errors) == (0, "")
    systems = {system["name"]: system for system in json.loads(output)["systems"]}
    assert systems["mine"]["file"] == str(files[2]) and systems["tayga"]["file"] is None
    files[1].unlink()
    assert definition.catalogue().own["mine"] == files[0]
    _system(home / "systems", "tayga")
    assert definition.load_all()["tayga"].title == "Mine", "it hides the package's"
    assert "mine" in completion._systems()


def test_other_files_of_the_current_folder_are_nothing_to_the_lab(home: Path, lab: Lab) -> None:
    for name, text in (("Cargo", "[package\n"), ("pyproject", "[project]\nname = 1\n"), ("study", SMALL)):
        Path(f"{name}.toml").write_text(text)
    os.mkfifo("pipe.toml")
    assert not definition.catalogue().own and not definition.catalogue().faults
    assert [name for name, each in studies.known().items() if each.own] == ["study"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SYSTEM + 'colour = "red"\n', ":8:1: datapath.kernel.colour: "),
        (SYSTEM.replace('"sleep"', "sleep"), ":7:"),
        (SYSTEM + "forwarding = 7\n", ":8:1: datapath.kernel.forwarding: "),
        (SYSTEM + 'config = "{nothing}"\n', ":5:1: datapath.kernel: unknown placeholder {nothing}"),
        (SYSTEM + 'resolver = "nobody/dns"\n', ":8: mine/kernel: nobody defines its resolver nobody/dns"),
    ],
)
def test_a_bad_system_is_named_with_its_line_and_harms_nobody_else(home: Path, text: str, says: str, lab: Lab) -> None:
    file = _system(home / "systems", "mine", text)
    code, output, errors = lab("list")
    assert (code, errors) == (0, "") and f"{file}{says}" in output and "tayga" in output
    assert json.loads(lab("list", "--json")[1])["faults"] == [str(definition.catalogue().faults["mine"])]
    assert lab("plan", "clat", "--quick", "--only", "native")[0] == 0
    assert f"{file}{says}" in refused(lab("plan", "clat", "--quick", "--path", "mine=/bin/true"))


def test_a_bad_file_hides_the_system_of_the_package(home: Path, lab: Lab) -> None:
    file = _system(home / "systems", "tayga", "system = 'tayga'\ntitle = \n")
    assert f"{file}:2:" in refused(lab("plan", "clat", "--quick", "--only", "tayga"))
    assert lab("plan", "clat", "--quick", "--only", "diolkos/tc", "--diolkos", "/bin/true")[0] == 0


def test_two_files_for_one_system(home: Path, lab: Lab) -> None:
    _system(home / "systems")
    (home / "systems" / "other.toml").write_text(SYSTEM.replace("NAME", "mine"))
    assert "defines the system mine, as " in lab("list")[1]


def test_studies_and_published_figures_are_found_too(home: Path, lab: Lab) -> None:
    (home / "studies" / "ours.toml").write_text(SMALL)
    (home / "studies" / "bad.toml").write_text(SMALL.replace('name = "tcp-upload"', 'name = "quic"'))
    assert studies.load("ours").name == "small" and "ours" in completion.study("")
    code, output, _ = lab("list")
    assert code == 0 and "ours" in output and f"{home}/studies/bad.toml:" in output
    said = refused(lab("run", "bad", "--quick"))
    line = SMALL.splitlines().index('name = "tcp-upload"') + 1
    assert said.startswith(f"{home}/studies/bad.toml:{line}:") or f"bad.toml:{line - 1}:" in said, said
    assert "quic" in said and "tcp-upload" in said, "it says which loads there are"
    text = (ratios.FOLDER / "clat.toml").read_text().replace('study = "clat"', 'study = "ours"')
    (home / "published" / "ours.toml").write_text(text)
    assert "ours" in ratios.studies()
    assert ratios.published_figures("ours") == document.parse(text, Path("x"), Published)


def test_a_study_that_names_a_system_nobody_defines_is_named_with_its_line(home: Path, lab: Lab) -> None:
    text = SMALL.replace('datapath = "tun"', 'datapath = "nothing"')
    (home / "studies" / "ours.toml").write_text(text)
    line = [number for number, each in enumerate(text.splitlines(), 1) if each == "[[system]]"][1]
    said = refused(lab("run", "ours", "--quick"))
    assert said == f"{home}/studies/ours.toml:{line}: no definition of the system diolkos with datapath nothing\n"


def test_a_system_of_the_users_is_measured_where_the_one_is_that_it_is_like(home: Path, lab: Lab) -> None:
    _system(home / "systems")
    code, output, _ = lab("plan", "clat", "--quick", "--only", "mine", "--json")
    found = {(cell["system"], cell["family"], cell["hops"]) for cell in json.loads(output)["cells"]}
    assert code == 0 and found == {("native", "ipv6", 1), ("native", "ipv4", 1), ("mine", "ipv4", 1)}
    assert "it is like tayga/tun; the study has " in refused(lab("plan", "nat-rules", "--quick", "--only", "mine"))
    _system(home / "systems", "mine", SYSTEM.replace('like = "tayga/tun"\n', ""))
    assert "it has no line `like" in refused(lab("plan", "clat", "--quick", "--only", "mine"))


@pytest.mark.parametrize("sudo", [False, True])
def test_a_new_system_is_sound_and_belongs_to_the_user(
    home: Path, sudo: bool, monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    if sudo:
        if os.geteuid() != 0:
            pytest.skip("sudo makes root of a user")
        monkeypatch.setenv("SUDO_UID", "1")
        assert "run it without sudo" in refused(lab("new", "system", "mine"))
        return
    code, output, _ = lab("new", "system", "mine")
    assert code == 0 and "sudo diolkos-lab run clat --quick --only mine" in output
    assert definition.catalogue().own == {"mine": home / "systems" / "mine.toml"} and not definition.catalogue().faults
    assert "defines it already" in refused(lab("new", "system", "mine"))
    assert "a system of the package" in refused(lab("new", "system", "tayga"))
    assert "small letters and digits" in refused(lab("new", "system", "../mine"))
    assert lab("plan", "clat", "--quick", "--only", "mine", "--path", "mine=/bin/true")[0] == 0
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    assert lab("new", "system", "other", "--systems", "here")[0] == 0 and Path("here/other.toml").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to be careful")
def test_root_reads_nothing_that_others_can_change(home: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _system(home / "systems")
    nobody = pwd.getpwnam("nobody")
    for path in (file, file.parent):
        os.chown(path, nobody.pw_uid, 0)
        assert f"since {path} belongs to nobody" in str(definition.catalogue().faults["mine"])
        assert f"since {path} belongs to nobody; only root may" in refused(lab("plan", "clat", "--only", "mine"))
        monkeypatch.setenv("SUDO_UID", str(nobody.pw_uid))
        own_files.require_safe(file)
        monkeypatch.delenv("SUDO_UID")
        os.chown(path, 0, 0)
    for mode, who in ((0o646, "everybody"), (0o664, "the group daemon")):
        os.chown(file, 0, 1)
        file.chmod(mode)
        with pytest.raises(UsageFault, match=f"can be written by {who}"):
            own_files.require_safe(file)
    os.chown(file, 0, 0)
    own_files.require_safe(file)
    link = home / "link"
    link.symlink_to(file)
    os.chown(link, nobody.pw_uid, 0, follow_symlinks=False)
    with pytest.raises(UsageFault, match="link belongs to nobody"):
        own_files.require_safe(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="sudo makes root of a user")
def test_sudo_looks_into_the_folder_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere/config")
    monkeypatch.setenv("SUDO_UID", str(pwd.getpwnam("nobody").pw_uid))
    assert own_files.user_folder() == Path(pwd.getpwnam("nobody").pw_dir, ".config/diolkos-lab")
    monkeypatch.setenv("SUDO_UID", "0")
    assert own_files.user_folder() == Path("/somewhere/config/diolkos-lab")
