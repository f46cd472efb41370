# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests as a browser makes them, and as somebody makes them who means harm; and the pages that a folder becomes."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import runs

from diolkos_lab.faults import UsageFault
from diolkos_lab.serve import site, trends
from diolkos_lab.serve.http import Server
from diolkos_lab.serve.index import Index

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def pages(folder: Path, pairs: int = 0, reports: int = 0) -> tuple[dict[str, str], list[str]]:
    """The pages of a folder by their paths, and what was said while they were made."""
    made: dict[str, str] = {}
    said: list[str] = []

    def write(name: str, content: bytes) -> None:
        made[name] = content.decode("utf-8", "replace")

    with Index([folder]) as index:
        site.write("Runs", index, pairs, reports, write, said.append)
    return made, said


def keys(text: str) -> dict[str, str]:
    """Folders of runs that have a report, with their keys, of the list."""
    return {place: key for key, place in re.findall(r'href="run/([0-9a-f]{16})/report.html">([^<]*)<', text)}


class Browser:
    def __init__(self, server: Server) -> None:
        self.server = server

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=120)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": f"127.0.0.1:{self.server.server_port}", **headers}.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer.status, text, answer.headers


@pytest.fixture
def browser(tmp_path: Path):
    """Asks a server of a folder with a page, a folder beside it, and what lies outside."""
    folder = tmp_path / "site"
    (folder / "run").mkdir(parents=True)
    (folder / "index.html").write_text("<p>alpha")
    (folder / "run" / "samples.jsonl").write_text("{}")
    (tmp_path / "secret").write_text("SECRET")
    server = Server(folder, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Browser(server)
    server.shutdown()
    server.server_close()


def test_the_list_leads_to_trends_comparisons_and_reports(few: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in few.rglob("*")}
    made, _ = pages(few, pairs=50, reports=20)
    text = made["index.html"]
    assert "6 runs." in text and len(keys(text)) == 6
    addresses = {study: address for address, study in re.findall(r'href="(trend/[^"]+)">([^<]+)<', text)}
    assert set(addresses) == {"small", "another"}
    trend = made[addresses["small"]]
    assert "TCP upload, throughput over the runs" in trend
    assert all(f"<td>{place}</td>" in trend for place in ("alpha/first", "alpha/second", "beta/third", "beta/fourth"))
    known = keys(text)
    compared = made[f"compare/{known['alpha/first']}-{known['beta/fourth']}.html"]
    assert "1 of 2 figures changed by more than chance explains" in compared
    assert "6.12.1" in compared and "6.18.2" in compared, "in what the hosts differ"
    assert all("SYNTHETIC" in made[f"run/{known[place]}/report.html"] for place in ("alpha/first", "stopped"))
    assert {file: file.stat().st_mtime_ns for file in few.rglob("*")} == before, "nothing is written into the folder"


def test_a_report_of_somebody_is_made_anew(few: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(few / "other", tmp_path / "results" / "other"))
    (folder / "report.html").write_text("<script>alert(1)</script>")
    made, _ = pages(folder.parent, reports=1)
    [report] = [text for name, text in made.items() if name.endswith("/report.html")]
    assert "SYNTHETIC" in report and "alert(1)" not in report


def test_a_trend_has_the_newest_runs_and_says_so(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "MOST_RUNS", 2)
    text = pages(few)[0][site.trend_path("small", None)]
    assert "The newest runs are shown; 3 older ones are left out." in text
    assert "<td>beta/fourth</td>" in text and "<td>beta/third</td>" not in text, "`stopped` is the newest, and has no figures"


def test_a_damaged_folder_costs_one_sentence(few: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(few / "alpha", tmp_path / "results"))
    lines = (own / "first" / "samples.jsonl").read_text().splitlines()
    lines[3] = '{"block": "one"}'
    (own / "first" / "samples.jsonl").write_text("\n".join(lines) + "\n")
    made, said = pages(own, pairs=5)
    [sentence] = [each for each in said if each.startswith("No comparison: ")]
    assert sentence.startswith("No comparison: first/samples.jsonl:4:1: block")
    assert not [name for name in made if name.startswith("compare/")] and "compare/" not in made["index.html"]


PATHS = [
    "/../secret",
    "/..%2fsecret",
    "/%2e%2e/secret",
    "/run/../../secret",
    "/run/..%2f..%2fsecret",
    "/run/",
    "/run/%00.svg",
    "//etc/passwd",
    "/etc/passwd",
    "/index.html%0d%0aX:%20y",
    "/%ff%fe",
    "http://elsewhere.example/etc/passwd",
]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_outside_is_served(browser: Browser, path: str) -> None:
    status, text, _ = browser.get(path)
    assert status in (400, 404), text
    assert "SECRET" not in text and "root:x:" not in text and "samples.jsonl" not in text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example:{port}", 421),
        ("127.0.0.1:1", 421),
        ("127.0.0.1.evil.example:{port}", 421),
        ("127.0.0.1", 421),
        ("x@127.0.0.1:{port}", 421),
        ("", 421),
        ("LOCALHOST:{port}", 200),
        ("[::1]:{port}", 200),
    ],
)
def test_only_who_names_this_server_is_answered(browser: Browser, host: str, status: int) -> None:
    found, text, answered = browser.get("/", Host=host.format(port=browser.server.server_port))
    assert found == status
    assert ("alpha" in text) == (status == 200)
    assert not [name for name in answered if name.lower().startswith("access-control")]
    assert answered["X-Content-Type-Options"] == "nosniff" and answered["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in answered["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "<script>"])
