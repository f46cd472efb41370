# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Configuration of a stateless translator: checked, refused, replaced while it runs; and what it leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROUTER_DATAPATHS, program
from kernel import HOOKS
from siit import CONFIG, TRANSLATOR6, V4, V4_IN_IPV6, V6, V6_MAPPED, SiitNetwork
from test_clat_faults import MISSING, NO_BPF, NO_ROOT, RUN_TIME, USAGE, one_sentence
from test_siit_traffic import TCP_CLIENT, TCP_SERVER, discover, listen

SIIT = '[translator]\nmode = "siit"\n'
ANOTHER_MAPPING = f'\n[[eam]]\nv4 = "192.0.2.3/32"\nv6 = "{V6}3/128"\n'


def check(folder: Path, text: str) -> tuple[int, str, str]:
    """What `diolkos check` says of a configuration; it needs no namespace and no privilege."""
    file = folder / "x.toml"
    file.write_text(text)
    done = subprocess.run([program(), "check", file], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.replace(f"{folder}/", "")


def eam(v4: str, v6: str) -> str:
    return f'[[eam]]\nv4 = "{v4}"\nv6 = "{v6}"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('pref64 = ["2001:db8::/72"]\n', "3:11: translator.pref64[0]: 2001:db8::/72: the length must be"),
        ('pref64 = ["64:ff9b::/96", "2001:db8::1/96"]\n', "3:27: translator.pref64[1]: 2001:db8::1/96 has host bits set"),
        ('pref64 = ["2001:db8::/32", "2001:db8:1::/48"]\n', "3:28: translator.pref64[1]: 2001:db8:1::/48 overlaps"),
        ("pref64 = []\n", "3:10: translator.pref64: neither"),
        ("lowest_ipv6_mtu = 1279\n", "3:19: translator.lowest_ipv6_mtu: 1279 is below 1280"),
        ("lowest_ipv6_mtu = 1400\nmtu6 = 1300\n", "3:19: translator.lowest_ipv6_mtu: 1400 is above mtu6"),
        ('mtu4 = "big"\n', "3:8: translator.mtu4: `big` is neither a number of bytes nor `auto`"),
        ('placement = "direct"\n', "3:13: translator.placement: direct needs translator.interfaces"),
        ('placement = "direct"\ndatapath = "tun"\ninterfaces = ["a"]\n', "3:13: translator.placement: direct needs the"),
        ("mtu4 = 67\n", "3:8: translator.mtu4: 67 is below 68"),
        (eam("192.0.2.0/24", "2001:db8::/121"), "5:6: eam[0].v6: 2001:db8::/121 has room for fewer nodes"),
        (eam("192.0.2.1/24", "2001:db8::/120"), "4:6: eam[0].v4: 192.0.2.1/24 has host bits set"),
        ('[[eam]]\nv4 = "192.0.2.1/32"\n', "3:1: [[eam]] needs the key `v6`"),
        (
            eam("192.0.2.8/32", "2001:db8::8/128") + eam("192.0.2.8/32", "2001:db8:1::8/128"),
            "7:6: eam[1].v4: 192.0.2.8/32 overlaps eam[0].v4",
        ),
        ('pref64 = ["2001:db8:0:0:100::/64"]\n', "3:11: translator.pref64[0]: 2001:db8:0:0:100::/64: bits 64 to 71"),
        ('[icmp]\nsource_pool6 = ["64:ff9b::/112"]\n', "4:17: icmp.source_pool6[0]: 64:ff9b::/112 overlaps pref64[0]"),
        ('[icmp]\naddress6 = "192.0.2.1"\n', "4:12: icmp.address6: `192.0.2.1` is neither an IPv6 address nor `auto`"),
        ("[icmp]\nburst = 0\n", "4:9: icmp.burst: 0 suppresses every error"),
        ('[siit]\nroutes4 = ["192.0.2.1/24"]\n', "4:12: siit.routes4[0]: 192.0.2.1/24 has host bits set"),
        ('[siit]\nroutes4 = "all"\n', '4:11: siit.routes4: "all" is neither a list of networks nor "auto"'),
        ('[siit]\nroutes6 = ["2001:db8::/129"]\n', "4:12: "),
        ('[clat]\nv4 = "192.0.0.2"\n', '3:1: clat: this section is for the mode "clat", and the mode is "siit"'),
        ("[siit]\nroute4 = []\n", "4:1: [siit] has no key `route4`; did you mean `routes4`?"),
    ],
)
def test_a_wrong_configuration(tmp_path: Path, text: str, expected: str) -> None:
    """Exit code 2, and the place: line and column of the value."""
    code, _, message = check(tmp_path, SIIT + text)
    assert code == USAGE
    assert message.startswith(f"diolkos: x.toml:{expected}"), message


