# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A system that belongs to an installation: the host's own, or one that a folder holds; and its version must do."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab.faults import UsageFault
from diolkos_lab.sut import compiling, definition, lookup

NETWORKMANAGER = definition.load_all()["networkmanager"]


def _program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def _found(path: Path) -> lookup.Found | lookup.Missing:
    return lookup.find(NETWORKMANAGER, {"networkmanager": str(path)})


@pytest.mark.parametrize("version", ["1.58", "1.58.1-2", "1.100.0", "2.0", "NetworkManager 1.60.0-dev"])
def test_a_version_that_has_the_clat_is_found(tmp_path: Path, version: str) -> None:
    found = _found(_program(tmp_path / "NetworkManager", version))
    assert isinstance(found, lookup.Found) and found.version == version
    assert found.installation == Path("/")


@pytest.mark.parametrize("version", ["1.42.4", "1.57.9", "1.6", "0.9.10"])
def test_an_older_one_is_refused_with_its_version_and_what_to_do(tmp_path: Path, version: str) -> None:
    missing = _found(_program(tmp_path / "NetworkManager", version))
    assert isinstance(missing, lookup.Missing)
    assert missing.reason == f"NetworkManager is version {version} here; the lab needs 1.58 or later"
    assert "--path networkmanager=FOLDER" in missing.how


def test_one_that_does_not_say_its_version_is_refused(tmp_path: Path) -> None:
    missing = _found(_program(tmp_path / "NetworkManager", "I do not know"))
    assert isinstance(missing, lookup.Missing) and "does not say its version" in missing.reason


def test_a_folder_stands_for_the_program_of_its_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked and run there."""
    root = tmp_path / "sid"
    binary = _program(root / "usr/sbin/NetworkManager", "never run: it is another system's")
    asked: list[list[str]] = []

    def answer(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, "1.58.1\n", "")

    monkeypatch.setattr(lookup.subprocess, "run", answer)
    for named in (root, binary):
        found = _found(named)
        assert isinstance(found, lookup.Found)
        assert (found.binary, found.installation, found.version) == (binary, root, "1.58.1")
        assert compiling.values(found, "x86_64")["installation"] == str(root)
    assert asked == [["chroot", str(root), "/usr/sbin/NetworkManager", "--version"]] * 2
    monkeypatch.setenv("NETWORKMANAGER", str(root))
    assert isinstance(found := lookup.find(NETWORKMANAGER, {}), lookup.Found) and found.installation == root


def test_a_folder_without_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=r"/usr/sbin/NetworkManager: named by the command line .* but it is not a program"):
        _found(tmp_path)
    with pytest.raises(UsageFault, match="but it is not a program"):
        lookup.find(definition.load_all()["tayga"], {"tayga": str(tmp_path)})


def test_what_it_starts_is_there() -> None:
    """The scripts that commands of systems name."""
    for system in definition.load_all().values():
        for datapath in system.datapath.values():
            for word in datapath.command or ():
                if word.startswith("{scripts}"):
                    assert Path(word.replace("{scripts}", str(lookup.SCRIPTS))).is_file(), word
