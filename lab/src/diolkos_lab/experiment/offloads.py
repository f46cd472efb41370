# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What every load can vary: the offloads of the devices."""

from typing import Annotated, Literal

from pydantic import Field

Switch = Literal["on", "off"]
Offloads = Annotated[tuple[Switch, ...], Field(description="Offloads of the devices; each level is a factor of its own.")]