OVERLAPPING = eam("192.0.2.0/24", "2001:db8:6:1::/120") + eam("192.0.2.2/32", f"{V6}/128")
ODD_PREFIX = "2001:db8:64:64:ab00::/96"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OVERLAPPING, "7:6: eam[1].v4: 192.0.2.2/32 overlaps eam[0].v4 192.0.2.0/24, but not on the other side"),
        (f'pref64 = ["{ODD_PREFIX}"]\n', f"3:11: translator.pref64[0]: {ODD_PREFIX} has bits 64 to 71 set"),
    ],
)
def test_a_configuration_that_is_warned_of(tmp_path: Path, text: str, expected: str) -> None:
    """It is printed, the exit code is 0, and one line on standard error says where the mistake may be."""
    code, print_, message = check(tmp_path, SIIT + text)
    assert code == 0
    assert 'mode = "siit"' in print_
    assert message.startswith(f"diolkos: warning: x.toml:{expected}"), message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "why"), [("/dev/zero", "it is a device"), ("/proc/kmsg", "it has no end"), ("/proc", "it is a directory")]
)
def test_a_file_without_an_end(path: str, why: str) -> None:
    """A wrong path is a sentence, and neither a program that hangs nor one that takes all memory."""
    done = subprocess.run([program(), "check", path], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == USAGE
    assert f"the configuration file {path} cannot be read: {why}" in one_sentence(done.stderr.strip())


def test_a_configuration_out_of_a_pipe() -> None:
    """As shells hand it over."""
    command = [program(), "check", "/dev/stdin"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=CONFIG)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'mode = "siit"' in done.stdout


def test_keys_of_another_mode(tmp_path: Path) -> None:
    """A CLAT has no table of mappings."""
    code, _, message = check(tmp_path, '[translator]\ninterfaces = ["a"]\n' + eam("192.0.2.0/24", "2001:db8::/120"))
    assert code == USAGE
    assert "x.toml:3:1: eam: a CLAT has one mapping" in message


@pytest.mark.parametrize("text", [SIIT, CONFIG])
def test_check_prints_every_key_and_reads_its_own_print(tmp_path: Path, text: str) -> None:
    """The print has the defaults, and is its own print."""
    code, printed, message = check(tmp_path, text)
    assert code == 0, message
    for key in ("pref64", "lowest_ipv6_mtu = 1280", 'mtu4 = "auto"', 'udp_zero_checksum = "drop"', "rate = 1000",
                'address6 = "auto"', "source_pool4", "routes4", "metric = 1024", "allow_private_with_wkp = false"):  # fmt: skip
        assert key in printed, key
    assert "[clat]" not in printed
    assert check(tmp_path, printed)[1] == printed


MEANINGLESS = ("USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "PWR", "STKFLT", "XFSZ", "PIPE")


def test_signals_that_mean_nothing(siit: SiitNetwork) -> None:
    """They do not end it: after a kill, forwarding would stay switched on."""
    before = siit.forwarding()
    running = siit.siit("--log", "debug")
    for name in MEANINGLESS:
        running.process.send_signal(getattr(signal, f"SIG{name}"))
    # Rust ignores this one, so nobody hears of it.
    heard = [int(getattr(signal, f"SIG{name}")) for name in MEANINGLESS if name != "PIPE"]
    siit.until(lambda: running.process.poll() is not None or all(f"signal {n} is ignored" in running.log() for n in heard))
    assert running.process.poll() is None
    assert siit.diolkos("show", "counters")[0] == 0
    assert running.stop() == 0
    assert siit.forwarding() == before


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_leaves_nothing(siit: SiitNetwork, how: signal.Signals) -> None:
    """Forwarding is switched on for both families while it runs, and put back; after a kill by the next start."""
    before = siit.forwarding()
    assert set(before.values()) == {"0"}
    running = siit.siit()
    assert "switching forwarding on while diolkos runs" in running.log()
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout
    running.stop(how)
    assert siit.leftovers() == []
    if how == signal.SIGKILL:
        assert siit.forwarding() != before
        assert siit.siit().stop() == 0
    assert siit.forwarding() == before


def test_forwarding_only_where_it_is_wanted(siit: SiitNetwork) -> None:
    """With interfaces given, others stay as they are."""
    siit.ip(siit.translator, "link", "add", "other0", "type", "veth", "peer", "name", "other1")
    siit.configure(CONFIG.replace("pref64", 'interfaces = ["b4", "b6"]\nplacement = "device"\npref64'))
    siit.siit()
    settings = siit.forwarding()
    assert settings["ipv4/conf/b4/forwarding"] == settings["ipv4/conf/b6/forwarding"] == "1"
    assert settings["ipv4/conf/other0/forwarding"] == settings["ipv4/conf/all/forwarding"] == "0"
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout


def test_routes_by_default(siit: SiitNetwork) -> None:
    """Mapped IPv4 networks and the prefix lead to the device; what `auto` found is shown."""
    siit.configure(CONFIG[: CONFIG.index("[siit]")])
    siit.siit("--datapath", "auto", command="run")
    routes = [siit.run(siit.translator, "ip", family, "route", "show", "dev", "diolkos0").stdout for family in ("-4", "-6")]
    assert [line.split()[0] for text in routes for line in text.splitlines()] == ["192.0.2.2", "2001:db8:64::/96"]
    shown = siit.run(siit.translator, str(siit.program), "show", "config").stdout
    assert "mtu4 = 9000\nmtu6 = 9000" in shown
    assert f'address6 = "{TRANSLATOR6}"' in shown


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_start_and_reload_say_warnings(siit: SiitNetwork) -> None:
    """With mappings that overlap the longest match decides, whatever translates; a narrow interface is named."""
    siit.configure(CONFIG.replace("[[eam]]", eam("192.0.2.0/24", "2001:db8:6:1::/120") + "[[eam]]"))
    siit.ip(siit.translator, "link", "set", "b6", "mtu", "1400")
    running = siit.siit()
    warned = [line for line in running.log().splitlines() if "overlaps" in line]
    assert len(warned) == 1
    assert "siit.toml:10:6: eam[1].v4: 192.0.2.2/32 overlaps eam[0].v4" in warned[0]
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout
    assert "1 received" in siit.run(siit.v6, "ping", "-c1", "-W2", V4_IN_IPV6).stdout
    assert siit.counters()[f"{siit.path()}.translated_4to6"] > 0
    assert "lowest_ipv6_mtu" not in running.log()
    assert siit.reload(CONFIG.replace("pref64", "lowest_ipv6_mtu = 1500\npref64", 1)) == (0, "")
    assert "lowest_ipv6_mtu: 1500 is above the MTU of b6, 1400" in running.log()
    assert "MTU of b4" not in running.log()
    running.stop()
    assert "lowest_ipv6_mtu: 1500 is above the MTU of b6, 1400" in siit.siit().log()


@pytest.mark.parametrize("siit", ["tc", "tun"], indirect=True)
def test_a_prefix_with_bits_64_to_71(siit: SiitNetwork) -> None:
    """Packets pass both ways, by both paths."""
    siit.configure(CONFIG.replace("2001:db8:64::/96", ODD_PREFIX))
    siit.siit()
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout
    assert "1 received" in siit.run(siit.v6, "ping", "-c1", "-W2", ODD_PREFIX.replace("/96", "c633:6402")).stdout
    assert siit.counters()[f"{siit.path()}.translated_4to6"] > 0


def test_what_cannot_start(siit: SiitNetwork) -> None:
    """One sentence each, and nothing is left."""
    siit.configure(CONFIG)
    config = ("siit", "--config", str(siit.config))
    siit.scratch.chmod(0o755)
    cases = [
        ((*config, "--datapath", "tc"), NO_BPF, MISSING, "the kernel refuses BPF programs"),
        (config, NO_ROOT, MISSING, "CAP_NET_ADMIN"),
        (("siit", "--config", "/nonexistent.toml"), (), USAGE, "/nonexistent.toml"),
    ]
    for arguments, wrapper, expected, words in cases:
        done = siit.run(siit.translator, *wrapper, str(siit.program), *arguments, check=False)
        message = [line for line in done.stderr.splitlines() if line.startswith("diolkos:")]
        assert (done.returncode, len(message)) == (expected, 1), done.stderr
        assert words in one_sentence(message[0])
    siit.run(siit.translator, "ip", "-6", "route", "add", "unreachable", "2001:db8:64::/96", "metric", "1024")
    code, message = siit.diolkos(*config)
    assert code == RUN_TIME
    assert "there is a route to 2001:db8:64::/96 with metric 1024 already" in message
    assert siit.leftovers() == []


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_reload_changes_what_is_translated(siit: SiitNetwork) -> None:
    """A mapping appears and goes again, and its route with it."""
    siit.ip(siit.v6, "address", "add", f"{V6}3/128", "dev", "a0", "nodad")
    siit.configure(CONFIG[: CONFIG.index("[siit]")])
    siit.siit()

    def answers() -> bool:
        return siit.run(siit.v4, "ping", "-c1", "-W2", "192.0.2.3", check=False).returncode == 0

    assert not answers()
    assert siit.reload(CONFIG[: CONFIG.index("[siit]")] + ANOTHER_MAPPING) == (0, "")
    assert answers()
    assert "192.0.2.3" in siit.run(siit.translator, str(siit.program), "show", "config").stdout
    assert siit.reload(CONFIG[: CONFIG.index("[siit]")]) == (0, "")
    assert not answers()
    assert "192.0.2.3" not in siit.run(siit.translator, "ip", "route", "show", "dev", "diolkos0").stdout


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_reload_changes_the_mtu(siit: SiitNetwork) -> None:
    """The device follows both ways, and path MTU discovery finds the new limit."""
    siit.siit()

    def device() -> int:
        return siit.ip_json(siit.translator, "link", "show", "diolkos0")[0]["mtu"]

    assert device() == 9000
    assert siit.reload(CONFIG.replace("pref64", "mtu4 = 1500\nmtu6 = 1400\npref64")) == (0, "")
    assert device() == 1500
    assert discover(siit, siit.v4, V6_MAPPED, 28) == 1380
    assert siit.reload(CONFIG) == (0, "")
    assert device() == 9000


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_reload_loses_nothing(siit: SiitNetwork) -> None:
    """Configurations change under a transfer and a fast ping; every echo is answered and nothing is dropped."""
    siit.siit()
    server = listen(siit, siit.v6, TCP_SERVER, V6)
    client = siit.start(siit.v4, sys.executable, "-c", TCP_CLIENT, V4, V6_MAPPED, "64", stdout=subprocess.PIPE, text=True)
    ping = siit.start(siit.v6, "ping", "-q", "-c2000", "-i0.002", "-W5", V4_IN_IPV6, stdout=subprocess.PIPE, text=True)
    reloads = 0
    while ping.poll() is None or client.poll() is None:
        text = CONFIG + (ANOTHER_MAPPING if reloads % 2 else "") + f"\n[icmp]\nrate = {reloads}\n"
        assert siit.reload(text) == (0, "")
        reloads += 1
    assert reloads > 5
    assert "2000 received" in ping.stdout.read()
    assert client.stdout.read() == server.stdout.readline()
    assert {name: n for name, n in siit.counters().items() if ("drop" in name or name.endswith("failed")) and n} == {}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (CONFIG.replace("pref64", 'device = "other0"\npref64'), RUN_TIME, "translator.device cannot change"),
        (CONFIG.replace('"siit"', '"clat"'), USAGE, "siit.toml"),
        (CONFIG.replace("192.0.2.2/32", "192.0.2.2/33"), USAGE, "siit.toml:7:6: "),
        (CONFIG + "[log]\nlevel = 'debug'\n", RUN_TIME, "log.level cannot change"),
        (CONFIG + "[icmp]\nsource_pool4 = ['192.0.2.0/24']\n", USAGE, "icmp.source_pool4[0]: 192.0.2.0/24 overlaps"),
    ],
)
def test_reload_refuses(siit: SiitNetwork, text: str, code: int, words: str) -> None:
    """The reason is told to who asked and in the log, and the old configuration stays in force."""
    running = siit.siit(command="run")
    got, message = siit.reload(text)
    assert got == code, message
    assert words in message
    assert "the old configuration stays in force" in running.log()
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout


