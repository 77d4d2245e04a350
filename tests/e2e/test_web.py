"""The page as it is served: its files, who is let in, and what is watched."""
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import time

import pytest

import agents
import harness
import patience
import querying
from nodes import Node
from ranks import free_port

pytestmark = pytest.mark.skipif("built without the page" in harness.probing("web").stderr,
                                reason="built with WEB=OFF")
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ADDRESS = r"http://(127\.0\.0\.1:\d+)/#/(\w*)\?(?:p=([^&]*)&?)?(?:ticket=([0-9a-f]{64}))?\n"


class Served:
    """A node with a page, and two processes, one of them with a port of its own."""

    def __init__(self, interpreter, folder):
        self.folder = folder
        self.node = Node(folder)
        self.jobs = [agents.Probed(interpreter), agents.Probed(interpreter)]
        self.one, self.two = (job.pid for job in self.jobs)
        self.port_of_one = free_port()
        try:
            self.at, self.ticket = self.web()
            self.text(self.one, "inject", "-l", "127.0.0.1:%d" % self.port_of_one)
            self.text(self.two, "inject")
        except BaseException:
            self.stop()
            raise
        self.token = self.text("token").strip()

    def text(self, *words):
        answer = self.node(*words)
        assert answer.returncode == 0, answer
        return answer.stdout

    def web(self, *words):
        """(address, ticket) of `probing web`."""
        answer = self.node("web", "--no-browser", *words)
        found = re.fullmatch(ADDRESS, answer.stdout)
        assert answer.returncode == 0 and found, answer
        return found.group(1), found.group(4)

    def ask(self, method, path, body=None, at=None, raw=False, **headers):
        """(status, headers, text)"""
        it = http.client.HTTPConnection(at or self.at, timeout=30)
        headers = {name.replace("_", "-"): value for name, value in headers.items()
                   if value is not None}
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = json.dumps(body)
        it.request(method, path, body, headers)
        answer = it.getresponse()
        data = answer.read()
        it.close()
        return answer.status, answer.headers, data if raw else data.decode()

    def sign_in(self, secret, kind="Ticket", at=None):
        """Headers of a browser that has signed in."""
        status, headers, text = self.ask("POST", "/api/session", {}, at,
                                         Authorization="%s %s" % (kind, secret))
        assert status == 200, text
        cookie = headers["Set-Cookie"]
        assert re.fullmatch(r"probing-\w{12}=[\w.]+; Max-Age=604800; HttpOnly; SameSite=Strict",
                            cookie)
        return {"Cookie": cookie.split(";")[0], "X-Probing-Page": json.loads(text)["page"]}

    def stop(self):
        self.node.stop()
        for job in self.jobs:
            job.stop()
            querying.forget(job.pid)


@pytest.fixture(scope="module")
def served(any_py, tmp_path_factory):
    it = Served(any_py, tmp_path_factory.mktemp("web"))
    yield it
    it.stop()


@pytest.fixture(scope="module")
def signed(served):
    return served.sign_in(served.web()[1])


def session(served, at=None, **headers):
    return json.loads(served.ask("GET", "/api/session", at=at, **headers)[2])


def test_the_page_and_its_files(served):
    status, headers, data = served.ask("GET", "/", raw=True, **HTML)
    page = gzip.decompress(data).decode()
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert "Cross-Origin-Opener-Policy" not in headers and headers["Vary"] == "Accept"
    status, again, data = served.ask("GET", "/", raw=True, If_None_Match=headers["ETag"], **HTML)
    assert (status, data) == (304, b"")
    names = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(names) >= 3 and not [name for name in names if name.startswith(("/", "http"))]
    for name in names:
        status, headers, data = served.ask("GET", "/" + name, raw=True)
        assert status == 200 and "immutable" in headers["Cache-Control"], name
        assert headers["Content-Encoding"] == "gzip" and gzip.decompress(data)
    assert served.ask("GET", "/assets/page-00000000.js")[0] == 404
    assert served.ask("GET", "/assets/../api/query")[0] == 404


