# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A result folder is read once; each thing that is wrong with it is noted with its place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diolkos_lab import open_folder, report, studies, summary
from diolkos_lab.faults import UsageFault
from diolkos_lab.open_folder import OpenFolder
from diolkos_lab.samples import contents, folder

Make = Callable[..., dict[str, Any]]
HEADER = json.dumps({"format": 1, "study": "clat"})


@pytest.fixture
def made(tmp_path: Path, record: Make) -> Path:
    (tmp_path / "study.toml").write_text(studies.shipped()["clat"].read_text())
    (tmp_path / "host.json").write_text('{"format": 1}')
    lines = [HEADER, *(json.dumps(record(block=block)) for block in range(3))]
    (tmp_path / "samples.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def _kinds(found: contents.Contents) -> dict[str, list[str]]:
    return {name: [each.kind for each in damages] for name, damages in found.damages.items() if damages}


def test_a_whole_folder_has_no_damage(made: Path) -> None:
    found = contents.load(made)
    assert _kinds(found) == {} and found.absent == {"summary.json"}
    assert len(found.trials) == 3 and found.header["study"] == "clat"


def test_a_last_line_without_its_end_counts_where_it_is_whole(made: Path) -> None:
    file = made / "samples.jsonl"
    file.write_text(file.read_text().removesuffix("\n"))
    assert len(contents.load(made).trials) == 3
    file.write_text(file.read_text()[:-9])
    found = contents.load(made)
    assert len(found.trials) == 2 and _kinds(found) == {"samples.jsonl": ["unfinished"]}
    assert len(folder.whole(found).trials) == 2, "statistics do without it"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("samples.jsonl", HEADER + "\n{}\n", "content"),
        ("samples.jsonl", HEADER.replace("1", "7", 1) + "\n", "format"),
        ("samples.jsonl", "", "empty"),
        ("samples.jsonl", "NaN\n", "content"),
        ("host.json", "[]", "content"),
        ("host.json", "\udcff", "encoding"),
        ("summary.json", '{"format": 2}', "format"),
    ],
)
def test_damage_is_noted_with_its_kind(made: Path, name: str, content: str, kind: str) -> None:
    (made / name).write_bytes(content.encode(errors="surrogateescape"))
    found = contents.load(made)
    assert _kinds(found) == {name: [kind]}
    if name == "summary.json":
        folder.whole(found)  # is made again from the others
    else:
        with pytest.raises(UsageFault, match=rf"^{made / name}"):
            folder.whole(found)


def test_the_report_opens_each_file_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary.write(folder.read(made))
    opened: list[str] = []
    read = OpenFolder.read

    def counted(self: OpenFolder, name: str, most: int | None = None) -> bytes | None:
        opened.append(name)
        return read(self, name, most)

    monkeypatch.setattr(open_folder.OpenFolder, "read", counted)
    report.write(made)
    assert sorted(opened) == ["host.json", "samples.jsonl", "study.toml", "summary.json"]