def test_reload_that_fails_late(siit: SiitNetwork) -> None:
    """Somebody else has a route that the new configuration needs: the device, made larger for it, is as before at once."""
    narrow = CONFIG.replace("pref64", "mtu4 = 1500\nmtu6 = 1520\npref64", 1)
    siit.configure(narrow)
    running = siit.siit()
    metric = siit.ip_json(siit.translator, "-4", "route", "show", "192.0.2.0/24")[0]["metric"]
    siit.run(siit.translator, "ip", "route", "add", "198.18.0.0/24", "dev", "b4", "metric", str(metric))
    code, message = siit.reload(CONFIG.replace('"192.0.2.0/24"', '"192.0.2.0/24", "198.18.0.0/24"'))
    assert code == RUN_TIME
    assert "there is a route to 198.18.0.0/24" in message
    assert siit.ip_json(siit.translator, "link", "show", "diolkos0")[0]["mtu"] == 1520
    assert siit.reload(narrow) == (0, "")
    assert "had lost" not in running.log()


def test_reload_of_others(siit: SiitNetwork) -> None:
    """Nobody there, or a CLAT without a file: one sentence."""
    code, message = siit.diolkos("reload")
    assert code == RUN_TIME
    assert "no diolkos runs in this network namespace" in one_sentence(message)
    siit.run(siit.translator, "ip", "link", "set", "b6", "up")
    siit.ip(siit.translator, "route", "add", "64:ff9b::/96", "via", V6)
    log = siit.scratch / "clat"
    with log.open("w") as sink:
        siit.start(
            siit.translator,
            str(siit.program),
            "clat",
            "--uplink",
            "b6",
            "--pref64",
            "64:ff9b::/96",
            "--datapath",
            "tun",
            stderr=sink,
        )
    siit.until(lambda: " ready: " in log.read_text())
    code, message = siit.diolkos("reload")
    assert code == USAGE
    assert "start with `--config FILE`" in one_sentence(message)


