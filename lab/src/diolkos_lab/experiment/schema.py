# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The JSON schema of a study.toml, for editors and for programs that write studies.

It has every key with its unit, limits and default. What depends on several keys at once it cannot say; `run` checks that.
"""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from diolkos_lab.experiment.definition import Study


def study_schema() -> dict[str, Any]:
    """By JSON Schema 2020-12."""
    return {"$schema": GenerateJsonSchema.schema_dialect, **Study.model_json_schema()}