def test_curl_gets_a_list(served):
    status, headers, text = served.ask("GET", "/", Accept="*/*")
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    assert "POST /api/query" in text


def test_a_ticket_is_good_once(served):
    at, ticket = served.web()
    assert at == served.at  # the address that is there already, whichever it is
    before = session(served)
    assert before["signed_in"] is False and before["asks_for_token"] is True
    assert set(before) == {"signed_in", "asks_for_token", "version"}
    halves = served.sign_in(ticket)
    after = session(served, **halves)
    assert (after["signed_in"], after["scope"], after["reach"]) == (True, "control", None)
    status, _, text = served.ask("POST", "/api/session", {}, Authorization="Ticket " + ticket)
    assert status == 401 and "probing web" in text
    status, _, text = served.ask("POST", "/api/query", {"sql": "SELECT 1 AS x"},
                                 Authorization="Ticket " + served.web()[1])
    assert status == 401


def test_both_halves_are_needed(served, signed):
    def ask(**headers):
        return served.ask("POST", "/api/query", {"sql": "SELECT 41 + 1 AS x"}, **headers)
    assert json.loads(ask(**signed)[2]) == [{"x": 42}]
    page, cookie = signed["X-Probing-Page"], signed["Cookie"]
    turned = page[:-1] + ("0" if page[-1] != "0" else "1")
    for headers in ({"Cookie": cookie}, {"X-Probing-Page": page}, {},
                    {"Cookie": cookie, "X-Probing-Page": turned},
                    {"Cookie": cookie[:-1], "X-Probing-Page": page},
                    {"Cookie": cookie, "X-Probing-Page": cookie.rsplit(".", 1)[1]}):
        assert ask(**headers)[0] == 401, headers


def test_a_scope_can_be_less(served):
    halves = served.sign_in(served.web("--scope", "read")[1])
    assert session(served, **halves)["scope"] == "read"
    body = {"target": served.one, "code": "1 + 1"}
    assert served.ask("POST", "/api/eval", body, **halves)[0] == 403
    assert served.ask("POST", "/api/config", {"set": {"serve.idle": 100}}, **halves)[0] == 403
    rows = json.loads(served.ask("POST", "/api/query", {
        "sql": "SELECT locals FROM python.backtrace", "target": served.one}, **halves)[2])
    assert rows and not any(row["locals"] for row in rows)


