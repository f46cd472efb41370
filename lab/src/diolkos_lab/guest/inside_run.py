# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What runs in a guest: a study, measured as on any host. The host evaluates it, whose processor is not emulated.

modules ─► request ─► measure ─► result folder, which is the host's
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from diolkos_lab import run_study
from diolkos_lab.faults import Fault, Interrupted, printable, stop_on_signals
from diolkos_lab.screen import Screen

REQUEST = Path("/run/results/request.json")
# udev, which would load some of them, does not run in a guest.
MODULES = ("tun", "veth", "nf_tables", "nft_masq", "nft_chain_nat", "nf_conntrack", "nf_conntrack_netlink", "sch_ingress")
FAULT = "FAULT "
WIDE = 160  # columns


def main() -> int:
    """The exit code of the lab; a fault is one line, which the host says again."""
    fields = json.loads(REQUEST.read_text())
    stop_on_signals()
    load_modules(fields["modules"], fields["needs"])
    request = run_study.RunRequest(
        study=fields["study"],
        quick=fields["quick"],
        only=fields["only"],
        out=Path(fields["out"]),
        seed=fields["seed"],
        paths=fields["paths"],
        facts=fields["facts"],
        reasons=fields["reasons"],
        form=fields["form"],
    )
    # The console is a terminal to rich; what it says goes on to the host's.
    console = Console(highlight=False, width=WIDE, force_terminal=False, color_system=None)
    try:
        with Screen(console) as observer:
            run_study.measure(request, observer)
    except Fault as fault:
        print(f"{FAULT}{printable(str(fault))}", flush=True)
        return fault.exit_code
    except Interrupted as interrupted:
        return interrupted.exit_code
    return 0


def load_modules(files: list[str], needs: list[Any]) -> None:
    """Those of the kernel that nobody asks for by themselves, and those that were built for it."""
    for name in (*MODULES, *needs):
        subprocess.run(["modprobe", "-q", str(name)], check=False)
    for file in files:
        subprocess.run(["insmod", file], check=False)


if __name__ == "__main__":
    sys.exit(main())
