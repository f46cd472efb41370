# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the manifests in docs/examples/kubernetes run: with their rights, and files as a kubelet mounts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import yaml
from nat64 import Nat64Network, in_ipv6
from network import PATIENCE
from siit import V4

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "examples" / "kubernetes"
METRICS = 9464


def manifest(name: str) -> tuple[dict[str, str], dict[str, dict]]:
    """The data of a manifest's ConfigMap, and its containers by name."""
    documents = {document["kind"]: document for document in yaml.safe_load_all((FOLDER / name).read_text())}
    containers = documents["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    return documents.get("ConfigMap", {}).get("data", {}), {container["name"]: container for container in containers}


def mount(folder: Path, data: dict[str, str], version: str) -> None:
    """Put a ConfigMap into a folder as a kubelet does: a folder of its own, and a link that is replaced at once."""
    (folder / version).mkdir(parents=True)
    for name, text in data.items():
        (folder / version / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data_tmp").symlink_to(version)
    (folder / "..data_tmp").rename(folder / "..data")


def rights(container: dict) -> tuple[str, ...]:
    """A command that gives the next one the container's capabilities and no others."""
    capabilities = container["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"]
    given = ",".join(["-all", *(f"+{name.lower()}" for name in capabilities.get("add", []))])
    return ("setpriv", f"--bounding-set={given}", "--inh-caps=-all", "--no-new-privs")


def test_the_nat64_of_the_page(nat64: Nat64Network) -> None:
    """It gets ready, tells metrics, takes a changed ConfigMap and refuses a wrong one, and ends when it is asked to."""
    data, containers = manifest("nat64.yaml")
    nat64.sysctl(nat64.translator, "net.ipv4.ip_forward", "1")
    nat64.sysctl(nat64.translator, "net.ipv6.conf.all.forwarding", "1")
    # /etc and /var are the machine's.
    places = {"/etc/diolkos": str(nat64.scratch / "etc"), "/var/lib/diolkos": str(nat64.scratch / "var")}
    Path(places["/var/lib/diolkos"]).mkdir()
    folder = Path(places["/etc/diolkos"])
    mount(folder, data, "..first")

    def here(text: str) -> str:
        for place, instead in places.items():
            text = text.replace(place, instead)
        return text.replace("while sleep 2", "while sleep 0.1")

    env = {"PATH": f"{nat64.program.parent}:{os.environ['PATH']}"}
    log, said = nat64.scratch / "nat64.log", nat64.scratch / "reload.log"
    with log.open("w") as output:
        command = (*rights(containers["nat64"]), str(nat64.program), *map(here, containers["nat64"]["args"]))
        program = nat64.start(nat64.translator, *command, stdout=output, stderr=output)

    def page(path: str, address: str = "127.0.0.1") -> str:
        asked = ("curl", "--silent", "--write-out", "\n%{http_code}", f"http://{address}:{METRICS}{path}")
        return nat64.run(nat64.translator, *asked, check=False).stdout

    for address in ("127.0.0.1", "[::1]"):
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = containers["nat64"][probe]["httpGet"]
            assert asked["port"] == "metrics"
            nat64.until(
                lambda asked=asked, address=address: page(asked["path"], address).endswith("\n200"), patience=2 * PATIENCE
            )
    assert "datapath tc" in log.read_text(), log.read_text()
    nat64.until(lambda: nat64.run(nat64.v6, "ping", "-c1", "-W1", in_ipv6(V4), check=False).returncode == 0)
    assert "\ndiolkos_ready 1\n" in page("/metrics")

    with said.open("w") as output:
        # As in a container: it is the first process, for which signals do nothing that it has no action for.
        first = ("unshare", "--pid", "--fork", "--kill-child")
        command = (*first, *rights(containers["reload"]), *map(here, containers["reload"]["command"]))
        watch = nat64.start(nat64.translator, *command, stdout=output, stderr=output, env=env)
    # It has looked at the files once.
    nat64.until(lambda: any("sleep" in children(child).values() for child in children(watch.pid)))
    mount(folder, {"nat64.toml": data["nat64.toml"] + "[nat64.timeouts]\nudp = 120\n"}, "..second")
    nat64.until(lambda: nat64.status(nat64.translator)["reloads"] == 1)
    nat64.until(lambda: said.read_text() == "reloaded ..second\n")
    mount(folder, {"nat64.toml": data["nat64.toml"].replace("pref64", "pref46")}, "..wrong")
    nat64.until(lambda: "pref46" in said.read_text())
    assert nat64.status(nat64.translator)["reloads"] == 1
    assert nat64.run(nat64.v6, "ping", "-c1", "-W1", in_ipv6(V4), check=False).returncode == 0
    [shell] = children(watch.pid)
    os.kill(shell, signal.SIGTERM)
    assert watch.wait(PATIENCE) == 0

    stop = containers["nat64"]["lifecycle"]["preStop"]["exec"]["command"]
    nat64.run(nat64.translator, *rights(containers["nat64"]), *stop, env=env)
    program.terminate()
    assert program.wait(4 * PATIENCE) == 0, log.read_text()
    assert (Path(places["/var/lib/diolkos"]) / "nat64.state").exists()


def children(pid: int) -> dict[int, str]:
    """What a process has started."""
    numbers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(number): Path(f"/proc/{number}/comm").read_text().strip() for number in numbers}


def test_the_plugin_is_installed_and_removed(nat64: Nat64Network) -> None:
    """Programs and list are there; a list that is written anew gets it again; it stays until it is taken out."""
    data, containers = manifest("clat.yaml")
    install = containers["install"]
    env = {variable["name"]: variable["value"] for variable in install["env"]}
    lists, programs, folder = (nat64.scratch / name for name in ("net.d", "bin", "etc"))
    for made in (lists, programs):
        made.mkdir()
    mount(folder, data, "..first")
    # A runtime's plugin that runs cannot be written to, but replaced.
    (programs / "diolkos-cni").write_text("an older one")
    (programs / "ptp").symlink_to("/bin/true")
    plain = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp"}]}
    path = lists / "10-pods.conflist"
    path.write_text(json.dumps(plain))

    own = nat64.program.parent
    env |= {"LIST": str(lists), "PROGRAMS": str(programs), "PATH": f"{own}:{env['PATH']}:{os.environ['PATH']}"}
    log = nat64.scratch / "install.log"

    def begin(container: dict, *before: str) -> subprocess.Popen:
        text = container["command"][-1].replace("sleep 10", "sleep 0.1").replace("/etc/diolkos", str(folder))
        for program in ("/usr/bin/diolkos", "/usr/lib/cni/diolkos-cni"):
            text = text.replace(program, str(own / Path(program).name))
        with log.open("w") as output:
            command = (*before, *rights(container), *container["command"][:-1], text)
            return nat64.start(nat64.v6, *command, stdout=output, stderr=output, env=env)

    # A folder that takes no programs: no list may name them.
    full = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$PROGRAMS" && exec "$@"', "sh")
    assert begin(install, *full).wait(PATIENCE) != 0, log.read_text()
    assert json.loads(path.read_text()) == plain, log.read_text()

    process = begin(install)
    chained = [*plain["plugins"], {"type": "diolkos-cni", "clat": json.loads(data["clat.json"])}]
    for _ in range(2):
        nat64.until(lambda: json.loads(path.read_text())["plugins"] == chained)
        assert sorted(found.name for found in programs.iterdir()) == ["diolkos", "diolkos-cni", "ptp"]
        path.write_text(json.dumps(plain))
    for name in ("diolkos", "diolkos-cni"):
        done = subprocess.run((programs / name, "--version"), check=True, capture_output=True, text=True)
        assert done.stdout.startswith(f"{name} ")
    nat64.until(lambda: json.loads(path.read_text())["plugins"] == chained)
    # An upgrade, or the end of the node: pods that start meanwhile need it.
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert json.loads(path.read_text())["plugins"] == chained, log.read_text()

    remove = manifest("clat-remove.yaml")[1]["remove"]
    ready = remove["readinessProbe"]["exec"]["command"]
    assert nat64.run(nat64.v6, *ready, env=env, check=False).returncode == 1
    process = begin(remove)
    nat64.until(lambda: json.loads(path.read_text()) == plain)
    assert nat64.run(nat64.v6, *ready, env=env, check=False).returncode == 0
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert len(list(lists.iterdir())) == 1
