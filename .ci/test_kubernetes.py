# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The manifests in docs/examples/kubernetes have the form that Kubernetes demands: known keys, right types.

manifests ─► kubernetes-validate, strict: the schemas of Kubernetes' API, as kubeconform has them
"""

from __future__ import annotations

import copy
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "examples" / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
# An old one that clusters still run, and the newest that the package knows.
VERSIONS = ("1.29", kubernetes_validate.latest_version())


def documents(path: Path) -> list[dict]:
    """What a file has."""
    return list(yaml.safe_load_all(path.read_text()))


def daemon_set(path: Path) -> dict:
    """Its only one."""
    [found] = [document for document in documents(path) if document["kind"] == "DaemonSet"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_knows_every_key(path: Path, version: str) -> None:
    """Of every document."""
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_mistake_is_found(path: Path) -> None:
    """An unknown key, a missing one, and another type, deep inside."""
    right = daemon_set(path)
    wrong = [copy.deepcopy(right) for _ in range(3)]
    wrong[0]["spec"]["template"]["spec"]["hostNetworks"] = True
    del wrong[1]["spec"]["selector"]
    wrong[2]["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilities"]["drop"] = "ALL"
    for document in wrong:
        with pytest.raises(jsonschema.ValidationError):
            kubernetes_validate.validate(document, VERSIONS[0], strict=True)


def test_no_manifest_has_what_another_one_has() -> None:
    """`kubectl delete -f` of one must not delete what is another's."""
    found = [
        (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
        for path in MANIFESTS
        for document in documents(path)
    ]
    assert len(MANIFESTS) > 1
    assert len(found) == len(set(found)), found


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_what_schemas_do_not_see(path: Path) -> None:
    """Names that refer to each other, least rights, and one image."""
    found = {(document["kind"], document["metadata"]["name"]) for document in documents(path)}
    template = daemon_set(path)["spec"]["template"]
    assert daemon_set(path)["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    for volume in volumes.values():
        assert "configMap" not in volume or ("ConfigMap", volume["configMap"]["name"]) in found
    for document in documents(path):
        assert document["kind"] == "Namespace" or ("Namespace", document["metadata"]["namespace"]) in found
    containers = template["spec"]["containers"]
    assert len({container["image"] for container in containers}) == 1
    for container in containers:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys()
        rights = container["securityContext"]
        assert "privileged" not in rights
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["capabilities"]["drop"] == ["ALL"]
