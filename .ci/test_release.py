# SPDX-License-Identifier: Apache-2.0 OR MIT
"""packaging/release.sh refuses what is no release; packaging/sbom.py lists every locked crate and Python package."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
VERSION = '[workspace.package]\nversion = "7.8.9"\n'
NOTES = "# Changelog\n\n## Unreleased\n\n- new\n\n## 7.8.9\n\n- whole\n\n## 1.0.0\n\n- old\n"


def git(clone: Path, *words: str) -> None:
    names = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.net")
    subprocess.run(["git", *names, *words], cwd=clone, check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the files that a release looks at, and its tag; the packages are made by nobody."""
    (tmp_path / "packaging").mkdir()
    (tmp_path / "lab/src/diolkos_lab").mkdir(parents=True)
    shutil.copy(PROJECT / "packaging/release.sh", tmp_path / "packaging")
    (tmp_path / "Cargo.toml").write_text(VERSION)
    (tmp_path / "lab/src/diolkos_lab/__init__.py").write_text('__version__ = "7.8.9"\n')
    (tmp_path / "CHANGELOG.md").write_text(NOTES)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(clone: Path) -> None:
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "all")
    git(clone, "tag", "--force", "--annotate", "v7.8.9", "--message", "7.8.9")


def release(clone: Path, **environment: str) -> str:
    """What it says; it never gets as far as packages here."""
    known = {key: value for key, value in os.environ.items() if key != "DEB_MAINTAINER"}
    run = {"cwd": clone, "env": known | environment, "capture_output": True, "text": True}
    done = subprocess.run(["packaging/release.sh"], check=False, **run)
    assert done.returncode == 2 and not (clone / "target").exists(), done
    return done.stderr


def test_a_tagged_commit_needs_only_who_answers_for_it(clone: Path) -> None:
    assert "set DEB_MAINTAINER" in release(clone)


def test_another_commit_is_no_release(clone: Path) -> None:
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "more")
    assert "has no annotated tag v7.8.9" in release(clone)


def test_a_changed_file_is_no_release(clone: Path) -> None:
    (clone / "CHANGELOG.md").write_text(NOTES + "more")
    assert "files differ from tag v7.8.9" in release(clone)


def test_a_version_without_notes_is_no_release(clone: Path) -> None:
    (clone / "CHANGELOG.md").write_text(NOTES.replace("7.8.9", "7.8.8"))
    commit(clone)
    assert "CHANGELOG.md has no chapter 7.8.9" in release(clone)


def test_two_versions_are_no_release(clone: Path) -> None:
    (clone / "lab/src/diolkos_lab/__init__.py").write_text('__version__ = "7.8.8"\n')
    commit(clone)
    assert "of 7.8.8" in release(clone)


def test_the_list_has_what_is_locked() -> None:
    script = [PROJECT / "packaging/tools.sh", PROJECT / "packaging/sbom.py"]
    command = [*script, "7.8.9", "2026-01-01T00:00:00Z", "diolkos", "diolkos-pktgen"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    packages = {one["name"]: one for one in json.loads(text)["packages"]}
    assert {"diolkos", "diolkos-pktgen", "diolkos-lab", "diolkos-switch"} < set(packages)
    assert packages["DPDK"]["licenseDeclared"] == "BSD-3-Clause"
    # One that both programs contain, one with C inside, and one of the lab's.
    assert packages["rustix"]["checksums"] and packages["libbpf-sys"]["licenseDeclared"] and packages["numpy"]["externalRefs"]
    assert not any(one["name"].startswith("diolkos") and "checksums" in one for one in packages.values())
