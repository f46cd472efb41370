#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes what a release consists of, as SPDX 2.3 in JSON: sbom.py VERSION TIME PROGRAM... > diolkos.spdx.json

cargo's metadata, Cargo.lock ─► crates in the programs ─┐
lab/requirements.lock ─► Python packages of the lab ────┼─► packages, and which contains or depends on which
diolkos-switch ─► DPDK ─────────────────────────────────┘

TIME is that of the release, as in 2026-11-27T12:00:00Z: the same commit makes the same file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from typing import Any

from third_party import PROJECT, linked, metadata

OWN = "Apache-2.0 OR MIT"
# BPF programs are part of the translator.
TRANSLATOR = f"({OWN}) AND (GPL-2.0-only OR BSD-2-Clause)"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def package(kind: str, name: str, version: str | None, licence: str | None, sha256: str | None = None) -> dict[str, Any]:
    """A package of the list; `kind` is that of its package URL, empty for the project's own."""
    identity = "-".join(("SPDXRef", *(re.sub(r"[^A-Za-z0-9.-]", "-", part) for part in (kind, name, version) if part)))
    found: dict[str, Any] = {
        "SPDXID": identity,
        "name": name,
        "downloadLocation": "NOASSERTION",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence or "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "filesAnalyzed": False,
    }
    if version:
        found["versionInfo"] = version
    if kind:
        locator = f"pkg:{kind}/{name}@{version}"
        found["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator},
        ]
    if sha256:
        found["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    return found


def crates(programs: list[str]) -> list[dict[str, Any]]:
    """Every crate of others in these programs, with the sum that Cargo.lock holds it to."""
    locked = tomllib.loads((PROJECT / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    found = linked(metadata(None), programs)
    # Older crates write MIT/Apache-2.0.
    licences = ((one["license"] or "").replace("/", " OR ") or None for one in found)
    return [
        package("cargo", one["name"], one["version"], licence, sums.get((one["name"], one["version"])))
        for one, licence in zip(found, licences, strict=True)
    ]


def python_packages() -> list[dict[str, Any]]:
    """What the lab is installed with. Their licences are checked where they are installed, by .ci/licences.py."""
    return [
        package("pypi", name.lower(), version, None)
        for name, version in PINNED.findall((PROJECT / "lab/requirements.lock").read_text())
    ]


def document(version: str, time: str, programs: list[str]) -> dict[str, Any]:
    """The whole list."""
    own = [package("", program, version, TRANSLATOR if program == "diolkos" else OWN) for program in programs]
    lab = package("", "diolkos-lab", version, TRANSLATOR)
    switch = package("", "diolkos-switch", version, OWN)
    # Its libraries are the distribution's, of the version that built it.
    dpdk = package("", "DPDK", None, "BSD-3-Clause")
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", one["SPDXID"]) for one in (*own, lab, switch)]
    relations.append((switch["SPDXID"], "DEPENDS_ON", dpdk["SPDXID"]))
    packages = {one["SPDXID"]: one for one in (*own, lab, switch, dpdk)}
    for program, part in zip(programs, own, strict=True):
        for one in crates([program]):
            packages[one["SPDXID"]] = one
            relations.append((part["SPDXID"], "CONTAINS", one["SPDXID"]))
    for one in python_packages():
        packages[one["SPDXID"]] = one
        relations.append((lab["SPDXID"], "DEPENDS_ON", one["SPDXID"]))
    listed = list(packages.values())
    digest = hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"diolkos-{version}",
        "documentNamespace": f"https://diolkos.invalid/spdx/diolkos-{version}-{digest[:32]}",
        "creationInfo": {"created": time, "creators": ["Tool: packaging/sbom.py"]},
        "packages": listed,
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations
        ],
    }


if __name__ == "__main__":
    json.dump(document(sys.argv[1], sys.argv[2], sys.argv[3:]), sys.stdout, indent=1)
    print()
