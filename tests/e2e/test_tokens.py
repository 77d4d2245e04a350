"""Tokens: what each may do, whom it reaches, for how long; and who is written down."""
import http.client
import json
import os
import re
import subprocess
import time

import pytest

import agents
import harness
import patience
import querying
from test_http import Connection
from ranks import free_port


class Served:
    """Two probed processes, a node with a port of its own and one that belongs to the first."""

    def __init__(self, any_py, folder):
        self.node = querying.Node(folder)
        self.jobs = [agents.Probed(any_py), agents.Probed(any_py)]
        self.one, self.two = (job.pid for job in self.jobs)
        self.port, self.port_of_one = free_port(), free_port()
        try:
            self.node.text("serve", "--listen", "127.0.0.1:%d" % self.port)
            self.node.text(self.one, "inject", "-l", "127.0.0.1:%d" % self.port_of_one)
            self.node.text(self.two, "inject")
        except BaseException:
            self.stop()
            raise
        self.own = self.node.text("token").strip()

    def new(self, *words):
        return self.node.text("token", "new", *words).strip()

    def ask(self, path, body=None, token=None, port=None):
        """(status, headers, text)"""
        it = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=30)
        headers = {"Authorization": "Bearer " + token} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        it.request("GET" if body is None else "POST", path,
                   None if body is None else json.dumps(body), headers)
        answer = it.getresponse()
        text = answer.read().decode()
        it.close()
        return answer.status, answer.headers, text

    def rows(self, sql, token, **how):
        port = how.pop("port", None)
        status, _, text = self.ask("/api/query", dict(how, sql=sql), token, port)
        assert status == 200, text
        return json.loads(text)

    def far(self, *words, token, port=None, **how):
        """The tool, as somebody elsewhere uses it."""
        env = {"PROBING_TOKEN": token, "PROBING_HOME": "/nowhere", "XDG_CONFIG_HOME": "/nowhere"}
        return harness.probing("127.0.0.1:%d" % (port or self.port), *words, env=env, **how)

    def stop(self):
        self.node.stop()
        for job in self.jobs:
            job.stop()
            querying.forget(job.pid)


@pytest.fixture(scope="module")
def served(any_py, tmp_path_factory):
    it = Served(any_py, tmp_path_factory.mktemp("tokens"))
    yield it
    it.stop()


def test_own_token(served):
    path = os.path.join(served.node.env["XDG_CONFIG_HOME"], "probing", "token")
    with open(path) as file:
        assert file.read().strip() == served.own
    assert re.match("[0-9a-f]{64}$", served.own) and os.stat(path).st_mode & 0o777 == 0o600
    said = json.loads(served.node.text("token", "-f", "json"))
    assert (said["name"], said["scope"], said["token"]) == ("default", "control", served.own)


def test_only_hashes_are_kept(served):
    secret = served.new("--name", "kept", "--expires", "7d")
    path = os.path.join(served.node.env["XDG_CONFIG_HOME"], "probing", "tokens")
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path) as file:
        assert secret not in file.read()
    said = {item["name"]: item for item in json.loads(served.node.text("token", "list", "-f",
                                                                       "json"))}
    assert "token" not in said["kept"] and said["kept"]["scope"] == "read"
    assert said["kept"]["expires"] > said["kept"]["created"] and not said["kept"]["expired"]
    assert said["default"]["scope"] == "control"
    answer = served.node.run("token", "new", "--name", "kept")
    assert answer.returncode == 2 and "already" in answer.stderr


def test_scope_read(served):
    """SQL and stacks, but nothing of what the program holds in its hands."""
    token, locals_of = served.new("--scope", "read"), "SELECT locals FROM python.%s"
    assert served.rows("SELECT 1 AS n", token) == [{"n": 1}]
    assert {row["pid"] for row in served.rows("SELECT pid FROM python.stacks", token)} >= {
        served.one, served.two}
    for table in ("stacks", "backtrace"):
        rows = served.rows(locals_of % table, token)
        assert rows and not [row for row in rows if row["locals"]]
    status, headers, text = served.ask("/api/query", {"sql": "SELECT * FROM python.envs"}, token)
    assert (status, text.strip()) == (200, "[]") and "scope look" in headers["X-Probing-Notices"]
    got = served.far("query", "SELECT count(*) AS n FROM python.envs", token=token)
    assert got.stdout == "n\n-\n0\n" and "scope look" in got.stderr
    one = {"target": served.one}
    for path, body in (("/api/eval", dict(one, code="1")), ("/api/agent", one),
                       ("/api/config", dict(one, set={"eval.timeout": 5})),
                       ("/api/query", dict(one, sql="SET probing.eval.timeout = 5")),
                       ("/api/query", {"sql": "SET probing.query.timeout = 5"}),
                       ("/api/backtrace?locals=1&target=%d" % served.one, None)):
        status, _, text = served.ask(path, body, token)
        assert status == 403 and json.loads(text)["error"]["code"] == "denied", (path, text)
    assert served.ask("/api/backtrace?target=%d" % served.one, None, token)[0] == 200
    for words in (["eval", "1"], ["config", "eval.timeout=4"], ["backtrace", "-l"], ["repl"]):
        got = served.far(*words, token=token, port=served.port_of_one)
        assert got.returncode == 3 and got.stdout == "", (words, got)