def test_other_methods_are_refused(browser: Browser, method: str) -> None:
    status, text, _ = browser.get("/", method)
    assert status == 501 and "<script>" not in text


def test_what_is_long_or_broken_is_refused_and_the_server_goes_on(browser: Browser) -> None:
    assert browser.get("/?" + "q" * 70_000)[0] == 414
    assert browser.get("/?study=small&x=%00")[0] == 200
    assert browser.get("/", X="y" * 70_000)[0] == 431
    for raw in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n"):
        with socket.create_connection(("127.0.0.1", browser.server.server_port), timeout=60) as sent:
            sent.sendall(raw)
            sent.shutdown(socket.SHUT_WR)
            assert b"Traceback" not in b"".join(iter(lambda: sent.recv(4096), b""))
    assert browser.get("/")[0] == 200


def test_connections_that_say_nothing_are_bounded(browser: Browser) -> None:
    """More than are allowed at a time are closed at once; when they end, others have their turn."""
    silent = [socket.create_connection(("127.0.0.1", browser.server.server_port), timeout=60) for _ in range(16)]
    with socket.create_connection(("127.0.0.1", browser.server.server_port), timeout=60) as one_more:
        assert one_more.recv(1) == b"", "closed"
    for each in silent:
        each.shutdown(socket.SHUT_WR)
        assert each.recv(1) == b""  # its thread has ended, or is about to
        each.close()
    for _ in range(1000):
        try:
            assert browser.get("/")[0] == 200
            return
        except (http.client.HTTPException, ConnectionError):
            continue
    pytest.fail("no connection became free")


def test_names_of_folders_and_hosts_are_never_markup(tmp_path: Path) -> None:
    folder = runs.write(
        tmp_path / "results" / "<img src=x onerror=alert(1)>", host=MARKUP, kernel='" onload="x', version=MARKUP
    )
    text = (folder / "summary.json").read_text().replace('"tc"', json.dumps(MARKUP))
    (folder / "summary.json").write_text(text)
    runs.write(tmp_path / "results" / "plain", 2, host=MARKUP)
    for name in ("samples.jsonl", "summary.json"):
        damaged = runs.write(tmp_path / "results" / f"damaged{name}", 3)
        (damaged / name).write_text(json.dumps({"format": MARKUP}) + "\n")
    made, _ = pages(tmp_path / "results", pairs=5)
    assert len(made) >= 4 and any(name.startswith("compare/") for name in made)
    for name, text in made.items():
        assert "<script>alert" not in text and "<img" not in text and ' onload="' not in text, name


def test_an_address_that_cannot_be_used_is_one_sentence(browser: Browser, tmp_path: Path) -> None:
    for host, port, said in (
        ("127.0.0.1", browser.server.server_port, "another program uses this port"),
        ("192.0.2.1", 0, "this machine does not have that address"),
        ("no such host", 0, "there is no such host"),
    ):
        with pytest.raises(UsageFault, match=said):
            Server(tmp_path, host, port)


def test_the_command_ends_cleanly_on_a_signal(few: Path) -> None:
    command = [sys.executable, "-m", "diolkos_lab", "serve", str(few), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as served:
        assert served.stdout is not None
        line = served.stdout.readline()
        found = re.search(r"^6 runs in .*: http://127\.0\.0\.1:(\d+)/ ", line)
        assert found, line
        assert served.stdout.readline() == "All pages are made.\n"
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 200 and b"beta/fourth" in answer.read()
        served.send_signal(signal.SIGINT)
        rest, errors = served.communicate(timeout=60)
    assert (served.returncode, rest, errors) == (0, "Ended.\n", "")


@pytest.mark.parametrize("folder", ["nothing", "file"])
def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "diolkos_lab", "serve", str(tmp_path / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "is not a folder" in done.stderr
