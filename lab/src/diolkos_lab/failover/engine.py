# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine: three members of etcd, which speak TLS with each other and with the gateways, and know nobody without a
certificate of the cluster's authority.

Stages: authority and certificates → arguments → start → is there a leader?
"""

import http.client
import shutil
import subprocess
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from diolkos_lab.failover import plan
from diolkos_lab.failover.network import Network
from diolkos_lab.failover.waiting import wait_until
from diolkos_lab.faults import Fault
from diolkos_lab.topology import namespace
from diolkos_lab.topology.process import Process

PATIENCE_S = 60.0
TOKEN = "lab"


@dataclass(frozen=True)
class Certificates:
    """A folder with ca.pem, and NAME.pem and NAME.key for each member of the engine and each gateway."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def of(self, name: str) -> tuple[Path, Path]:
        """Certificate and private key."""
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"


def make_certificates(folder: Path) -> Certificates:
    """An authority for this run alone, and a certificate for each member and gateway, with its name and address."""
    folder.mkdir(mode=0o700, parents=True)
    made = Certificates(folder)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    _openssl(
        "req", "-x509", *curve, "-subj", "/CN=lab authority", "-days", "2",
        "-keyout", str(folder / "ca.key"), "-out", str(made.authority),
    )  # fmt: skip
    addresses = {name: plan.engine4(number) for number, name in enumerate(plan.ENGINES, 1)}
    addresses |= {node.name: node.management4 for node in plan.NODES}
    for name, address in addresses.items():
        certificate, key = made.of(name)
        # Each is server and client: gateways of each other; a member of other members and, by its gateway to JSON, of itself.
        _openssl(
            "req", "-x509", *curve, "-subj", f"/CN={name}", "-days", "2", "-CA", str(made.authority),
            "-CAkey", str(folder / "ca.key"), "-keyout", str(key), "-out", str(certificate),
            "-addext", f"subjectAltName=IP:{address},DNS:{name}", "-addext", "extendedKeyUsage=serverAuth,clientAuth",
            "-addext", "basicConstraints=critical,CA:FALSE",
        )  # fmt: skip
    return made


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise Fault(f"openssl makes no certificate: {done.stderr.strip()[-200:]}")


@dataclass
class Engine:
    """The members, by name. One that was killed can be started again on what it stored."""

    network: Network
    folder: Path
    certificates: Certificates
    processes: dict[str, Process]

    def start_one(self, name: str) -> None:
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        command = ["etcd", *arguments(name, home / "data", self.certificates)]
        log = home / "etcd.log"
        self.processes[name] = Process(self.network.namespace(name), command, log, log)

    def answering(self) -> dict[str, bool]:
        """Which members answer, and whether each says that it leads."""
        running = [name for name in plan.ENGINES if self.processes[name].exit_status is None]
        found = {name: self._leads(name) for name in running}
        return {name: leads for name, leads in found.items() if leads is not None}

    def leader(self) -> str | None:
        """The one that leads; None where none or several say so."""
        leaders = [name for name, leads in self.answering().items() if leads]
        return leaders[0] if len(leaders) == 1 else None

    def ready(self) -> bool:
        """Do most members answer, and one of them as the leader?"""
        said = self.answering()
        return sum(said.values()) == 1 and len(said) > len(plan.ENGINES) // 2

    def _leads(self, name: str) -> bool | None:
        """None where the member does not answer, or knows no leader."""
        with namespace.entered(self.network.namespace(name)):
            connection = http.client.HTTPConnection(str(address_of(name)), plan.ENGINE_METRICS_PORT, timeout=1)
            try:
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode(errors="replace")
            except (OSError, http.client.HTTPException):
                return None
            finally:
                connection.close()
        return leads(text)


def leads(metrics: str) -> bool | None:
    """Does a member lead that gives these metrics? None where it knows no leader."""
    gauges = dict(line.split(" ", 1) for line in metrics.splitlines() if line.startswith("etcd_server_") and " " in line)
    if gauges.get("etcd_server_has_leader") != "1":
        return None
    return gauges.get("etcd_server_is_leader") == "1"


def address_of(name: str) -> IPv4Address:
    return plan.engine4(plan.ENGINES.index(name) + 1)


def start(network: Network, folder: Path, certificates: Certificates) -> Engine:
    """All three, agreed on a leader. Raises Fault when they do not get so far."""
    engine = Engine(network, folder, certificates, {})
    for name in plan.ENGINES:
        engine.start_one(name)
    if not wait_until(
        lambda: engine.ready() or any(each.exit_status is not None for each in engine.processes.values()), PATIENCE_S
    ):
        raise Fault(f"the engine finds no leader: {engine.answering()}")
    for name, process in engine.processes.items():
        if process.exit_status is not None:
            raise Fault(f"the engine's member {name} {process.how_it_ended()}: {' '.join(process.last_words())}")
    return engine


def arguments(name: str, data: Path, certificates: Certificates) -> list[str]:
    """Of one member. Who has no certificate of the authority is not let in, by either door."""
    own, (certificate, key) = address_of(name), certificates.of(name)
    peers = ",".join(f"{each}=https://{address_of(each)}:{plan.ENGINE_PEER_PORT}" for each in plan.ENGINES)
    files = [
        argument
        for door in ("", "peer-")
        for argument in (
            f"--{door}cert-file={certificate}",
            f"--{door}key-file={key}",
            f"--{door}trusted-ca-file={certificates.authority}",
            f"--{door}client-cert-auth",
        )
    ]
    return [
        f"--name={name}",
        f"--data-dir={data}",
        f"--listen-client-urls=https://{own}:{plan.ENGINE_PORT}",
        f"--advertise-client-urls=https://{own}:{plan.ENGINE_PORT}",
        f"--listen-peer-urls=https://{own}:{plan.ENGINE_PEER_PORT}",
        f"--initial-advertise-peer-urls=https://{own}:{plan.ENGINE_PEER_PORT}",
        f"--listen-metrics-urls=http://{own}:{plan.ENGINE_METRICS_PORT}",  # asked from its own namespace
        f"--initial-cluster={peers}",
        f"--initial-cluster-token={TOKEN}",
        *files,
    ]


def missing() -> dict[str, str]:
    """Programs that are not here, with how to get them."""
    wanted = {
        "etcd": "apt-get install etcd-server; the lab starts its own, so the service may be off",
        "openssl": "apt-get install openssl",
    }
    paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {name: how for name, how in wanted.items() if not shutil.which(name, path=paths)}