@pytest.mark.parametrize("hook", HOOKS)
def test_an_inline_interface_vanishes(siit: SiitNetwork, hook: str) -> None:
    """The program says so, goes on, and takes it up again; nothing is left on the interfaces that stay."""
    siit.ip(siit.translator, "link", "add", "other0", "type", "veth", "peer", "name", "other1")
    inline = f'placement = "inline"\nhook = "{hook}"\ninterfaces = ["b4", "other0", "b6"]\npref64'
    siit.configure(CONFIG.replace("pref64", inline))
    running = siit.siit("--datapath", "tc")
    assert "inline at b4, other0, b6" in running.log()
    siit.ip(siit.translator, "link", "del", "other0")
    siit.until(lambda: "an interface where packets were translated is gone" in running.log())
    code, message = siit.reload(CONFIG.replace("pref64", inline) + ANOTHER_MAPPING)
    assert (code, "there is no network interface `other0`" in message) == (RUN_TIME, True)
    siit.ip(siit.translator, "link", "add", "other0", "type", "veth", "peer", "name", "other1")
    siit.until(lambda: "other0 is back" in running.log())
    assert siit.reload(CONFIG.replace("pref64", inline) + ANOTHER_MAPPING) == (0, "")
    assert "1 received" in siit.run(siit.v4, "ping", "-c1", "-W2", V6_MAPPED).stdout
    running.stop(signal.SIGKILL)
    siit.configure(CONFIG)
    assert siit.siit("--datapath", "tun").stop() == 0
    for name in ("b4", "b6"):
        assert siit.run(siit.translator, "tc", "filter", "show", "dev", name, "ingress", check=False).stdout == ""


