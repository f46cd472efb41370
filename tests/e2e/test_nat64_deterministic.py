# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sources with fixed ports (RFC 7422): what peers see is what the mapping says, without a line of the log."""

from __future__ import annotations

import gzip
import json
import subprocess

import pytest
from conftest import ROOT
from logs import endpoints, records, shown_bindings, to_file, until_listed
from nat64 import CONFIG, UNSHARED, Nat64Network, with_keys
from network import PATIENCE
from siit import V4, V6
from test_clat_faults import USAGE
from test_nat64_logs import open_both_ways, send_from_many_ports

paths = pytest.mark.parametrize("nat64", ["tc", "tun"], indirect=True)
# The nodes are in 2001:db8:6::/64, the second one of these sources.
FIXED = """
[nat64.deterministic]
sources = ["2001:db8:5::/64", "2001:db8:6::/64"]
ports_per_source = 512
"""


def fixed(overflow: int = 0) -> str:
    """A configuration with fixed ports."""
    keys = ("ports_per_block = 64", "max_blocks_per_source = 4") if overflow else ()
    return with_keys(*UNSHARED, *keys) + FIXED + f"overflow_share = {overflow}\n"


def look_up(nat64: Nat64Network, *arguments: str) -> dict:
    """The answer of `diolkos lookup`."""
    command = (str(nat64.program), "lookup", "--json", "--config", str(nat64.config), *arguments)
    return json.loads(nat64.run(nat64.translator, *command).stdout)


@paths
def test_peers_see_ports_of_the_source(nat64: Nat64Network) -> None:
    """The second source has 1536 to 2047 of the first address; what exceeds them is in logged blocks."""
    path = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(path, fixed(overflow=10)))
    server = nat64.socket(V4, 9)
    open_both_ways(nat64)
    seen = [server.recvfrom(10)[1] for _ in range(50)]
    assert all(1536 <= port <= 2047 for _, port in seen)
    assert all(1536 <= int(port) <= 2047 for *_, port in shown_bindings(nat64))
    if nat64.datapath == "tc":
        # Programs have opened some by leases.
        assert nat64.counters()["fast.translated_6to4"] > 0
    nat64.until(lambda: any(r["event"] == "listed" for r in records(path)))
    told = records(path)
    assert {r["event"] for r in told} == {"started", "mapping", "mapping-sources", "mapping-addresses", "listed"}
    [mapping] = [r for r in told if r["event"] == "mapping"]
    assert (mapping["first_port"], mapping["ports_per_source"], mapping["source_prefixes"]) == (1024, 512, 2)
    # 512 and 4 blocks of 64.
    assert (mapping["max_ports_per_source"], mapping["algorithm"]) == (768, "sequential")

    # All 512 are bound before any block is opened, whatever was on loan (RFC 7422 section 2, step 3).
    send_from_many_ports(nat64, 20_400, 112)
    nat64.until(lambda: len(shown_bindings(nat64)) == 512)
    assert {int(port) for *_, port in shown_bindings(nat64)} == set(range(1536, 2048))
    assert not any(r["event"] == "block-allocated" for r in records(path))

    send_from_many_ports(nat64, 21_000, 88)
    nat64.until(lambda: len(shown_bindings(nat64)) == 600)
    nat64.until(lambda: sum(r["event"] == "block-allocated" for r in records(path)) >= 2)
    blocks = [r for r in records(path) if r["event"] == "block-allocated"]
    ranges = [(r["address"], range(r["first_port"], r["last_port"] + 1)) for r in blocks]
    for *_, address, port in shown_bindings(nat64):
        is_fixed = address == seen[0][0] and 1536 <= int(port) <= 2047
        assert is_fixed != any(address == a and int(port) in ports for a, ports in ranges)

    # The look-up names the source of each, and says that only the log knows the overflow.
    for _, port in seen[:3]:
        [owner] = look_up(nat64, seen[0][0], str(port))["owners"]
        assert (owner["by"], owner["source"]) == ("mapping", "2001:db8:6::/64")
        assert (owner["first_port"], owner["last_port"]) == (1536, 2047)
    answer = look_up(nat64, blocks[0]["address"], str(blocks[0]["first_port"] + 5))
    assert answer["owners"] == []
    assert "only a log of bindings knows" in answer["notes"][0]
    [all_ports] = look_up(nat64, V6)["owners"]
    assert (all_ports["by"], all_ports["address"], all_ports["first_port"]) == ("mapping", seen[0][0], 1536)
    # The records of the mapping are enough to compute it (RFC 7422 section 3).
    [address] = [r["address"] for r in told if r["event"] == "mapping-addresses" and r["number"] == 0]
    slot = (seen[0][1] - mapping["first_port"]) // mapping["ports_per_source"]
    [source] = [r["source"] for r in told if r["event"] == "mapping-sources" and r["number"] == slot]
    assert (address, source) == (seen[0][0], "2001:db8:6::")