def test_scope_look(served):
    token = served.new("--scope", "look")
    rows = served.rows("SELECT locals FROM python.backtrace WHERE func = 'work'", token)
    assert "number" in json.loads(rows[0]["locals"])
    assert served.rows("SELECT value FROM python.envs WHERE name = 'PATH'", token)
    assert served.ask("/api/backtrace?locals=1&target=%d" % served.one, None, token)[0] == 200
    assert served.ask("/api/eval", {"target": served.one, "code": "1"}, token)[0] == 403


def test_scope_control(served):
    token = served.new("--scope", "control")
    status, _, text = served.ask("/api/eval", {"target": served.one, "code": "6 * 7"}, token)
    assert status == 200 and '"42\\n"' in text
    assert served.rows("SET probing.query.timeout = 59", token) == []


def tables_with_pid(served):
    return [row["table"] for row in served.rows(
        "SELECT table_schema || '.' || table_name AS table FROM information_schema.columns"
        " WHERE column_name = 'pid' AND table_schema IN ('python', 'system', 'gpu', 'probing',"
        " 'nccl')", served.own)]


def sees_only(served, token, port):
    seen = 0
    for table in tables_with_pid(served):
        rows = served.rows("SELECT DISTINCT pid FROM %s WHERE pid IS NOT NULL" % table, token,
                           port=port)
        assert [row["pid"] for row in rows] in ([], [served.one]), table
        seen += len(rows)
    assert seen > 5
    status, _, text = served.ask("/api/processes?dead=1", None, token, port)
    assert status == 200 and [item["pid"] for item in json.loads(text)] == [served.one]
    for target in ("all", served.two, "%d,%d" % (served.one, served.two)):
        for path, body in (("/api/query", {"sql": "SELECT 1", "target": target}),
                           ("/api/eval", {"code": "1", "target": target}),
                           ("/api/backtrace?target=%s" % target, None),
                           ("/api/config?target=%s" % target, None),
                           ("/api/config", {"target": target, "set": {"eval.timeout": 9}})):
            status, _, text = served.ask(path, body, token, port)
            assert status == 403, (target, path, text)


def test_port_of_one_never_reaches_the_other(served):
    """Whatever the token is good for elsewhere."""
    sees_only(served, served.own, served.port_of_one)
    got = served.far("eval", "loss", token=served.own, port=served.port_of_one)
    assert got.stdout == "0.0234\n", got
    got = harness.probing("127.0.0.1:%d/%d" % (served.port_of_one, served.two), "eval", "1",
                          env={"PROBING_TOKEN": served.own})
    assert got.returncode == 3 and "out of reach" in got.stderr


def test_token_of_one_never_reaches_the_other(served):
    """On a port that is the node's own."""
    token = served.new("--scope", "control", "--pid", str(served.one))
    sees_only(served, token, served.port)
    status, _, text = served.ask("/api/eval", {"code": "loss"}, token)
    assert status == 200 and "0.0234" in text
    other = served.new("--scope", "control", "--pid", str(served.two))
    status, _, text = served.ask("/api/query", {"sql": "SELECT 1"}, other, served.port_of_one)
    assert status == 403 and "another process" in text
    answer = served.node.run("token", "new", "--pid", "4194999")
    assert answer.returncode == 4 and answer.stderr.count("\n") == 1


def test_rotate_revoke_expire(served):
    old = served.new("--name", "turning")
    assert served.ask("/api/processes", None, old)[0] == 200
    new = served.node.text("token", "rotate", "turning").strip()
    assert served.ask("/api/processes", None, old)[0] == 401
    assert served.ask("/api/processes", None, new)[0] == 200
    served.node.text("token", "revoke", "turning")
    assert served.ask("/api/processes", None, new)[0] == 401
    assert served.node.run("token", "revoke", "turning").returncode == 4
    short = served.new("--name", "short", "--expires", "1s")
    patience.until(lambda: served.ask("/api/processes", None, short)[0] == 401)
    assert "expired" in served.node.text("token", "list")
    before, served.own = served.own, served.node.text("token", "rotate", "default").strip()
    assert served.ask("/api/processes", None, before)[0] == 401
    assert served.ask("/api/processes", None, served.own)[0] == 200
    assert served.node.run("token", "revoke", "default").returncode == 2