def test_an_inline_interface_that_cannot_be_taken_up(siit: SiitNetwork) -> None:
    """Somebody else's filter has the place of ours. Once it is gone, the next change of the interface is enough."""
    siit.ip(siit.translator, "link", "add", "other0", "type", "veth", "peer", "name", "other1")
    siit.configure(
        CONFIG.replace("pref64", 'placement = "inline"\nhook = "clsact"\ninterfaces = ["b4", "b6", "other0"]\npref64')
    )
    running = siit.siit("--datapath", "tc")
    siit.ip(siit.translator, "link", "del", "other0")
    siit.until(lambda: "an interface where packets were translated is gone" in running.log())
    siit.ip(siit.translator, "link", "add", "other2", "type", "veth", "peer", "name", "other1")
    tc = (siit.translator, "tc")
    siit.run(*tc, "qdisc", "add", "dev", "other2", "clsact")
    filters = ("u32", "match", "u32", "0", "0", "flowid", "1:1")
    siit.run(*tc, "filter", "add", "dev", "other2", "ingress", "prio", "0xd101", "protocol", "all", *filters)
    siit.ip(siit.translator, "link", "set", "other2", "name", "other0")
    siit.until(lambda: "packets that arrive at other0 are not translated there" in running.log())
    siit.run(*tc, "qdisc", "del", "dev", "other0", "clsact")
    siit.ip(siit.translator, "link", "set", "other0", "up")
    siit.until(lambda: "other0 is back" in running.log())
    assert "bpf" in siit.run(*tc, "filter", "show", "dev", "other0", "ingress").stdout
    assert running.stop() == 0