@paths
def test_the_commands_of_the_page_find_owners_in_old_logs(nat64: Nat64Network) -> None:
    """docs/logging.md: in files that were renamed and compressed, too."""
    path = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(path))
    send_from_many_ports(nat64, 20_000, 1)
    nat64.until(lambda: len(shown_bindings(nat64)) == 1)
    [(protocol, source, source_port, address, port)] = shown_bindings(nat64)
    nat64.until(lambda: any("port" in r for r in records(path)))
    until_listed(nat64, path)
    [opened] = [r for r in records(path) if r["event"] == "binding-created"]
    (path.parent / "bindings.json.1.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    # Another one, in the new file.
    send_from_many_ports(nat64, 21_000, 1)
    nat64.until(lambda: any(r["event"] == "binding-created" for r in records(path)))

    page = (ROOT / "docs/logging.md").read_text()
    [command] = [block for block in page.split("```") if "zgrep" in block]
    asked = {
        "/var/log/diolkos-bindings.json": str(path),
        "192.0.2.1": address,
        "40000": port,
        '"tcp"': f'"{protocol}"',
        "2026-11-23T18:33:28.999Z": opened["time"],
    }
    for word, value in asked.items():
        assert word in command
        command = command.replace(word, value)
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, timeout=PATIENCE)
    last = json.loads([line for line in found.stdout.splitlines() if "binding-" in line][-1])
    assert endpoints(last) == (protocol, source, source_port, address, port)


def test_a_reload_keeps_sessions_and_says_what_holds(nat64: Nat64Network) -> None:
    """Bindings outside of the new ports have lines of their own; a pool that is too small is refused."""
    path = nat64.scratch / "bindings.json"
    nat64.nat64(to_file(path, fixed()))
    send_from_many_ports(nat64, 20_000, 100)
    nat64.until(lambda: len(shown_bindings(nat64)) == 100)
    nat64.until(lambda: records(path)[-1]["event"] == "listed")
    assert not any("port" in r for r in records(path))
    code, message = nat64.reload(to_file(path, fixed().replace("5::/64", "8::/48")))
    assert code == USAGE
    assert "65537 sources (/64) x 512 ports do not fit" in message
    before = len(records(path))
    turned = fixed().replace("2001:db8:5::/64", "2001:db8:7::/64").replace('"2001:db8:7::/64", "2001:db8:6::/64"',
                                                                          '"2001:db8:6::/64", "2001:db8:7::/64"')  # fmt: skip
    assert nat64.reload(to_file(path, turned)) == (0, "")
    nat64.until(lambda: len(records(path)) > before and records(path)[-1]["event"] == "listed")
    new = records(path)[before:]
    assert [r["event"] for r in new[:2]] == ["stopped", "started"] or new[0]["event"] == "started"
    assert sum(r["event"] == "mapping" for r in new) == 1
    assert {endpoints(r) for r in new if r["event"] == "binding-in-force"} == shown_bindings(nat64)
    assert len(shown_bindings(nat64)) == 100
    # The port was the second source's by the first mapping. By the new one it is another's: the log's record counts before it.
    _, source, _, address, port = sorted(shown_bindings(nat64))[0]
    [by_mapping] = look_up(nat64, address, port)["owners"]
    assert (source, by_mapping["by"], by_mapping["source"]) == (V6, "mapping", "2001:db8:7::/64")


def test_other_sources_get_nothing(nat64: Nat64Network) -> None:
    """They are counted by a name that says why."""
    nat64.nat64(CONFIG + FIXED.replace("2001:db8:6::/64", "2001:db8:7::/64"))
    send_from_many_ports(nat64, 20_000, 3)
    nat64.until(lambda: nat64.counters().get("slow.drop.source_unmapped", 0) >= 3)
    assert not shown_bindings(nat64)
