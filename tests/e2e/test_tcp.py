"""Ports that processes open: who is reached by them, by whom, and for how long."""
import http.client
import json
import os
import socket
import time

import pytest

import agents
import harness
import patience
import querying
from ranks import free_port


@pytest.fixture
def node(tmp_path):
    it = querying.Node(tmp_path)
    yield it
    it.stop()


def token(node):
    with open(os.path.join(node.env["XDG_CONFIG_HOME"], "probing", "token")) as file:
        return file.read().strip()


def ask(port, path, body=None, secret=None):
    """(status, text)"""
    it = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if secret:
        headers["Authorization"] = "Bearer " + secret
    it.request("GET" if body is None else "POST", path,
               None if body is None else json.dumps(body), headers)
    answer = it.getresponse()
    text = answer.read().decode()
    it.close()
    return answer.status, text


def is_open(port):
    with socket.socket() as it:
        return it.connect_ex(("127.0.0.1", port)) == 0


def pids(port, secret, **more):
    status, text = ask(port, "/api/query", dict(
        more, sql="SELECT DISTINCT pid FROM python.backtrace ORDER BY pid"), secret)
    assert status == 200, text
    return [row["pid"] for row in json.loads(text)]


def test_inject_listens(any_py, start, node):
    """The port is the process's own: it answers for it, and closes with it."""
    port = free_port()
    job = start(agents.Probed, any_py)
    answer = node.run(job.pid, "inject", "-l", "127.0.0.1:%d" % port)
    assert answer.returncode == 0, answer
    assert "Probing server listening on 127.0.0.1:%d\n" % port in answer.stdout + answer.stderr
    assert pids(port, token(node)) == [job.pid]
    job.stop()
    patience.until(lambda: not is_open(port))


def test_shared_port(any_py, start, node):
    """Processes that ask for the same port share it."""
    port = free_port()
    one, two, three = (start(agents.Probed, any_py) for _ in range(3))
    for job in (one, two):
        node.text(job.pid, "inject", "-l", "127.0.0.1:%d" % port)
    node.text(three.pid, "inject")
    secret = token(node)
    assert pids(port, secret) == sorted([one.pid, two.pid])
    assert pids(port, secret, target=two.pid) == [two.pid]
    for other in ("all", three.pid):
        status, text = ask(port, "/api/query", {"sql": "SELECT 1", "target": other}, secret)
        assert status == 403 and "out of reach" in text
    status, text = ask(port, "/api/eval", {"code": "1"}, secret)
    assert status == 400 and "2 processes share this port" in text
    status, text = ask(port, "/api/backtrace", secret=secret)
    assert {json.loads(line)["pid"] for line in text.splitlines()} == {one.pid, two.pid}
    one.stop()
    patience.until(lambda: pids(port, secret) == [two.pid])


def test_who_may(any_py, start, node):
    port = free_port()
    job = start(agents.Probed, any_py)
    node.text(job.pid, "inject", "-l", "127.0.0.1:%d" % port)
    assert ask(port, "/health")[0] == 200
    for secret in (None, "wrong-token", token(node)[:-1], token(node) + "x"):
        for path, body in (("/api/processes", None), ("/api/query", {"sql": "SELECT 1"}),
                           ("/api/nothing", None))[:3 if secret is None else 2]:
            status, text = ask(port, path, body, secret)
            assert status == 401 and json.loads(text)["error"]["code"] == "denied"
    for path in ("/api/listen", "/api/stop"):
        assert ask(port, path, {}, token(node))[0] == 403
    assert os.stat(os.path.join(node.env["XDG_CONFIG_HOME"], "probing", "token")).st_mode \
        & 0o777 == 0o600


def test_token_of_the_job(any_py, start, node):
    """A job that brings its own token is reached by that one."""
    port = free_port()
    job = start(agents.Probed, any_py)
    node.text("serve")
    node.text(job.pid, "inject", "-l", "127.0.0.1:%d" % port,
              env={"PROBING_TOKEN": "my-own-secret"})
    assert ask(port, "/api/processes", secret="my-own-secret")[0] == 200
    assert ask(port, "/api/processes", secret="another-one")[0] == 401


def test_hostile_clients(any_py, start, node):
    """Two hundred that send slowly, nothing or nonsense; a good one is answered in time."""
    port = free_port()
    job = start(agents.Probed, any_py)
    node.text(job.pid, "inject", "-l", "127.0.0.1:%d" % port)
    secret = token(node)
    held = []
    for n in range(200):
        it = socket.create_connection(("127.0.0.1", port))
        it.sendall([b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"", b"\x16\x03\x01garbage",
                    b"POST /api/query HTTP/1.1\r\nContent-Length: 5"][n % 4])
        held.append(it)
    for _ in range(10):
        begin = time.monotonic()
        assert ask(port, "/api/query", {"sql": "SELECT 1"}, secret)[0] == 200
        assert node.rows("SELECT 1 AS n") == [{"n": 1}]
        assert time.monotonic() - begin < 20
    for it in held:
        it.close()


def test_other_sites(any_py, start, node):
    """A browser on the machine sends what another site's page wants: refused."""
    port = free_port()
    job = start(agents.Probed, any_py)
    node.text(job.pid, "inject", "-l", "127.0.0.1:%d" % port)
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"},
                    {"Sec-Fetch-Site": "cross-site"}):
        it = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        it.request("GET", "/health", None, headers)
        assert it.getresponse().status == 403
        it.close()


def test_probing_port(any_py, start, node):
    """PROBING_PORT: the job says where it listens, and can be reached there by every command."""
    port = free_port()
    job = start(agents.Probed, any_py, command=[harness.BIN, "run", any_py.command],
                env=dict(node.env, PROBING_PORT=str(port)))
    line = "Probing server listening on 0.0.0.0:%d\n" % port
    said = ""
    while line not in said:
        piece = os.read(job.process.stderr.fileno(), 4096).decode()
        assert piece, said
        said += piece
    # How to connect follows at once, in one line.
    while not said.endswith("by TLS\n"):
        said += os.read(job.process.stderr.fileno(), 4096).decode()
    hint = said.partition(line)[2]
    assert "probing/token; `probing token` shows it; other machines reach it by TLS" in hint
    assert hint.count("\n") == 1
    at, env = "127.0.0.1:%d" % port, {"PROBING_TOKEN": token(node), "PROBING_HOME": "/nowhere"}
    for words, answer in ((["query", "SELECT 1 AS x"], "x\n-\n1\n"), (["eval", "loss"], "0.0234\n"),
                          (["config", "eval.timeout"], "30\n")):
        got = harness.probing(at, *words, env=env)
        assert (got.returncode, got.stdout) == (0, answer), got
    assert pids(port, token(node)) == [job.pid]
    assert harness.probing(at, "backtrace", env=env).stdout.startswith("Thread %d " % job.pid)
    got = harness.probing(at, "eval", "1", env=dict(env, PROBING_TOKEN="wrong-token"))
    assert got.returncode == 3 and got.stderr.count("\n") == 1
