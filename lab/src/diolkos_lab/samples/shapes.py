# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What all records of a result folder are made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class Shape(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Exact(Shape):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
