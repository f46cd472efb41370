# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Requests as a browser makes them, and as somebody makes them who means harm."""

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
from diolkos_lab.serve import trends
from diolkos_lab.serve.http import Server
from diolkos_lab.serve.index import Index
from diolkos_lab.serve.site import Site

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


class Browser:
    def __init__(self, server: Server) -> None:
        self.server = server

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": f"127.0.0.1:{self.server.port}", **headers}.items():
            if value:
                connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        connection.close()
        return answer.status, text, answer.headers

    def keys(self) -> dict[str, str]:
        """Folders with the keys of their runs."""
        rows = re.findall(r'<tr data-key="([0-9a-f]{16})".*?class="place"[^>]*>([^<]*)<', self.get("/")[1])
        return {place: key for key, place in rows}


@pytest.fixture
def serve():
    """Serves a folder for the length of a test."""
    ends = []

    def begin(folder: Path) -> Browser:
        index = Index([folder])
        server = Server(Site(f"Runs in {folder.name}", index), "127.0.0.1", 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ends.append((server, index))
        return Browser(server)

    yield begin
    for server, index in ends:
        server.shutdown()
        server.server_close()
        index.__exit__()


@pytest.fixture
def own(few: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(few, tmp_path / "results"))


def test_the_list_leads_to_trends_comparisons_and_reports(serve, few: Path) -> None:
    before = sorted(str(file) for file in few.rglob("*"))
    browser = serve(few)
    status, text, headers = browser.get("/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert "6 runs." in text and text.count("data-key=") == 6
    addresses = {study: address for address, study in re.findall(r'class="trend" href="([^"]+)">([^<]+)<', text)}
    assert set(addresses) == {"small", "another"}
    status, text, _ = browser.get(f"/{addresses['small']}")
    assert status == 200 and "TCP upload, throughput over the runs" in text
    assert all(f"<td>{place}</td>" in text for place in ("alpha/first", "alpha/second", "beta/third", "beta/fourth"))
    keys = browser.keys()
    status, text, _ = browser.get(f"/compare/{keys['alpha/first']}-{keys['beta/fourth']}.html")
    assert status == 200 and "1 of 2 figures changed by more than chance explains" in text
    assert "6.12.1" in text and "6.18.2" in text, "in what the hosts differ"
    for place in ("alpha/first", "stopped"):
        status, text, headers = browser.get(f"/run/{keys[place]}/report.html")
        assert status == 200 and "SYNTHETIC" in text
        assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts"), "anybody may have made the folder"
    assert sorted(str(file) for file in few.rglob("*")) == before, "nothing is written into the folder"


def test_a_trend_has_the_newest_runs_and_says_so(serve, few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "MOST_RUNS", 2)
    browser = serve(few)
    [address] = re.findall(r'class="trend" href="([^"]+)">small<', browser.get("/")[1])
    text = browser.get(f"/{address}")[1]
    assert "The newest runs are shown; 3 older ones are left out." in text
    assert "<td>beta/fourth</td>" in text and "<td>beta/third</td>" not in text, "`stopped` is the newest, and has no figures"


def test_a_report_that_is_there_is_served_with_what_it_links_to(serve, own: Path) -> None:
    folder = own / "other"
    (folder / "report.html").write_text("<p>made before")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "a.pdf").write_text("pdf")
    browser = serve(own)
    key = browser.keys()["other"]
    assert browser.get(f"/run/{key}/report.html")[1] == "<p>made before"
    status, text, headers = browser.get(f"/run/{key}/pictures/a.pdf")
    assert (status, text, headers["Content-Type"]) == (200, "pdf", "application/pdf")
    assert browser.get(f"/run/{key}/samples.jsonl")[1] == (folder / "samples.jsonl").read_text()


def test_runs_of_two_studies_are_one_sentence(serve, few: Path) -> None:
    browser = serve(few)
    keys = browser.keys()
    status, text, _ = browser.get(f"/compare/{keys['alpha/first']}-{keys['other']}.html")
    assert status == 422
    assert "alpha/first holds the study small, other the study another: they cannot be compared." in text
    status, text, _ = browser.get(f"/compare/{keys['other']}-{keys['other']}.html")
    assert status == 422 and "other is compared with itself" in text


def test_a_damaged_folder_costs_one_sentence(serve, own: Path) -> None:
    lines = (own / "alpha" / "first" / "samples.jsonl").read_text().splitlines()
    lines[3] = '{"block": "one"}'
    (own / "alpha" / "first" / "samples.jsonl").write_text("\n".join(lines) + "\n")
    browser = serve(own)
    keys = browser.keys()
    status, text, _ = browser.get(f"/compare/{keys['alpha/first']}-{keys['alpha/second']}.html")
    assert status == 422
    [sentence] = re.findall(r'<p id="sentence">(.*?)</p>', text)
    assert sentence.startswith("alpha/first/samples.jsonl:4:1: block")


PATHS = [
    "/../outside/secret",
    "/..%2foutside%2fsecret",
    "/%2e%2e/outside/secret",
    "/run/{key}/../../../outside/secret",
    "/run/{key}/..%2f..%2f..%2foutside%2fsecret",
    "/run/{key}/pictures/..%2f..%2f..%2foutside%2fsecret.csv",
    "/run/{key}/pictures/link.csv",
    "/run/{key}/tables/secret.csv",
    "/run/{key}/host.json",
    "/run/{key}/study.toml",
    "/run/{key}/pictures/",
    "/run/{key}/pictures/%00.svg",
    "/run/0000000000000000/report.html",
    "/compare/{key}-0000000000000000.html",
    "/trend/0000000000000000.html",
    "/trend/0000000000000000-0000000000000000.html",
    "//etc/passwd",
    "/etc/passwd",
    "/index.html%0d%0aX:%20y",
    "/%ff%fe",
    "http://elsewhere.example/etc/passwd",
]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_outside_is_served(serve, own: Path, path: str) -> None:
    outside = own.parent / "outside"
    outside.mkdir()
    for name in ("secret", "secret.csv"):
        (outside / name).write_text("SECRET")
    folder = own / "other"
    (folder / "report.html").write_text("<p>made before")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "link.csv").symlink_to(outside / "secret.csv")
    (folder / "tables").symlink_to(outside)
    browser = serve(own)
    status, text, _ = browser.get(path.format(key=browser.keys()["other"]))
    assert status in (404, 422), text
    assert "SECRET" not in text and "root:x:" not in text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "x@127.0.0.1:{port}"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "LOCALHOST:{port}"}, 200),
        ({"Host": "[::1]:{port}"}, 200),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 200),
        ({"Sec_Fetch_Site": "none", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 200),
        ({"Origin": "http://evil.example"}, 200),
    ],
)
def test_only_this_sites_own_pages_and_people_are_answered(serve, few: Path, headers: dict[str, str], status: int) -> None:
    browser = serve(few)
    sent = {name: value.format(port=browser.server.port) for name, value in headers.items()}
    found, text, answered = browser.get("/", **sent)
    assert found == status
    assert ("alpha" in text) == (status == 200)
    assert not [name for name in answered if name.lower().startswith("access-control")]
    assert answered["X-Content-Type-Options"] == "nosniff" and answered["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in answered["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "<script>"])