@pytest.mark.parametrize("siit", ROUTER_DATAPATHS, indirect=True)
def test_the_device_vanishes(siit: SiitNetwork) -> None:
    """The program says so and ends with 1."""
    running = siit.siit()
    siit.ip(siit.translator, "link", "del", "diolkos0")
    assert running.wait() == RUN_TIME
    assert "the TUN device diolkos0 is gone" in running.log()


def test_ways_that_a_siit_loses(siit: SiitNetwork) -> None:
    """Both sides may be behind routers: each has a way of its own."""
    siit.run(siit.translator, "ip", "-4", "route", "add", "default", "via", V4)
    siit.run(siit.translator, "ip", "-6", "route", "add", "default", "via", V6)
    siit.configure(CONFIG.replace(f"{V6}/128", "2001:db8:77::1/128"))
    siit.siit()

    def obstacles() -> list[str]:
        return siit.status(siit.translator)["obstacles"]

    assert obstacles() == []
    siit.run(siit.translator, "ip", "-6", "route", "del", "default")
    gone = "packets to other networks, such as to {}, have no route any more"
    siit.until(lambda: obstacles() == ["IPv6 " + gone.format("2001:db8:77::1")])
    siit.run(siit.translator, "ip", "-4", "route", "del", "default")
    both = ["IPv4 " + gone.format("198.41.0.4"), "IPv6 " + gone.format("2001:db8:77::1")]
    siit.until(lambda: obstacles() == both)
    siit.run(siit.translator, "ip", "-4", "route", "add", "default", "via", V4)
    siit.run(siit.translator, "ip", "-6", "route", "add", "blackhole", "default")
    refused = "IPv6 packets to other networks, such as to 2001:db8:77::1, are discarded by a route or rule (blackhole)"
    siit.until(lambda: obstacles() == [refused])
