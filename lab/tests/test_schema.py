# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The JSON schema of a study: it takes what the lab takes, and refuses what it refuses."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from diolkos_lab import studies
from diolkos_lab.experiment import document, schema
from diolkos_lab.experiment.definition import Study
from diolkos_lab.faults import UsageFault

HERE = Path(__file__).parent
OURS = sorted(HERE.glob("study_*.toml"))
SMALL = (HERE / "study_small.toml").read_text()


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    found = schema.study_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def test_the_command_prints_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "diolkos_lab", "schema"], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(schema.study_schema())) and not done.stderr


@pytest.mark.parametrize("file", [*studies.shipped().values(), *OURS], ids=lambda file: file.stem)
def test_every_study_is_valid(file: Path, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(tomllib.loads(file.read_text()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("format = 1", "format = 2"),
        ("blocks = 2", "blocks = 1"),
        ("blocks = 2", 'blocks = "two"'),
        ("blocks = 2", "blocks = 2\nblocs = 3"),
        ('name = "ping"', 'name = "pong"'),
        ('family = "ipv4"', 'family = "ipv5"'),
        ('name = "small"', 'name = "../small"'),
        ('metric = "throughput"', 'metric = "speed"'),
        ("[form.quick]", "[form.quicker]"),
        ('family = "ipv4"', 'family = "ipv4"\nhops = 3'),
    ],
)
def test_what_the_lab_refuses_is_not_valid(old: str, new: str, validator: jsonschema.Draft202012Validator) -> None:
    assert old in SMALL
    text = SMALL.replace(old, new)
    with pytest.raises(UsageFault):
        document.parse(text, Path("study.toml"), Study)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(tomllib.loads(text))


def test_every_key_is_described_and_every_time_has_its_unit() -> None:
    keys = list(_keys(schema.study_schema()))
    assert len(keys) > 80
    assert not [where for where, key in keys if "description" not in key and "const" not in key and "$ref" not in key]
    times = [(where, key) for where, key in keys if where.endswith(("_s", ".seconds"))]
    assert times and not [where for where, key in times if "second" not in key["description"].lower()]


def _keys(node: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for name, key in node.get("properties", {}).items():
            if name != "name":  # of a load: it chooses the load
                yield f"{where}.{name}", key
        for name, inner in node.items():
            yield from _keys(inner, f"{where}.{name}")
