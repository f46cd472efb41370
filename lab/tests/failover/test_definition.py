# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a failover.toml may not say."""

from pathlib import Path

import pytest

from diolkos_lab import studies
from diolkos_lab.faults import UsageFault


def changed(folder: Path, old: str, new: str) -> Path:
    """The study that is shipped, with one line changed."""
    text = studies.of_faults()["failover"].read_text()
    assert old in text
    file = folder / "failover.toml"
    file.write_text(text.replace(old, new))
    return file


# Of a flow that sends once in what counts, one lost datagram makes a lost flow. A second is not counted after the fault.
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "cut-lan"', 'name = "cut-lan"\nafter_s = 20.9', "cut-lan: 19.9 s of after_s count"),
        ("lasts_s = 10\nafter_s = 32", "lasts_s = 10\nafter_s = 30.5", "freeze-gateway: 19.5 s of after_s count"),
        ("interval_s = 10.0", "interval_s = 12.0", "flows that send every 12 s need 24 s to send 2 times"),
    ],
)
def test_each_flow_has_to_send_twice_in_what_counts(old: str, new: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=says):
        studies.of_faults_named(str(changed(tmp_path, old, new)))
    assert studies.of_faults_named(str(changed(tmp_path, 'name = "cut-lan"', 'name = "cut-lan"\nafter_s = 21')))