def test_what_a_browser_of_another_site_gets(served, signed):
    """Host and Origin are looked at for every method and route."""
    host = served.at
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
        for path in ("/", "/health", "/api/session", "/api/query", "/api/eval", "/api/config",
                     "/assets/x", "/nowhere"):
            for bad in ({"Origin": "http://evil.example"}, {"Origin": "null"},
                        {"Origin": "http://%s.evil.example" % host},
                        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                        {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example"}):
                status, headers, _ = served.ask(method, path, **dict(signed, **bad))
                assert status == 403, (method, path, bad, status)
                assert not [name for name in headers if name.startswith("Access-Control")]


def test_a_link_elsewhere_leads_to_the_page_and_to_nothing_else(served):
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate",
             "Sec-Fetch-Dest": "document"}
    assert served.ask("GET", "/", raw=True, **dict(HTML, **visit))[0] == 200
    assert served.ask("GET", "/api/session", **visit)[0] == 403
    assert served.ask("GET", "/", **dict(visit, **{"Sec-Fetch-Dest": "iframe"}))[0] == 403


def test_behind_a_proxy_that_speaks_tls(served):
    origin = "https://" + served.at
    status, headers, _ = served.ask("POST", "/api/session", {}, Origin=origin,
                                    Authorization="Bearer " + served.token)
    assert status == 200 and headers["Set-Cookie"].endswith("; Secure")


def test_the_port_of_a_process_shows_that_process(served):
    at = "127.0.0.1:%d" % served.port_of_one
    assert served.ask("GET", "/", at=at, raw=True, **HTML)[0] == 200
    halves = served.sign_in(served.token, "Bearer", at)
    assert session(served, at, **halves)["reach"].startswith("%d-" % served.one)
    rows = json.loads(served.ask("POST", "/api/query", {"sql": "SELECT pid FROM python.threads"},
                                 at, **halves)[2])
    assert {row["pid"] for row in rows} == {served.one}
    status, _, text = served.ask("POST", "/api/query", {
        "sql": "SELECT pid FROM python.threads", "target": served.two}, at, **halves)
    assert status == 403
    # A session is for the host and port it was made at.
    assert session(served, **halves)["signed_in"] is False


def test_sessions_end_with_their_token(served):
    made = served.text("token", "new", "--scope", "look", "--name", "guest").strip()
    halves = served.sign_in(made, "Bearer")
    assert session(served, **halves)["token"] == "guest"
    served.text("token", "revoke", "guest")
    patience.until(lambda: session(served, **halves)["signed_in"] is False)


def test_wrong_tokens_are_written_down(served):
    assert served.ask("POST", "/api/session", {}, Authorization="Bearer wrong-token")[0] == 401
    rows = served.node.rows("SELECT result, detail FROM probing.audit WHERE action = 'login' "
                            "ORDER BY timestamp")
    assert rows[-1]["result"] == "refused" and "POST /api/session" in rows[-1]["detail"]
    assert any(row["result"] == "ok" for row in rows)


def events(served, body, seconds, signed):
    """(event, data) of a stream in that time."""
    it = http.client.HTTPConnection(served.at, timeout=30)
    it.request("POST", "/api/stream", json.dumps(body),
               dict(signed, **{"Content-Type": "application/json"}))
    answer = it.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    found, end, text = [], time.monotonic() + seconds, b""
    while time.monotonic() < end:
        text += answer.read1(65536)
        while b"\n\n" in text:
            one, text = text.split(b"\n\n", 1)
            lines = dict(line.split(": ", 1) for line in one.decode().split("\n"))
            if "event" in lines:
                found.append((lines["event"], json.loads(lines["data"])))
    it.close()
    return found


def test_a_stream_sends_what_is_new(served, signed):
    def rows():
        return served.node.rows("SELECT count(*) AS n FROM python.memory",
                                target=served.one)[0]["n"]
    patience.until(lambda: rows() >= 2)
    found = events(served, {"queries": [
        {"id": "grows", "target": str(served.one), "every": 0.5, "span": 60, "bucket": 1, "sql":
         "SELECT epoch_ms(timestamp) AS t, rss_mb FROM python.memory WHERE timestamp >= $from"},
        {"id": "same", "sql": "SELECT 42 AS x", "every": 0.2},
        {"id": "wrong", "sql": "SELECT nothing FROM python.memory", "every": 0.2},
    ]}, 4, signed)
    grows = [data for event, data in found if event == "rows" and data["id"] == "grows"]
    assert len(grows) >= 2 and [c["name"] for c in grows[0]["columns"]] == ["t", "rss_mb"]
    assert grows[0]["at"] - grows[0]["from"] == pytest.approx(60000, abs=2000)
    # Later ones overlap by ten seconds, rounded down to whole ones.
    assert 10000 <= grows[-1]["at"] - grows[-1]["from"] <= 20000
    assert grows[-1]["from"] % 1000 == 0
    for data in grows:
        assert data["rows"] and all(row[0] >= data["from"] for row in data["rows"])
    # What does not change, and what fails, is told once.
    assert [d["rows"] for e, d in found if e == "rows" and d["id"] == "same"] == [[[42]]]
    failed = [data for event, data in found if event == "failed"]
    assert len(failed) == 1 and "nothing" in failed[0]["error"]["message"]


def test_a_stream_is_for_who_may_ask(served, signed):
    body = {"queries": [{"id": "a", "sql": "SELECT 1"}]}
    assert served.ask("POST", "/api/stream", body)[0] == 401
    for wrong in ({}, {"queries": []}, {"queries": [{"sql": "SELECT 1"}]},
                  {"queries": [{"id": "a", "sql": "SELECT 1", "every": 0}]},
                  {"queries": [{"id": "a", "sql": "SELECT 1"}] * 33}):
        status, _, text = served.ask("POST", "/api/stream", wrong, **signed)
        assert status == 400 and json.loads(text)["error"]["code"] == "usage", wrong


def test_a_port_that_is_taken(served):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        answer = served.node("web", "--no-browser", "--port", other.getsockname()[1])
        assert answer.returncode == 1 and "in use" in answer.stderr


def test_a_target_is_shown_first(served):
    for words in ([served.one, "web"], ["web", served.one]):
        found = re.fullmatch(ADDRESS, served.node(*words, "--no-browser").stdout)
        assert found and found.group(2, 3) == ("process", str(served.one))


def page_of(process):
    """(address, ticket) that a command which stays prints."""
    found = re.fullmatch(ADDRESS, process.stdout.readline())
    assert found
    return found.group(1), found.group(4)


def finish(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    process.stdout.close()
    process.stderr.close()


def test_the_page_of_a_node_elsewhere(served):
    port = free_port()
    served.text("serve", "--listen", "127.0.0.1:%d" % port)
    process = served.node.start("127.0.0.1:%d" % port, "web", "--no-browser", "--port", free_port())
    try:
        at, ticket = page_of(process)
        assert at != "127.0.0.1:%d" % port
        # Whoever else comes to that port brings nothing along, though the command has a token.
        assert session(served, at)["signed_in"] is False
        assert served.ask("POST", "/api/query", {"sql": "SELECT 1"}, at)[0] == 401
        halves = served.sign_in(ticket, at=at)
        assert session(served, at, **halves)["scope"] == "control"
        assert served.ask("POST", "/api/query", {"sql": "SELECT 1"}, at)[0] == 401
        big = json.loads(served.ask("POST", "/api/query", {
            "sql": "SELECT i, repeat('x', 100) AS t FROM range(20000) AS r(i)"}, at, **halves)[2])
        assert len(big) == 20000 and big[-1]["i"] == 19999
        assert served.ask("GET", "/", at=at, raw=True, **HTML)[0] == 200
    finally:
        finish(process)


def test_a_rank_that_a_program_gave_itself(served, signed, any_py):
    """Not in the environment that it began with: its agent knows it."""
    job = agents.Probed(any_py)
    try:
        served.text(job.pid, "eval", "import os\nos.environ.update(RANK='3', WORLD_SIZE='8')")
        served.text(job.pid, "eject")
        served.text(job.pid, "inject")

        def ranked():
            told = json.loads(served.ask("GET", "/api/processes", **signed)[2])
            return [(one["rank"], one["world_size"]) for one in told if one["pid"] == job.pid]
        patience.until(lambda: ranked() == [(3, 8)])
    finally:
        job.stop()
        querying.forget(job.pid)


def test_the_page_of_a_copied_folder(served, any_py, tmp_path):
    job = agents.Probed(any_py)
    served.text(job.pid, "inject")
    patience.until(lambda: served.node.rows("SELECT * FROM python.memory", target=job.pid))
    store = "/dev/shm/probing-%d/%s" % (os.getuid(), os.path.basename(job.home()))
    shutil.copytree(store, os.path.join(str(tmp_path), os.path.basename(store)),
                    ignore=shutil.ignore_patterns("control"))
    job.stop()
    process = served.node.start("--store", str(tmp_path), "web", "--no-browser", "--port",
                                free_port())
    try:
        at, ticket = page_of(process)
        halves = served.sign_in(ticket, at=at)
        assert session(served, at, **halves)["store"] == str(tmp_path)
        rows = json.loads(served.ask("POST", "/api/query", {
            "sql": "SELECT DISTINCT pid FROM python.memory"}, at, **halves)[2])
        assert rows == [{"pid": job.pid}]
        listed = json.loads(served.ask("GET", "/api/processes?dead=1", None, at, **halves)[2])
        assert [(one["pid"], one["live"]) for one in listed] == [(job.pid, False)]
    finally:
        finish(process)
        querying.forget(job.pid)