def test_revoking_ends_what_goes_on(served):
    token = served.new("--scope", "control", "--name", "going")
    tool = subprocess.Popen([harness.BIN, "127.0.0.1:%d" % served.port_of_one, "eval",
                             "import time; print('go', flush=True); time.sleep(30)"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=dict(harness.ENV, PROBING_TOKEN=token))
    try:
        assert tool.stdout.readline() == b"go\n"
        served.node.text("token", "revoke", "going")
        assert tool.wait(60) == 1
    finally:
        tool.kill()
        tool.communicate()


def test_failures_are_written_down(served):
    served.ask("/api/processes", None, "a-wrong-token")
    rows = served.node.rows("SELECT client, detail, result, pid FROM probing.audit "
                            "WHERE action = 'login' ORDER BY timestamp")
    last = rows[-1]
    assert last["client"].startswith("127.0.0.1:") and last["result"] == "refused"
    assert re.match(r"wrong token, number \d+ from there: GET /api/processes$", last["detail"])
    assert "a-wrong-token" not in json.dumps(rows)
    # Each from a port of its own; none of the addresses is lost.
    for _ in range(200):
        served.ask("/api/processes")
    assert served.node.rows("SELECT count(*) AS n, count(DISTINCT client) > 100 AS many FROM "
                            "probing.audit WHERE detail = 'no token for GET /api/processes' "
                            "AND client LIKE '127.0.0.1:%'") == [{"n": 200, "many": True}]


def test_audit_names_the_client(served):
    """Not the node that passes the question on."""
    sql = ("SELECT action, detail, client, peer_uid, peer_pid FROM probing.audit "
           "WHERE detail LIKE '%{}%' ORDER BY timestamp DESC LIMIT 1")
    token = served.new("--scope", "control", "--name", "robot")

    def row(text):
        return served.node.rows(sql.format(text), target=served.one)[0]

    served.ask("/api/eval", {"target": served.one, "code": "'by http'"}, token)
    served.far("eval", "'by tunnel'", token=token, port=served.port_of_one)
    served.ask("/api/query", {"target": served.one, "sql": "SET probing.eval.timeout = 31"}, token)
    for text in ("by http", "by tunnel", "eval.timeout=31"):
        it = row(text)
        assert re.match(r"127\.0\.0\.1:\d+, token robot$", it["client"]), it
        assert it["peer_uid"] is None and it["peer_pid"] is None
    door = Connection(re.search(r" on (\S+?)(,|$)", served.node.text("serve", "--status")).group(1))
    door.request("POST", "/api/eval", json.dumps({"target": served.one, "code": "'by socket'"}),
                 {"Content-Type": "application/json"})
    door.getresponse().read()
    door.close()
    it = row("by socket")
    assert (it["client"], it["peer_uid"], it["peer_pid"]) == (None, os.getuid(), os.getpid())


def test_a_client_keeps_its_name(served):
    """Who comes through a tunnel cannot call itself something else."""
    door = Connection(re.search(r" on (\S+?)(,|$)", served.node.text("serve", "--status")).group(1))
    door.request("POST", "/api/agent", json.dumps({"target": served.one}),
                 {"Content-Type": "application/json", "Connection": "Upgrade",
                  "Upgrade": "probing-agent"})
    wire = agents.Wire.__new__(agents.Wire)
    wire.socket = door.sock
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += door.sock.recv(1)
    assert wire.read()[0] == agents.HELLO
    wire.send(8, b"uid=0\npid=1\nname=somebody else\n")
    assert door.sock.recv(1) == b""
    door.close()


def test_audit_of_code(served):
    def detail(code):
        served.node.text(served.two, "eval", code)
        return served.node.rows("SELECT detail FROM probing.audit WHERE action = 'eval' "
                                "ORDER BY timestamp DESC LIMIT 1", target=served.two)[0]["detail"]

    assert detail("'one'") == "'one'"
    served.node.text(served.two, "config", "audit.eval=hash")
    assert served.node.text(served.two, "config", "audit.eval") == "hash\n"
    # printf "'two'" | sha256sum
    assert detail("'two'") == (
        "sha256:5538d1fc07188016a0b1e4acce08c756baaf4fabae75ec6282d609c40cfa67b3, 5 bytes")
    served.node.text(served.two, "config", "audit.eval=off")
    assert detail("'three'") is None
    answer = served.node.run(served.two, "config", "audit.eval=some")
    assert answer.returncode == 2 and "full|hash|off" in answer.stderr
    served.node.text(served.two, "config", "audit.eval=full")


@pytest.mark.parametrize("form", ["--token={}", "--token {}"])
def test_token_is_wiped_from_the_command_line(served, form):
    """ps shows a command line to everybody."""
    words = form.format(served.own).split()
    command = [harness.BIN] + words + ["127.0.0.1:%d" % served.port_of_one, "eval",
                                       "import time; print('go', flush=True); time.sleep(20)"]
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=dict(harness.ENV, **served.node.env))
    try:
        assert tool.stdout.readline() == b"go\n"
        with open("/proc/%d/cmdline" % tool.pid, "rb") as file:
            line = file.read()
        assert served.own.encode() not in line and b"--token" in line and b"****" in line
    finally:
        tool.kill()
        tool.communicate()


def test_wrong_tokens_are_slowed_down(served):
    """From the sixth on; other ways in stay as fast as they were."""
    port, begin = served.port, time.monotonic()
    for _ in range(8):
        assert served.ask("/api/processes", None, "guess-guess", port)[0] == 401
    assert time.monotonic() - begin > 0.7
    begin = time.monotonic()
    assert served.node.rows("SELECT 1 AS n") == [{"n": 1}]
    assert served.ask("/health", None, None, port)[0] == 200
    assert time.monotonic() - begin < 5
