# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Figures of a translator as monitoring gets them: the page itself, and what a real Prometheus makes of it."""

from __future__ import annotations

import json
import shutil
import subprocess

from conftest import ROOT
from network import Network

AT = "[::1]:9464"
METRICS = f'\n[metrics]\nlisten = ["{AT}"]\n'
PROMETHEUS = ROOT / "packaging" / "prometheus"


def curl(net: Network, name: str, *arguments: str) -> subprocess.CompletedProcess:
    return net.run(name, "curl", "--silent", "--show-error", "--max-time", "10", *arguments, check=False)


def scraped(net: Network, name: str, at: str = AT) -> dict[str, float]:
    """Every sample by its name and labels."""
    page = curl(net, name, "--header", "Accept: application/openmetrics-text", f"http://{at}/metrics").stdout
    assert page.endswith("# EOF\n"), page
    lines = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
    return {series: float(value) for series, _, value in lines}


class Prometheus:
    """A Prometheus that runs in the namespace of a translator and asks each second."""

    def __init__(self, net: Network, name: str) -> None:
        self.net = net
        self.name = name
        folder = net.scratch / "prometheus"
        shutil.copytree(PROMETHEUS, folder)
        config = folder / "prometheus.yml"
        config.write_text(config.read_text().replace("scrape_interval: 15s", "scrape_interval: 1s"))
        with (folder / "log").open("w") as log:
            options = (
                f"--config.file={config}",
                f"--storage.tsdb.path={folder}/data",
                "--web.listen-address=127.0.0.1:9090",
            )
            net.start(name, "prometheus", *options, stdout=log, stderr=log)
        net.until(lambda: self.get("query", query="up")["status"] == "success", patience=60)

    def get(self, what: str, **parameters: str) -> dict:
        given = [word for key, value in parameters.items() for word in ("--data-urlencode", f"{key}={value}")]
        done = curl(self.net, self.name, "--get", *given, f"http://127.0.0.1:9090/api/v1/{what}")
        # While it starts, it answers in words.
        return json.loads(done.stdout) if done.stdout.startswith("{") else {"status": "no answer"}

    def query(self, expression: str) -> list[dict]:
        """The series that an expression has now."""
        answer = self.get("query", query=expression)
        assert answer["status"] == "success", (expression, answer)
        return answer["data"]["result"]
