"""What a node answers over HTTP, on its Unix socket: every route, and every way to go wrong."""
import http.client
import json
import os
import re
import socket
import subprocess
import time

import pytest

import agents
import harness
import patience
import querying

OPENAPI = os.path.join(harness.ROOT, "docs", "openapi.json")


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


class Served:
    """A node and a process with an agent."""

    def __init__(self, interpreter, folder):
        self.node = querying.Node(folder)
        self.job = None
        try:
            line = self.node.text("serve")
            self.socket = re.search(r" on (\S+?)(,|$)", line.strip()).group(1)
            self.job = agents.Probed(interpreter)
            self.pid = self.job.pid
            self.node.text(self.pid, "inject")
        except BaseException:
            self.stop()
            raise

    def ask(self, method, path, body=None, **headers):
        """(status, headers, text)"""
        it = Connection(self.socket)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        it.request(method, path, body, headers)
        answer = it.getresponse()
        text = answer.read().decode()
        it.close()
        return answer.status, answer.headers, text

    def get(self, path):
        status, _, text = self.ask("GET", path)
        assert status == 200, text
        return text

    def post(self, path, **body):
        status, _, text = self.ask("POST", path, body)
        assert status == 200, text
        return text

    def error(self, method, path, body=None):
        """(status, error object); it must be one of the documented shape."""
        status, headers, text = self.ask(method, path, body)
        assert status >= 400 and headers["Content-Type"] == "application/json", text
        error = json.loads(text)["error"]
        assert set(error) == {"code", "message", "at", "nearest"}
        assert "\n" not in error["message"]
        return status, error

    def stop(self):
        self.node.stop()
        if self.job:
            self.job.stop()


@pytest.fixture(scope="module")
def served(any_py, tmp_path_factory):
    it = Served(any_py, tmp_path_factory.mktemp("http"))
    yield it
    it.stop()


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_health(served):
    facts = json.loads(served.get("/health"))
    assert facts["status"] == "ok" and facts["uptime_s"] >= 0
    assert facts["version"] == harness.probing("version").stdout.split()[1]
    assert os.path.exists("/proc/%d" % facts["pid"])


def test_openapi_lists_the_routes(served):
    page = re.findall(r"^  (GET|POST) +(\S+)", served.get("/"), re.M)
    with open(OPENAPI) as file:
        paths = json.load(file)["paths"]
    said = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    assert sorted(page) == sorted(said)
    with open(os.path.join(harness.ROOT, "docs", "http.md")) as file:
        text = file.read()
    assert not [path for _, path in page if "`%s`" % path not in text]


