# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the page of procedures says of how sure its rates are."""

import pytest
import synthetic_loads

from diolkos_lab import procedures
from diolkos_lab.report import searches


@pytest.mark.parametrize(("blocks", "times"), [(1, "once"), (5, "5 times"), (7, None)])
def test_rates_without_an_interval_say_so(blocks: int, times: str | None) -> None:
    """Six searches make one; fewer leave brackets, which are none."""
    paths = (synthetic_loads.NATIVE, synthetic_loads.DIOLKOS)
    lines = [line for block in range(blocks + 1) for path in paths for line in synthetic_loads.procedures(block, path)]
    reasons = searches.trust([], procedures.gather(lines, [synthetic_loads.ALONE])).reasons
    said = [reason for reason in reasons if reason.startswith("No rate has an interval")]
    assert bool(said) == (times is not None)
    if times:
        assert f"that takes 6 searches, and each was searched for {times}." in said[0]
