# SPDX-License-Identifier: Apache-2.0 OR MIT
"""packaging/Containerfile makes an image that runs as docs/install.md says: by those commands, with podman."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BUILT
from engine import Engine, commands
from host import ROOT, system
from nat64 import Nat64Network, in_ipv6
from siit import V4
from test_deb import CONFIG, Conversation

PAGE = ROOT / "docs" / "install.md"
RECIPE = ROOT / "packaging" / "Containerfile"
STATE = "/var/lib/diolkos/nat.state"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Podman, with the base of the image."""
    missing = [tool for tool in ("podman", "jq") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    made = Engine(tmp_path / "engine")
    try:
        base = "docker.io/library/" + RECIPE.read_text().partition("\nFROM ")[2].split()[0]
        made.add_image(base, system("bookworm"))
        if refused := made.find_runtime(base):
            pytest.skip(f"no container starts here: {refused}")
        yield made
    finally:
        made.remove()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What `podman build` is given: the clone, after `make deb`."""
    folder = tmp_path / "clone"
    (folder / "packaging").mkdir(parents=True)
    shutil.copy(RECIPE, folder / "packaging")
    (folder / "target" / "deb").mkdir(parents=True)
    for package in BUILT.glob("diolkos_*.deb"):
        shutil.copy(package, folder / "target" / "deb")
    return folder


def test_the_image_translates(engine: Engine, network: Nat64Network, clone: Path) -> None:
    """It builds, starts with a fast path, translates, keeps a connection over a restart, and leaves nothing."""
    places = {"/etc/diolkos": clone / "etc", "/var/lib/diolkos": clone / "var"}
    for place in places.values():
        place.mkdir()
    (places["/etc/diolkos"] / "nat64.toml").write_text(CONFIG)
    # The options of the page are to set them.
    for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        network.sysctl(network.translator, key, "0")

    text = commands(PAGE, "podman build")
    text = text.replace("podman build", "podman build --network=none --pull=never")
    group = f"--cgroup-parent={engine.group}"
    text = text.replace("podman run", f"podman run --network=ns:/run/netns/{network.translator} {group}")
    for place, instead in places.items():
        text = text.replace(f"--volume={place}:", f"--volume={instead}:")
    engine.shell(text, clone)

    network.until(lambda: "ready:" in said(engine), patience=120)
    assert "datapath tc" in said(engine), said(engine)
    conversation = Conversation(network)
    pinged = network.run(network.v6, "ping", "-c1", "-W5", in_ipv6(V4), check=False)
    assert pinged.returncode == 0, pinged.stdout
    counters = engine.podman("exec", "nat64", "diolkos", "show", "counters").stdout
    assert "fast.translated_6to4" in counters
    assert "slow.drop" not in counters

    engine.podman("stop", "nat64")
    assert engine.podman("inspect", "--format={{.State.ExitCode}}", "nat64").stdout == "0\n", said(engine)
    assert network.leftovers() == []
    reached = conversation.turns
    engine.podman("start", "nat64")
    network.until(lambda: conversation.turns > reached + 10 or conversation.wrong is not None, patience=120)
    conversation.end()


def said(engine: Engine) -> str:
    """What the program has logged."""
    return engine.podman("logs", "nat64").stderr