def test_other_methods_are_refused(serve, few: Path, method: str) -> None:
    status, text, headers = serve(few).get("/", method)
    assert status == 405 and "script" not in text and headers["Content-Type"].startswith("text/plain")


def test_what_is_long_or_broken_is_refused_and_the_server_goes_on(serve, few: Path) -> None:
    browser = serve(few)
    assert browser.get("/?" + "q" * 2000)[0] == 414
    assert browser.get("/?" + "q" * 70_000)[0] == 414
    assert browser.get("/?study=small&x=%00")[0] == 200
    assert browser.get("/", X="y" * 70_000)[0] == 431
    for raw in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n"):
        with socket.create_connection(("127.0.0.1", browser.server.port), timeout=60) as sent:
            sent.sendall(raw)
            sent.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: sent.recv(4096), b""))
            assert b"Traceback" not in answer and b"<" not in answer
    assert browser.get("/")[0] == 200


def test_connections_that_say_nothing_are_bounded(serve, few: Path) -> None:
    """More than are allowed at a time are closed at once; when they end, others have their turn."""
    browser = serve(few)
    silent = [socket.create_connection(("127.0.0.1", browser.server.port), timeout=60) for _ in range(16)]
    with socket.create_connection(("127.0.0.1", browser.server.port), timeout=60) as one_more:
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


def test_names_of_folders_and_hosts_are_never_markup(serve, tmp_path: Path) -> None:
    folder = runs.write(
        tmp_path / "results" / "<img src=x onerror=alert(1)>", host=MARKUP, kernel='" onload="x', version=MARKUP
    )
    text = (folder / "summary.json").read_text().replace('"tc"', json.dumps(MARKUP))
    (folder / "summary.json").write_text(text)
    runs.write(tmp_path / "results" / "plain", 2, host=MARKUP)
    for name in ("samples.jsonl", "summary.json"):
        damaged = runs.write(tmp_path / "results" / f"damaged{name}", 3)
        (damaged / name).write_text(json.dumps({"format": MARKUP}) + "\n")
    browser = serve(tmp_path / "results")
    keys = re.findall(r'data-key="([0-9a-f]+)"', browser.get("/")[1])
    trend = re.findall(r'class="trend" href="([^"]+)"', browser.get("/")[1])
    paths = ["/", *(f"/{each}" for each in trend), *(f"/compare/{keys[0]}-{each}.html" for each in keys[1:])]
    assert len(paths) >= 5
    for path in paths:
        text = browser.get(path)[1]
        assert "<script>alert" not in text and "<img" not in text and ' onload="' not in text, path


def test_an_address_that_cannot_be_used_is_one_sentence(serve, few: Path) -> None:
    browser = serve(few)
    with Index([few]) as index:
        for host, port, said in (
            ("127.0.0.1", browser.server.port, "another program uses this port"),
            ("192.0.2.1", 0, "this machine does not have that address"),
            ("no such host", 0, "there is no such host"),
        ):
            with pytest.raises(UsageFault, match=said):
                Server(Site("", index), host, port)


def test_the_command_ends_cleanly_on_a_signal(few: Path) -> None:
    command = [sys.executable, "-m", "diolkos_lab", "serve", str(few), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as served:
        assert served.stdout is not None
        line = served.stdout.readline()
        found = re.search(r"^6 runs in .*: http://127\.0\.0\.1:(\d+)/ ", line)
        assert found, line
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        served.send_signal(signal.SIGINT)
        rest, errors = served.communicate(timeout=60)
    assert (served.returncode, rest, errors) == (0, "Ended.\n", "")


@pytest.mark.parametrize("folder", ["nothing", "file"])
def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "diolkos_lab", "serve", str(tmp_path / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "is not a folder" in done.stderr