def test_query_formats(served):
    sql = "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL ORDER BY a"
    assert json.loads(served.post("/api/query", sql=sql)) == [{"a": 1, "b": "x"},
                                                              {"a": 2, "b": None}]
    assert lines(served.post("/api/query", sql=sql, format="ndjson")) == [
        {"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert served.post("/api/query", sql=sql, format="csv").split() == ["a,b", "1,x", "2,"]
    rows = lines(served.post("/api/query", sql=sql, format="rows"))
    assert [column["name"] for column in rows[0]["columns"]] == ["a", "b"]
    assert rows[1:3] == [[1, "x"], [2, None]]
    assert rows[3]["done"]["rows"] == 2 and not rows[3]["done"]["truncated"]
    status, headers, text = served.ask("POST", "/api/query", {"sql": sql, "max_rows": 1})
    assert (status, headers["X-Probing-Rows"], headers["X-Probing-Truncated"]) == (
        200, "1", "true"), text


def test_query_target(served):
    found = json.loads(served.post("/api/query", target=served.pid,
                                   sql="SELECT DISTINCT pid FROM python.threads"))
    assert found == [{"pid": served.pid}]
    status, error = served.error("POST", "/api/query", {"sql": "SELECT 1", "target": "4194999"})
    assert (status, error["code"]) == (404, "no_target")


def test_query_streams(served):
    """A long answer comes in chunks and is whole."""
    status, headers, text = served.ask("POST", "/api/query", {
        "sql": "SELECT range AS n FROM range(200000)", "format": "ndjson"})
    assert status == 200 and headers["Transfer-Encoding"] == "chunked"
    assert text.count("\n") == 200000 and text.endswith('{"n":199999}\n')


def test_query_errors(served):
    sql = "SELECT modul FROM (SELECT 1 AS module)"
    status, error = served.error("POST", "/api/query", {"sql": sql})
    assert (status, error["code"], error["at"]) == (400, "failed", sql.index("modul"))
    assert "modul" in error["message"]
    for body in ({}, {"sql": 7}, {"sql": "SELECT 1", "format": "xml"},
                 {"sql": "SELECT 1", "timeout": -1}, "[]", "{", ""):
        assert served.error("POST", "/api/query", body)[0] == 400
    status, error = served.error("POST", "/api/query", {
        "sql": "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b",
        "timeout": 0.2})
    assert (status, error["code"]) == (504, "timeout")


def test_error_behind_the_first_byte(served):
    """What fails late is not taken for whole: a last line says so, or the stream breaks off."""
    sql = "SELECT CASE WHEN range < 900000 THEN range ELSE error('late') END AS n " \
          "FROM range(1000000)"
    answer = served.ask("POST", "/api/query", {"sql": sql, "format": "rows"})[2]
    assert "late" in json.loads(answer.splitlines()[-1])["error"]["message"]
    it = Connection(served.socket)
    it.request("POST", "/api/query", json.dumps({"sql": sql, "format": "csv"}),
               {"Content-Type": "application/json"})
    answer = it.getresponse()
    assert answer.status == 200
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    it.close()


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "table"])
def test_reason_arrives_behind_the_first_byte(served, form):
    """Also over TCP and with a reader who is slow to take what was sent."""
    sql = "SELECT CASE WHEN range < 900000 THEN range ELSE error('too late') END AS n " \
          "FROM range(1000000)"
    slow = subprocess.Popen([harness.BIN, "query", "--limit", "0", "-f", form, sql],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=dict(harness.ENV, **served.node.env), encoding="utf-8")
    time.sleep(0.5)
    _, err = slow.communicate(timeout=60)
    assert (slow.returncode, err.splitlines()[0]) == (1, "probing: too late")


def test_query_is_cancelled(served):
    """A client that goes away takes its query with it."""
    it = Connection(served.socket)
    it.request("POST", "/api/query", json.dumps({
        "sql": "SELECT sum(a.range * b.range) FROM range(10000000) a, range(1000000) b"}),
        {"Content-Type": "application/json"})
    time.sleep(0.3)
    it.close()
    pid = json.loads(served.get("/health"))["pid"]

    def ticks():
        with open("/proc/%d/stat" % pid) as file:
            words = file.read().rpartition(")")[2].split()
        return int(words[11]) + int(words[12])

    def calm():
        before = ticks()
        time.sleep(0.2)
        return ticks() - before < 10
    patience.until(calm)


def test_eval(served):
    answer = lines(served.post("/api/eval", target=served.pid, code="print('é' * 3); loss"))
    assert "".join(line.get("out", "") for line in answer) == "ééé\n0.0234\n"
    assert answer[-1] == {"done": {"result": "ok", "why": ""}}
    answer = lines(served.post("/api/eval", target=str(served.pid), code="1/0"))
    assert "ZeroDivisionError" in "".join(line.get("err", "") for line in answer)
    assert answer[-1]["done"]["result"] == "exception"
    answer = lines(served.post("/api/eval", target=served.pid, code="secret", frame=0))
    assert answer[0] == {"out": "42\n"}
    answer = lines(served.post("/api/eval", target=served.pid, timeout=0.2,
                               code="import time\nwhile True: time.sleep(0.01)"))
    assert answer[-1]["done"]["result"] == "expired"
    assert served.error("POST", "/api/eval", {"code": "1"})[1]["code"] == "usage"
    assert served.error("POST", "/api/eval", {"target": served.pid})[0] == 400


def test_eval_ends_with_its_client(served):
    it = Connection(served.socket)
    it.request("POST", "/api/eval", json.dumps({
        "target": served.pid, "timeout": 60,
        "code": "import time\nprint('on')\ntry:\n  while True: time.sleep(0.01)\n"
                "finally: left = 'it'"}), {"Content-Type": "application/json"})
    answer = it.getresponse()
    assert json.loads(answer.readline()) == {"out": "on\n"}
    answer.close()
    it.close()
    patience.until(lambda: served.job.eval("left").stdout == "'it'\n")


