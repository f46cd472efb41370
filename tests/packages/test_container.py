# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The program in a container, with the rights that docs/install.md gives it and no others.

Nothing here pulls an image or starts a container engine. A bare installation with the package unpacked is the image, and
namespaces are the container: /proc/sys and /sys are read-only, /dev has three devices, capabilities are those of the page.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from host import PATIENCE, ROOT, system
from nat64 import CONFIG, Nat64Network, in_ipv6
from siit import V4

PAGE = ROOT / "docs" / "install.md"
RECIPE = ROOT / "packaging" / "Containerfile"
START = """
set -e
system=$1 folder=$2 config=$3 capabilities=$4
shift 4
mount --make-rprivate /
mkdir "$folder"
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay -o "lowerdir=$system,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
dpkg-deb --extract /packages.deb "$folder/root"
cd "$folder/root"
mkdir -p etc/diolkos
cp "$config" etc/diolkos/nat64.toml
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs dev
mkdir dev/net
for name in null urandom net/tun; do
    : >"dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
exec chroot . setpriv --bounding-set="$capabilities" --inh-caps=-all --no-new-privs "$@"
"""


def test_the_capabilities_of_the_page_are_enough(network: Nat64Network, packages: Path) -> None:
    """The fast path is loaded, and packets pass."""
    given = re.findall(r"--cap-add=([A-Z_]+)", PAGE.read_text())
    assert "NET_ADMIN" in given
    assert not {"ALL", "SYS_ADMIN"} & set(given)
    options = dict(re.findall(r"--sysctl=([a-z0-9._]+)=(\d)", PAGE.read_text()))
    assert options
    for key, value in options.items():
        network.sysctl(network.translator, key, value)
    recipe = dict(re.findall(r"^(ENTRYPOINT|CMD) (.*)$", RECIPE.read_text(), re.MULTILINE))
    command = [*json.loads(recipe["ENTRYPOINT"]), *json.loads(recipe["CMD"])]

    network.configure(CONFIG)
    script = START.replace("/packages.deb", str(packages / "diolkos.deb"))
    capabilities = ",".join(["-all", *(f"+{name.lower()}" for name in given)])
    places = (str(system("bookworm")), str(network.scratch / "container"), str(network.config))
    spaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    log = network.scratch / "container.log"
    with log.open("w") as output:
        inside = ("nsenter", f"--net=/run/netns/{network.translator}", *spaces, "sh", "-c", script, "sh")
        process = subprocess.Popen((*inside, *places, capabilities, *command), stdout=output, stderr=output)
    try:
        network.until(lambda: "ready:" in log.read_text() or process.poll() is not None, patience=PATIENCE)
        assert process.poll() is None, log.read_text()
        assert "datapath tc" in log.read_text()
        assert "WARN" not in log.read_text(), log.read_text()
        ping = ("ping", "-c1", "-W0.2", in_ipv6(V4))
        network.until(lambda: network.run(network.v6, *ping, check=False).returncode == 0)
    finally:
        process.kill()
        process.wait()
