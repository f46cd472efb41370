# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a translator does to interfaces besides translating: nothing that stays, nothing that comes back to it."""

from __future__ import annotations

import platform
import re

import pytest
from siit import CONFIG, SiitNetwork

# A start there fails when everything else is done.
READ_ONLY_SETTINGS = ("unshare", "--mount", "sh", "-c",
                      'mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$@"', "sh")  # fmt: skip
MISSING = 3
# A filter that lets everything pass.
SOMEBODY_ELSES = ("bpf", "bytecode", "1,6 0 0 0", "flowid", "1:1")


@pytest.mark.parametrize("siit", ["inline"], indirect=True)
@pytest.mark.parametrize("was_there", [False, True], ids=["made", "found"])
def test_a_failed_start_leaves_the_queueing_disciplines_as_they_were(siit: SiitNetwork, was_there: bool) -> None:
    """Those that it made go, and the one that was there before stays with its filter."""
    siit.configure(CONFIG.replace("pref64", 'hook = "clsact"\npref64'))
    if was_there:
        siit.run(siit.translator, "tc", "qdisc", "add", "dev", "b4", "clsact")
        siit.run(siit.translator, "tc", "filter", "add", "dev", "b4", "egress", *SOMEBODY_ELSES)
    before = siit.run(siit.translator, "tc", "qdisc").stdout
    arguments = (str(siit.program), "siit", "--config", str(siit.config), "--datapath", "tc")
    done = siit.run(siit.translator, *READ_ONLY_SETTINGS, *arguments, check=False)
    assert done.returncode == MISSING
    assert "forwarding cannot be switched on (Read-only file system (os error 30))" in done.stderr
    assert "datapath" not in done.stderr
    assert siit.run(siit.translator, "tc", "qdisc").stdout == before


@pytest.mark.parametrize("siit", ["inline"], indirect=True)
def test_the_end_leaves_the_filters_of_others(siit: SiitNetwork) -> None:
    """Somebody who has put a filter beside ours keeps it, and the queueing discipline."""
    siit.configure(CONFIG.replace("pref64", 'hook = "clsact"\npref64'))
    running = siit.siit()
    siit.run(siit.translator, "tc", "filter", "add", "dev", "b4", "egress", *SOMEBODY_ELSES)
    assert running.stop() == 0
    qdiscs = siit.run(siit.translator, "tc", "qdisc").stdout
    assert [name for name in ("b4", "b6") if f"clsact ffff: dev {name} " in qdiscs] == ["b4"]
    assert "bytecode" in siit.run(siit.translator, "tc", "filter", "show", "dev", "b4", "egress").stdout


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_the_kernel_joins_no_groups_on_the_device(siit: SiitNetwork) -> None:
    """A router joins groups on its interfaces and reports them, here to the translator, which would count drops."""
    for interface in ("all", "default"):
        siit.sysctl(siit.translator, f"net.ipv6.conf.{interface}.forwarding", "1")
    siit.siit()
    joined = siit.run(siit.translator, "ip", "-6", "maddress", "show", "dev", "diolkos0").stdout
    # All nodes, which every interface hears and nobody reports (RFC 3810 section 6).
    assert set(joined.split()) & {"ff02::2", "ff01::2", "ff05::2"} == set(), joined


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_lists_of_segments_are_warned_of(siit: SiitNetwork) -> None:
    """Some kernels translate the first segment of a list only. Without programs nothing is wrong with them."""
    siit.run(siit.translator, "ethtool", "-K", "b4", "rx-gro-list", "on")
    warnings = [line for line in siit.siit().log().splitlines() if "rx-gro-list" in line]
    assert len(warnings) == (siit.datapath == "tc" and not translates_lists())
    assert all("b4 has rx-gro-list on" in line and "ethtool -K b4 rx-gro-list off" in line for line in warnings)


def translates_lists() -> bool:
    """Whether this kernel is known to translate all segments of a list: it, or the stable kernel that Debian's is made of."""
    built = re.search(r"Debian (\S+)", platform.version())
    version = tuple(int(number) for number in re.findall(r"\d+", built[1] if built else platform.release())[:3])
    return version >= (6, 19) or (6, 12, 69) <= version < (6, 13) or (6, 1, 167) <= version < (6, 2)


def test_a_program_for_a_link_that_appears_later(siit: SiitNetwork) -> None:
    """Among Ethernets, the program for bare IP was not loaded: a link that needs it gets it when it comes."""
    siit.ip(siit.translator, "link", "add", "other0", "type", "veth", "peer", "name", "other1")
    inline = 'placement = "inline"\nhook = "clsact"\ninterfaces = ["b4", "b6", "other0"]\npref64'
    siit.configure(CONFIG.replace("pref64", inline))
    running = siit.siit("--datapath", "tc")

    def program(link: str) -> str:
        shown = siit.run(siit.translator, "tc", "filter", "show", "dev", link, "ingress").stdout
        return "raw" if "siit_ingress_ra" in shown else "ethernet" if "siit_ingress" in shown else "none"

    assert [program(link) for link in ("b4", "b6", "other0")] == ["ethernet"] * 3
    siit.ip(siit.translator, "link", "del", "other0")
    siit.until(lambda: "an interface where packets were translated is gone" in running.log())
    siit.ip(siit.translator, "tuntap", "add", "dev", "other0", "mode", "tun")
    siit.until(lambda: "other0 is back" in running.log())
    assert [program(link) for link in ("b4", "b6", "other0")] == ["ethernet", "ethernet", "raw"]
    assert siit.diolkos("reload") == (0, "")
    assert [program(link) for link in ("b4", "b6", "other0")] == ["ethernet", "ethernet", "raw"]
    assert running.stop() == 0