def test_backtrace(served):
    text = served.get("/api/backtrace?target=%d&all=1&locals=1" % served.pid)
    assert json.loads(text)["pid"] == served.pid
    text = served.get("/api/backtrace?target=%d&format=text&locals=1" % served.pid)
    assert text.startswith("Thread %d" % served.pid) and "secret = 42" in text
    text = served.get("/api/backtrace?target=%d&format=text&subprocesses=1" % served.pid)
    assert text.startswith("Process %d · Python " % served.pid) and "Thread %d" % served.pid in text
    text = served.get("/api/backtrace?target=%d&subprocesses=1" % served.pid)
    assert json.loads(text.splitlines()[0])["parent"] is None
    assert served.error("GET", "/api/backtrace")[1]["code"] == "usage"
    assert served.error("GET", "/api/backtrace?target=4194999")[0] == 404
    assert served.error("GET", "/api/backtrace?target=%d&limit=x" % served.pid)[0] == 400
    assert served.error("GET", "/api/backtrace?target=%d&format=x" % served.pid)[0] == 400
    # A typo must not stop the whole process.
    error = served.error("GET", "/api/backtrace?target=%d&pause=non" % served.pid)
    assert error[0] == 400 and "one, never, all" in error[1]["message"]


def test_processes(served):
    found = {item["pid"]: item for item in json.loads(served.get("/api/processes"))}
    assert found[served.pid]["probed"] and found[served.pid]["live"]
    assert "probed.py" in found[served.pid]["command"]
    assert isinstance(json.loads(served.get("/api/processes?dead=1")), list)


def test_config(served):
    def value(text, name):
        return {item["name"]: item["value"] for item in json.loads(text)["settings"]}[name]

    path = "/api/config?target=%d" % served.pid
    answer = served.post("/api/config", target=served.pid, set={"eval.timeout": 17})
    assert value(answer, "eval.timeout") == "17"
    assert value(served.get(path), "eval.timeout") == "17"
    assert len(json.loads(served.get(path + "&key=eval.timeout"))["settings"]) == 1
    assert json.loads(served.get("/api/config"))["of"] == "node"
    for wrong in ({"eval.timeout": -1}, {"eval.timeot": 5}, {"eval.timeout": None}, {}, None):
        status, error = served.error("POST", "/api/config", {"target": served.pid, "set": wrong})
        assert status == 400, error
    served.error("POST", "/api/config", {"target": served.pid,
                                         "set": {"eval.timeout": 5, "eval.timeot": 5}})
    assert value(served.get(path), "eval.timeout") == "17"


def test_agent_tunnel(served):
    it = socket.socket(socket.AF_UNIX)
    it.settimeout(10)
    it.connect(served.socket)
    body = b'{"target": %d}' % served.pid
    it.sendall(b"POST /api/agent HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
               b"Upgrade: probing-agent\r\nContent-Type: application/json\r\n"
               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += it.recv(1)
    assert head.startswith(b"HTTP/1.1 101 ")
    wire = agents.Wire.__new__(agents.Wire)
    wire.socket = it
    kind, _, hello = wire.read()
    assert kind == agents.HELLO and b"pid=%d" % served.pid in hello
    wire.eval("6 * 7", number=9)
    assert wire.answer(9)[:2] == (0, b"42\n")
    wire.close()
    assert served.error("POST", "/api/agent", {"target": served.pid})[0] == 400
    assert served.error("GET", "/api/agent?target=%d&inject=1" % served.pid)[0] == 405


def test_wrong_ways(served):
    status, error = served.error("GET", "/api/quer")
    assert status == 404 and "/api/query" in error["message"]
    status, headers, _ = served.ask("GET", "/api/query")
    assert (status, headers["Allow"]) == (405, "POST")
    status, headers, _ = served.ask("PUT", "/api/config")
    assert (status, headers["Allow"]) == (405, "GET, HEAD, POST")
    assert served.ask("POST", "/api/query", "{}", **{"Content-Type": "text/plain"})[0] == 415
    assert served.ask("HEAD", "/health")[2] == ""
    assert served.ask("GET", "/" + "x" * 20000)[0] == 414
    assert served.ask("GET", "/health", None, **{"X-Long": "y" * 17000})[0] == 431


def test_keep_alive(served):
    it = Connection(served.socket)
    for n in range(5):
        it.request("POST", "/api/query", json.dumps({"sql": "SELECT %d AS n" % n}),
                   {"Content-Type": "application/json"})
        assert json.loads(it.getresponse().read()) == [{"n": n}]
        assert it.sock is not None
    it.close()
