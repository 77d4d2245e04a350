"""Across a network: the token is proven and never sent; nothing is read or changed on the way."""
import http.client
import json
import os
import socket
import ssl
import subprocess
import threading

import pytest

import agents
import harness
import hosts
import querying
from ranks import free_port

SECRET = "marker-of-what-is-asked"


class Tap:
    """A wire to a port with somebody who listens on it."""

    def __init__(self, port, change=None):
        self.to, self.change = port, change
        self.seen = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                one = self.listener.accept()[0]
            except OSError:
                return
            other = socket.create_connection(("127.0.0.1", self.to))
            for ends in ((one, other), (other, one)):
                threading.Thread(target=self.copy, args=ends, daemon=True).start()

    def copy(self, source, sink):
        try:
            while True:
                data = source.recv(65536)
                self.seen += data
                if not data:
                    break
                sink.sendall(self.change(data) if self.change else data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        """Not before its thread is done is the number of its socket free for the next one."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


@pytest.fixture
def served(tmp_path):
    node = querying.Node(tmp_path)
    port = free_port()
    node.text("serve", "--listen", "127.0.0.1:%d" % port)
    yield node, port
    node.stop()


def far(token, *words, **env):
    env = dict({"PROBING_TOKEN": token, "PROBING_HOME": "/nowhere",
                "XDG_CONFIG_HOME": "/nowhere"}, **env)
    return harness.probing(*words, env=env)


def test_nothing_to_read(served):
    """Neither the token nor the question nor the answer is on the wire."""
    node, port = served
    token = node.text("token").strip()
    tap = Tap(port)
    it = far(token, "127.0.0.1:%d" % tap.port, "query", "-f", "csv", "SELECT '%s' AS x" % SECRET)
    tap.stop()
    assert it.returncode == 0 and SECRET in it.stdout, it
    assert len(tap.seen) > 500
    for word in (token, SECRET, "HTTP/1.1", "api/query"):
        assert word.encode() not in tap.seen
    # The tap does work: asked for in the open, all of it is there.
    tap = Tap(port)
    it = far(token, "--plain", "127.0.0.1:%d" % tap.port, "query", "SELECT '%s' AS x" % SECRET)
    tap.stop()
    assert it.returncode == 0, it
    for word in (token, SECRET, "HTTP/1.1"):
        assert word.encode() in tap.seen


def test_nothing_to_change(served):
    """A byte that was changed on the way ends the connection, and is no answer."""
    node, port = served
    token = node.text("token").strip()
    tap = Tap(port, lambda data: data[:-1] + bytes([data[-1] ^ 1]) if len(data) > 600 else data)
    it = far(token, "127.0.0.1:%d" % tap.port, "query", "-f", "csv",
             "SELECT range AS number_of_row FROM range(2000)")
    tap.stop()
    # 5: it was a byte of a record's length, and what would be behind it never came.
    assert it.returncode in (1, 5) and not it.stdout, it


def test_replay(served):
    """What somebody recorded and sends again is worth nothing."""
    node, port = served
    token = node.text("token").strip()
    sent = []
    tap = Tap(port, lambda data: sent.append(data) or data)
    assert far(token, "127.0.0.1:%d" % tap.port, "query", "SELECT 1").returncode == 0
    tap.stop()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as it:
        for data in sent:
            try:
                it.sendall(data)
            except OSError:
                break
        answer = b""
        try:
            while len(answer) < 4096:
                got = it.recv(4096)
                if not got:
                    break
                answer += got
        except OSError:
            pass
    assert len(answer) < 400, len(answer)  # a handshake at most; the recorded answer is longer
    assert far(token, "127.0.0.1:%d" % port, "query", "SELECT 1").returncode == 0


def test_wrong_token(served):
    """Is refused and written down; what it would have asked is not told."""
    node, port = served
    tap = Tap(port)
    it = far("0" * 64, "127.0.0.1:%d" % tap.port, "query", "SELECT 1")
    tap.stop()
    assert it.returncode == 3 and "token" in it.stderr, it
    assert b"0" * 64 not in tap.seen
    rows = node.rows("SELECT detail, client FROM probing.audit WHERE action = 'login'")
    assert any("wrong token" in row["detail"] and "TLS" in row["detail"] for row in rows), rows


def test_each_token_has_its_key(served, any_py, start):
    """The scope of a token holds: which one it was is known by its key."""
    node, port = served
    job = start(agents.Probed, any_py)
    node.text(job.pid, "inject")
    where = "127.0.0.1:%d/%d" % (port, job.pid)
    reads = node.text("token", "new", "--scope", "read", "--name", "reader").strip()
    controls = node.text("token", "new", "--scope", "control", "--name", "tuner").strip()
    assert far(reads, where, "query", "SELECT 1").returncode == 0
    it = far(reads, where, "eval", "6*7")
    assert it.returncode == 3 and "'reader' is one for read" in it.stderr, it
    it = far(controls, where, "eval", "6*7")  # through the tunnel to the agent
    assert it.returncode == 0 and it.stdout == "42\n", it
    node.text("token", "revoke", "tuner")
    assert far(controls, where, "eval", "6*7").returncode == 3


def test_chosen_token(tmp_path):
    """A token that somebody thought up works, too, for the port that it opened."""
    node = querying.Node(tmp_path, PROBING_TOKEN="thought-up-by-me")
    port = free_port()
    try:
        node.text("serve", "--listen", "127.0.0.1:%d" % port)
        it = far("thought-up-by-me", "127.0.0.1:%d" % port, "query", "-f", "csv", "SELECT 1 AS a")
        assert it.stdout == "a\n1\n", it
        assert far("thought-up-by-you", "127.0.0.1:%d" % port, "query", "SELECT 1").returncode == 3
    finally:
        node.stop()


def certificate(folder):
    cert, key = os.path.join(str(folder), "cert.pem"), os.path.join(str(folder), "key.pem")
    it = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                         "-keyout", key, "-out", cert], stderr=subprocess.PIPE)
    assert it.returncode == 0, it.stderr
    return cert, key


def test_certificate(tmp_path):
    """For browsers and curl; the token then comes inside. Our own client still wants the key."""
    node = querying.Node(tmp_path)
    port = free_port()
    cert, key = certificate(tmp_path)
    try:
        it = node.run("serve", "--listen", "127.0.0.1:%d" % port, "--cert", cert)
        assert it.returncode != 0 and "go together" in it.stderr
        node.text("serve", "--listen", "127.0.0.1:%d" % port, "--cert", cert, "--cert-key", key)
        token = node.text("token").strip()
        it = http.client.HTTPSConnection("127.0.0.1", port, timeout=10,
                                         context=ssl.create_default_context(cafile=cert))
        for secret, status in ((token, 200), ("f" * 64, 401), (None, 401)):
            headers = {"Content-Type": "application/json", "Origin": "https://127.0.0.1:%d" % port}
            if secret:
                headers["Authorization"] = "Bearer " + secret
            it.request("POST", "/api/query", json.dumps({"sql": "SELECT 1 AS a"}), headers)
            answer = it.getresponse()
            text = answer.read()
            assert answer.status == status, text
            it.close()
        assert far(token, "127.0.0.1:%d" % port, "query", "SELECT 1").returncode == 0
        assert far("f" * 64, "127.0.0.1:%d" % port, "query", "SELECT 1").returncode == 3
    finally:
        node.stop()


def test_nonsense(served):
    """What only looks like TLS costs a connection, and nobody else anything."""
    _, port = served
    for data in (b"\x16", b"\x16\x03\x01\x02\x00" + b"\x01" * 512,
                 b"\x16\x03\x01\xff\xff" + b"z" * 70000, b"\x16" * 3000,
                 os.urandom(16) + b"\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as it:
            try:
                it.sendall(data)
                it.shutdown(socket.SHUT_WR)
                while it.recv(4096):
                    pass
            except OSError:
                pass
    it = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    it.request("GET", "/health")
    assert it.getresponse().status == 200
    it.close()


@hosts.needed()
def test_another_machine(tmp_path):
    """In the open only its own machine is answered, unless it was asked for."""
    network = hosts.Network(tmp_path)
    try:
        one, two = network.add(), network.add()
        one.text("serve", "--listen", one.address + ":8080")
        token = one.text("token").strip()
        where = one.address + ":8080"
        env = {"PROBING_TOKEN": token}
        assert two.text(where, "query", "-f", "csv", "SELECT 1 AS a", env=env) == "a\n1\n"
        it = two.probing(where, "query", "SELECT 1", env={"PROBING_TOKEN": "e" * 64})
        assert it.returncode == 3 and "wrong token" in it.stderr, it
        it = two.probing(where, "query", "SELECT 1")
        assert it.returncode == 3 and "token" in it.stderr, it
        it = two.probing("--plain", where, "query", "SELECT 1", env=env)
        assert it.returncode == 3 and "without TLS" in it.stderr, it
        assert "Upgrade\n" not in it.stderr
        it = one.probing("serve", "--listen", one.address + ":8081", "--plain")
        assert it.returncode == 0 and "others on the network can read" in it.stderr, it
        assert two.text("--plain", one.address + ":8081", "query", "-f", "csv", "SELECT 1 AS a",
                        env=env) == "a\n1\n"
        it = two.probing("--plain", one.address + ":8081", "query", "SELECT 1",
                         env={"PROBING_TOKEN": "e" * 64})
        assert it.returncode == 3
        one.probing("serve", "--stop")
    finally:
        network.stop()
