# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `--json` prints: one document for each command, whose keys stay as they are as long as its `format` does.

Quantities are in SI units. What is infinite, such as the time of what never came to its end, is null.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diolkos_lab.doctor import Finding
from diolkos_lab.experiment.definition import USUAL_FORMS, Study
from diolkos_lab.experiment.failover import FailoverStudy
from diolkos_lab.experiment.length import expected_of_form_s
from diolkos_lab.metric import METRICS
from diolkos_lab.stats.comparison import Change
from diolkos_lab.sut.lookup import Found, Missing

FORMAT = 1


def list_document(
    shipped: Sequence[Study | FailoverStudy],
    looked: Sequence[Found | Missing],
    missing: Mapping[str, tuple[str, list[str]]],
    own: Mapping[str, Path],
    faults: Sequence[str],
) -> dict[str, Any]:
    """Of `list`. `missing` maps tools to how to get them, and the studies that need them; `own` are files of the user's by
    system, `faults` what is wrong with files."""
    return {
        "studies": [_study(study) for study in shipped],
        "systems": [{**_system(entry), "file": str(own.get(entry.system.system, "")) or None} for entry in looked],
        "faults": list(faults),
        "missing_tools": [{"tool": name, "how": how, "studies": needed_by} for name, (how, needed_by) in missing.items()],
    }


def doctor_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Of `doctor`."""
    return {
        "fit": not any(each.state in ("missing", "unfit") for each in findings),
        "findings": [{"state": each.state, "subject": each.subject, "detail": each.detail} for each in findings],
    }


def compare_document(
    study: str, folders: tuple[Path, Path], entries: Sequence[Mapping[str, Any]], facts: Mapping[str, tuple[Any, Any]]
) -> dict[str, Any]:
    """Of `compare`."""
    first, second = folders
    return {
        "study": study,
        "first": str(first),
        "second": str(second),
        "host_differences": [{"fact": name, "first": before, "second": after} for name, (before, after) in facts.items()],
        "changes": list(entries),
    }


def text(document: Mapping[str, Any]) -> str:
    """ASCII, so that any terminal and any pipe takes it."""
    return json.dumps({"format": FORMAT, **document}, indent=1, allow_nan=False)


def _study(study: Study | FailoverStudy) -> dict[str, Any]:
    systems = ["diolkos"] if isinstance(study, FailoverStudy) else [subject.system for subject in study.system]
    return {
        "name": study.name,
        "title": study.title,
        "question": study.question,
        "systems": list(dict.fromkeys(systems)),
        "expected_s": {
            name: round(expected_of_form_s(study, name), 1) if name in study.form else None
            for name in dict.fromkeys([*USUAL_FORMS, *study.form])
        },
    }


def _system(entry: Found | Missing) -> dict[str, Any]:
    found = entry if isinstance(entry, Found) else None
    missing = entry if isinstance(entry, Missing) else None
    return {
        "name": entry.system.system,
        "title": entry.system.title,
        "datapaths": list(entry.system.datapath),
        "known_answer": entry.system.known_answer,
        "available": found is not None,
        "binary": str(found.binary) if found and found.binary else None,
        "version": found.version if found else None,
        "reason": missing.reason if missing else None,
        "how": missing.how if missing else None,
    }


def change_entry(change: Change) -> dict[str, Any]:
    first, second = change.medians
    return {
        "subject": change.cell.subject,
        "load": change.cell.load,
        "factors": dict(change.cell.factors),
        "metric": change.metric,
        "unit": "ratio" if change.relative else METRICS[change.metric].unit,
        "better": METRICS[change.metric].better,
        "relative_to_native": change.relative,
        "first": _finite(first),
        "second": _finite(second),
        "change": _finite(change.change),
        "ci95": [_finite(end) for end in change.ci95],
        "p": change.p,
        "significant": change.significant,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
