# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine: three servers of NATS with JetStream, which speak TLS with each other and with the gateways, and know nobody
without a certificate of the cluster's authority.

Stages: authority and certificates → configuration → start → is there a leader?
"""

import http.client
import json
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

MONITOR_PORT = 8222
PATIENCE_S = 60.0
STORE_BYTES = 256 << 20


@dataclass(frozen=True)
class Certificates:
    """A folder with ca.pem, and NAME.pem and NAME.key for each server of the engine and each gateway."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def of(self, name: str) -> tuple[Path, Path]:
        """Certificate and private key."""
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"


def make_certificates(folder: Path) -> Certificates:
    """An authority for this run alone, and a certificate for each engine server and gateway, with its address."""
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
        # A server of the engine is a client of the others.
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
    """The servers, by name. One that was killed can be started again on what it stored."""

    network: Network
    folder: Path
    certificates: Certificates
    processes: dict[str, Process]

    def start_one(self, name: str) -> None:
        number = plan.ENGINES.index(name) + 1
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        config = home / "nats.conf"
        config.write_text(configuration(name, plan.engine4(number), home / "store", self.certificates))
        command = ["nats-server", "--config", str(config)]
        log = home / "nats.log"
        self.processes[name] = Process(self.network.namespace(name), command, log, log)

    def answering(self) -> dict[str, str | None]:
        """Which servers of the engine answer, with the name of the leader of JetStream's metadata as each sees it."""
        found = {}
        for number, name in enumerate(plan.ENGINES, 1):
            if self.processes[name].exit_status is None:
                found[name] = self._leader(name, plan.engine4(number))
        return {name: leader for name, leader in found.items() if leader is not None}

    def ready(self) -> bool:
        """Do all servers that run agree on one of them that leads?"""
        said = self.answering()
        leaders = set(said.values())
        return len(leaders) == 1 and leaders <= set(said) and len(said) > len(plan.ENGINES) // 2

    def _leader(self, name: str, address: IPv4Address) -> str | None:
        """The empty string where there is none; None where the server does not answer."""
        with namespace.entered(self.network.namespace(name)):
            connection = http.client.HTTPConnection(str(address), MONITOR_PORT, timeout=1)
            try:
                connection.request("GET", "/jsz")
                value = json.loads(connection.getresponse().read())
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                return None
            finally:
                connection.close()
        return str(value.get("meta_cluster", {}).get("leader", ""))


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
            raise Fault(f"the engine's server {name} {process.how_it_ended()}: {' '.join(process.last_words())}")
    return engine


def configuration(name: str, own: IPv4Address, store: Path, certificates: Certificates) -> str:
    """nats.conf of one server. Who has no certificate of the authority is not let in, by either door."""
    certificate, key = certificates.of(name)
    files = f'cert_file: "{certificate}", key_file: "{key}", ca_file: "{certificates.authority}"'
    tls = f"tls {{ {files}, verify: true, timeout: 5 }}"
    routes = ", ".join(
        f'"nats://{plan.engine4(number)}:{plan.ENGINE_CLUSTER_PORT}"' for number in range(1, len(plan.ENGINES) + 1)
    )
    return f"""\
server_name: "{name}"
listen: "{own}:{plan.ENGINE_PORT}"
http: "{own}:{MONITOR_PORT}"
{tls}
jetstream {{ store_dir: "{store}", max_memory_store: {STORE_BYTES}, max_file_store: {STORE_BYTES} }}
cluster {{
  name: "lab"
  listen: "{own}:{plan.ENGINE_CLUSTER_PORT}"
  {tls}
  routes: [{routes}]
}}
"""


def missing() -> dict[str, str]:
    """Programs that are not here, with how to get them."""
    wanted = {
        "nats-server": "apt-get install nats-server; the lab starts its own, so the service may be off",
        "openssl": "apt-get install openssl",
    }
    paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {name: how for name, how in wanted.items() if not shutil.which(name, path=paths)}
