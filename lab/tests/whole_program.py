# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The whole program in this process, as the fixture `lab` calls it, and what a refusal looks like."""

from collections.abc import Callable

Called = tuple[int, str, str]  # exit code, output, errors
Lab = Callable[..., Called]


def refused(called: Called) -> str:
    """The one sentence of exit code 2."""
    code, output, errors = called
    assert (code, output) == (2, ""), errors
    assert errors.endswith("\n") and errors.count("\n") == 1 and errors.removesuffix("\n").isprintable(), repr(errors)
    return errors.removeprefix("diolkos-lab: ")
