# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What three gateways that share their bindings carry, against three that share nothing, behind the same routers.

    sudo .venv/bin/python lab/benchmarks/gateways.py [--flows 3000] [--seconds 3] [--blocks 12]

The routers divide hosts among the gateways by their addresses, and know nothing of homes: two of three packets of the IPv6
side meet a gateway that is not the host's home, and cross the link between gateways once more. Packets of the IPv4 side
follow the routes of the pools. Three gateways that share nothing open a binding wherever a packet comes.

Stages: both networks → new flows of this block → their packets in both directions, as many as go → ratio. Both kinds take
turns within each block, and change who begins. All CPUs are shared by generator, routers and gateways, so a ratio is one of the
work of a packet on the whole way: it is nearer to 1 than one of gateways with CPUs of their own.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
from ipaddress import IPv6Network
from pathlib import Path

from diolkos_lab import studies
from diolkos_lab.experiment.failover import Kind
from diolkos_lab.failover import cluster as clusters
from diolkos_lab.failover import gateways, plan
from diolkos_lab.failover.cluster import Cluster
from diolkos_lab.failover.network import Network
from diolkos_lab.load import pktgen

# As many as the generator takes. Each address is a subscriber, with a home of its own.
SOURCES = IPv6Network((int(plan.source6(1, 0)) & ~0xFFFFFF, 104))
KINDS: tuple[Kind, Kind] = ("cluster", "independent")


def measure(cluster: Cluster, flows: int, seconds: float, seed: int) -> float:
    """Packets a second of both directions together, over flows that were opened just before."""
    network = cluster.network
    ends = ["--from", f"{network.namespace('client1')}:up0", "--to", f"{network.namespace('server')}:up0"]
    asks = ["--src", str(SOURCES), "--dst", str(plan.SERVER6)]
    back = ["--back-src", str(plan.SERVER4), "--back-dst", str(plan.POOLS4[1])]
    amount = ["--sessions", str(flows), "--rate", "20k", "--answer-rate", "20k", "--seconds", f"{seconds:g}"]
    more = ["--seed", str(seed * flows)]
    command = [*pktgen.FIRST, pktgen.program(), "connect", *ends, *asks, *back, *amount, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    try:
        found = pktgen.report(done.stdout, "connected")
    except Exception as error:
        raise SystemExit(f"{error}: {done.stdout[-300:]} {done.stderr[-300:]}") from error
    if not found["carried"]:
        raise SystemExit(f"not every session was opened and answered: {json.dumps(found)[:400]}")
    return sum(float(each["received"]["rate_pps"] or 0.0) for each in found["carried"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flows", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--diolkos", type=Path, default=Path("bin/diolkos"))
    options = parser.parse_args()
    gateways.ONE_PEER += "source_prefix_len = 128\n"
    study = studies.of_faults_named("failover")
    assert study
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        built = {}
        for kind in KINDS:
            # FRR's daemons have a user of their own.
            for each in (folder, folder / kind):
                each.mkdir(exist_ok=True)
                each.chmod(0o711)
            network = stack.enter_context(Network(kind))
            built[kind] = clusters.build(network, folder / kind, study, kind, options.diolkos.resolve())
            # The generator sends by XDP, which the other end of a virtual Ethernet takes with GRO only.
            for role, device in ((plan.INSIDE, "client1"), (plan.OUTSIDE, "srv0")):
                where = f"--net=/run/netns/{network.namespace(role)}"
                subprocess.run(["nsenter", where, "ethtool", "-K", device, "gro", "on"], check=True)
        ratios = []
        for block in range(options.blocks):
            order = KINDS if block % 2 else KINDS[::-1]
            rates = {kind: measure(built[kind], options.flows, options.seconds, block + 1) for kind in order}
            ratios.append(rates["cluster"] / rates["independent"])
            print(f"{block + 1}: cluster {rates['cluster']:.0f}/s, independent {rates['independent']:.0f}/s: {ratios[-1]:.3f}")
        low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
        print(f"{options.flows} flows: cluster / independent {middle:.3f} ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
