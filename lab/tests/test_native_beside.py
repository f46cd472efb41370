# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Native IPv6 beside other packets, on a real path: both are sent at once, and both are counted exactly, in both directions."""

from ipaddress import IPv6Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diolkos_lab.experiment.loads import PpsLoad
from diolkos_lab.load import registry
from diolkos_lab.load.reading import ClientContext
from diolkos_lab.run import endpoints
from diolkos_lab.sut import definition
from diolkos_lab.topology import addresses as plan
from diolkos_lab.topology.lane import Lane, Shape
from diolkos_lab.topology.process import run_to_end

PPS = registry.LOADS["pps"]
DATAPATH = definition.load_all()["native"].datapath["kernel"]


@pytest.mark.root
@pytest.mark.usefixtures("clean_machine", "generator_built")
@pytest.mark.parametrize(
    ("family", "share", "more"),
    [("ipv4", 0.5, {}), ("ipv4", 0.1, {"directions": "both"}), ("ipv6", 0.5, {"flows": "unique"})],
)
def test_both_kinds_of_packets_arrive_and_are_counted(tmp_path: Path, family: Any, share: float, more: dict[str, Any]) -> None:
    """Far below what the path carries nothing is lost, and each kind has its share."""
    load = PpsLoad(name="pps", seconds=0.5, flows=more.pop("flows", 16), native_share=share, **more).at(2000)
    running: Any = SimpleNamespace(datapath=DATAPATH, server_family=family, keeps_state=False)
    with Lane("beside", Shape(1, False, True, IPv6Network("2001:2:0:64::/96"), 1500)) as lane:
        for device in (plan.DOWNLINK, plan.SERVER_LINK):  # as the lab's placement has it
            lane.set_gro("router", device, on=True)
        ends = endpoints.through_system(lane, running, family, ())
        target = lane.shape.addresses.server(endpoints.version(family))
        context = ClientContext(target, lane.shape.addresses.resolver(6), tmp_path, 1, ends)
        for command in PPS.prepare(load, context):
            assert run_to_end(lane.namespace("client"), command, tmp_path / "prepare")[0] == 0
        status, text = run_to_end(lane.namespace("client"), PPS.command(load, context), tmp_path / "log", 60)
    assert status == 0, text
    metrics = PPS.read(text, load).metrics
    assert metrics["native_received"] == metrics["native_sent"] > 0, text
    assert metrics["loss"] == metrics["translated_loss"] == metrics["corrupted"] == 0
    directions = 2 if load.directions == "both" else 1
    assert metrics["sent"] == pytest.approx(2000 * 0.5 * directions, rel=0.02)
