# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a file of NICs may say: which two NICs of the tester are connected to which two of the router."""

from typing import Literal

from pydantic import Field, model_validator

from diolkos_lab.experiment.document import StrictModel

NIC = Field(pattern=r"^[^\s/:]{1,15}$", description="Name of the NIC, as `ip link` shows it.")


class Pair(StrictModel):
    """Two NICs of one machine."""

    client: str = NIC
    server: str = NIC

    @model_validator(mode="after")
    def _are_two(self) -> "Pair":
        if self.client == self.server:
            raise ValueError(f'client and server are the same NIC, "{self.client}"; the path needs two')
        return self


class Nics(StrictModel):
    """`tester.client` is connected to `router.client`, and `tester.server` to `router.server`."""

    format: Literal[1]
    tester: Pair
    router: Pair
