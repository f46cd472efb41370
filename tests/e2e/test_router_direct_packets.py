# SPDX-License-Identifier: Apache-2.0 OR MIT
"""With the placement `direct`, packets of which the kernel knows more than their bytes: super-packets, sums of a device, marks
and priorities."""

from __future__ import annotations

import re
import subprocess

import pytest
from direct import DIRECT, FORWARDED, TO_IPV4, TO_IPV6
from siit import CONFIG, PREF64, TRANSLATOR6, V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_clat_offloads import PACKET_LEN, SUMMED, machine
from test_siit_traffic import transfer

pytestmark = pytest.mark.parametrize("siit", ["direct"], indirect=True)

TUNNEL_V6, TUNNEL_TRANSLATOR = "2001:db8:9::2", "2001:db8:9::1"


def test_segments_that_are_too_long(siit: SiitNetwork) -> None:
    """The MTU of the route counts, and for each segment of a super-packet: the kernel answers what is too big."""
    siit.siit()
    siit.narrow(1400)
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout
    transfer(siit, (siit.v4, siit.v6, V4, V6_MAPPED, V6), 4)
    assert "mtu 1380" in siit.run(siit.v4, "ip", "route", "get", V6_MAPPED).stdout
    assert siit.counters()["fast.sent_direct"] > 50


def test_sums_that_the_device_made(siit: SiitNetwork) -> None:
    """CHECKSUM_COMPLETE: at the other end of a virtual Ethernet, the sum is that of the packet that came."""
    siit.run(siit.v6, "ethtool", "-K", "a0", "tx", "off")
    for name, ours, theirs, address in (
        (siit.v6, V6, TRANSLATOR6, TUNNEL_V6),
        (siit.translator, TRANSLATOR6, V6, TUNNEL_TRANSLATOR),
    ):
        vxlan = ("type", "vxlan", "id", "9", "dstport", "4789", "local", ours, "remote", theirs)
        siit.ip(name, "link", "add", "up0", *vxlan)
        siit.ip(name, "address", "add", f"{address}/64", "dev", "up0", "nodad")
        siit.ip(name, "link", "set", "up0", "mtu", "1400", "up")
    siit.ip(siit.v6, "route", "add", PREF64, "via", TUNNEL_TRANSLATOR)
    mapping = f'[[eam]]\nv4 = "192.0.2.9"\nv6 = "{TUNNEL_V6}"\n\n[siit]'
    placed = 'placement = "direct"\ninterfaces = ["b4", "up0"]\npref64'
    siit.config.write_text(CONFIG.replace("[siit]", mapping).replace("pref64", placed, 1))
    siit.siit()
    program = siit.scratch / "summed.o"
    compiled = ["-O2", "-g", "-target", "bpf", "-DL2_LEN=14", f"-I/usr/include/{machine()}", "-c", SUMMED, "-o", program]
    subprocess.run(["clang", *compiled], check=True)
    siit.run(siit.v4, "tc", "qdisc", "add", "dev", "a0", "clsact")
    siit.run(siit.v4, "tc", "filter", "add", "dev", "a0", "ingress",
             "bpf", "direct-action", "object-file", str(program), "section", "tc")  # fmt: skip
    chain = "\n".join(f'meta mark {mark} counter comment "{name}"' for mark, name in enumerate(("right", "wrong", "none"), 1))
    hook = "type filter hook input priority 0;"
    siit.run(siit.v4, "nft", "-f", "-", input=f"table ip seen {{\nchain in {{\n{hook}\n{chain}\n}}\n}}")
    assert "1 received" in siit.run(siit.v6, "ping", "-c1", "-W2", V4_IN_IPV6).stdout
    before = siit.counters()["fast.sent_direct"]
    assert "7 received" in siit.run(siit.v6, "ping", "-c7", "-i0.2", "-s", str(PACKET_LEN - 28), V4_IN_IPV6).stdout
    assert siit.counters()["fast.sent_direct"] == before + 14
    rules = siit.run(siit.v4, "nft", "list", "ruleset").stdout
    seen = {comment: int(packets) for packets, comment in re.findall(r'packets (\d+) bytes \d+ comment "(\w+)"', rules)}
    assert seen == {"right": 7, "wrong": 0, "none": 0}


MARK = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("tc")
int mark(struct __sk_buff *skb) { skb->mark = 5; return -1; }
char LICENSE[] SEC("license") = "Dual MIT/GPL";
"""


def test_a_mark_is_for_the_kernel(siit: SiitNetwork, probe) -> None:
    """What others have marked in front of the program is routed by the kernel, whose rules may ask for it."""
    source, program = siit.scratch / "mark.bpf.c", siit.scratch / "mark.o"
    source.write_text(MARK)
    subprocess.run(
        ["clang", "-O2", "-g", "-target", "bpf", f"-I/usr/include/{machine()}", "-c", source, "-o", program], check=True
    )
    siit.configure(CONFIG.replace("pref64", 'hook = "clsact"\npref64'))
    siit.siit()
    there = probe(TO_IPV6)
    there.until(siit, DIRECT)
    siit.run(siit.translator, "tc", "filter", "add", "dev", "b4", "ingress", "prio", "1",
             "bpf", "direct-action", "object-file", str(program), "section", "tc")  # fmt: skip
    assert there.goes() == FORWARDED
    siit.run(siit.translator, "ip", "-6", "rule", "add", "fwmark", "5", "prohibit")
    assert there.goes() is None


PRIORITIES = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("classifier/set")
int set(struct __sk_buff *skb) { skb->priority = 5; return -1; }
SEC("classifier/marked")
int marked(struct __sk_buff *skb) { skb->priority = 5; skb->mark = 5; return -1; }
SEC("classifier/only")
int only(struct __sk_buff *skb) { return skb->priority == PRIORITY ? -1 : 2; }
char LICENSE[] SEC("license") = "Dual MIT/GPL";
"""


@pytest.mark.parametrize(("way", "left"), [(TO_IPV6, 5), (TO_IPV4, 0)], ids=["to-ipv6", "to-ipv4"])
def test_a_priority_is_as_the_kernel_leaves_it(siit: SiitNetwork, probe, way, left: int) -> None:
    """Forwarding IPv6 keeps what a program has set; forwarding IPv4 sets it from the TOS, which here is 0."""
    source, program = siit.scratch / "priority.bpf.c", siit.scratch / "priority.o"
    source.write_text(PRIORITIES.replace("PRIORITY", str(left)))
    subprocess.run(
        ["clang", "-O2", "-g", "-target", "bpf", f"-I/usr/include/{machine()}", "-c", source, "-o", program], check=True
    )
    siit.configure(CONFIG.replace("pref64", 'hook = "clsact"\npref64'))
    siit.siit()
    there = probe(way)
    there.until(siit, DIRECT)
    comes, goes = ("b4", "b6") if way is TO_IPV6 else ("b6", "b4")

    def attach(link: str, side: str, section: str) -> None:
        siit.run(siit.translator, "tc", "qdisc", "add", "dev", link, "clsact", check=False)
        siit.run(siit.translator, "tc", "filter", "replace", "dev", link, side, "prio", "1", "handle", "1",
                 "bpf", "direct-action", "object-file", str(program), "section", f"classifier/{section}")  # fmt: skip

    attach(goes, "egress", "only")
    attach(comes, "ingress", "set")
    assert there.goes() == DIRECT
    attach(comes, "ingress", "marked")
    assert there.goes() == FORWARDED, "the kernel leaves another priority"
