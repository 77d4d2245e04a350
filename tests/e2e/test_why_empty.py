"""An empty answer says why, and what to do about it: on stderr, and over HTTP."""
import http.client
import json
import os
import signal
import socket
import threading

import pytest

import agents
import harness
import patience
from nodes import Node, gone


@pytest.fixture
def one(any_py, tmp_path):
    """A node, and a process that nobody has touched."""
    class One:
        node = Node(tmp_path)
        target = agents.Probed(any_py)
        pid = target.pid

        def said(self, sql, *words, target=True):
            answer = self.node(*([self.pid] if target else []), "query", *words, sql)
            assert answer.returncode == 0, answer.stderr
            return answer.stderr

    made = One()
    yield made
    made.target.stop()
    made.node.stop()


def test_no_probes(one):
    line = "probing: no probes in process %d: probing %d inject\n" % (one.pid, one.pid)
    for sql in ("SELECT * FROM python.torch_trace", "SELECT * FROM training_logs",
                "SELECT count(*) FROM python.memory", "SELECT * FROM hung_collectives"):
        for form in ("table", "json", "csv"):
            assert one.said(sql, "-f", form) == line, sql
    # The line it offers works, and then there are rows and nothing more to say.
    assert one.node(*line.split(": probing ")[1].split()).returncode == 0
    patience.until(lambda: one.said("SELECT * FROM python.memory") == "")


def test_what_the_collector_waits_for(one):
    one.node(one.pid, "inject")
    waits = "probing: %s: torch is not imported in process {}\n".format(one.pid)
    patience.until(lambda: one.said("SELECT * FROM python.torch_trace") ==
                   waits % "python.torch_trace")
    assert one.said("SELECT * FROM comm_metrics") == waits % "python.comm"
    assert one.said("SELECT * FROM python.spans") == (
        "probing: python.spans: the program has opened no probing.span()\n")
    assert one.said("SELECT * FROM probing.audit") in (
        "", "probing: probing.audit: nothing was evaluated or set\n")


def test_a_busy_engine_makes_no_table_empty(one):
    """What does not answer in time has rows or has none: nothing is said of it."""
    one.node(one.pid, "inject")
    patience.until(lambda: one.said("SELECT * FROM python.memory") == "")
    done = threading.Event()

    def keep_busy():
        while not done.is_set():
            one.node("query", "SELECT count(*) FROM range(100000000) AS r(i) WHERE hash(i) % 7 = 3")
    threads = [threading.Thread(target=keep_busy) for _ in range(8)]
    for it in threads:
        it.start()
    try:
        said = [one.said("SELECT * FROM python.memory WHERE rss_mb < 0") for _ in range(16)]
    finally:
        done.set()
        for it in threads:
            it.join()
    assert not [line for line in said if line and "none of the rows fits" not in line], said


def test_switched_off(one):
    one.node(one.pid, "inject", "-D", "torch.comm=off")
    patience.until(lambda: one.said("SELECT * FROM python.comm") == (
        "probing: python.comm: switched off in process %d: probing %d config torch.comm=on\n"
        % (one.pid, one.pid)))
    assert one.node(one.pid, "config", "torch.comm=on").returncode == 0
    patience.until(lambda: "torch is not imported" in one.said("SELECT * FROM python.comm"))


def test_no_driver(one):
    said = one.said("SELECT avg(gpu_util) FROM gpu_metrics", target=False)
    if os.path.exists("/dev/nvidia0"):
        pytest.skip("there is one")
    assert said == ("probing: gpu.utilization: no NVIDIA driver here: libnvidia-ml.so.1 is not "
                    "found\n")


def test_a_filter_that_nothing_passes(one):
    one.node(one.pid, "inject")
    patience.until(lambda: one.node.rows("SELECT 1 FROM python.memory", one.pid))
    said = one.said("SELECT * FROM memory_usage WHERE timestamp < '2020-01-01'")
    assert said.startswith("probing: none of the rows fits; python.memory has ")
    assert said.endswith(" s old\n")
    # With rows there is nothing to explain.
    assert one.said("SELECT * FROM memory_usage") == ""
    assert one.said("SELECT 1 AS one WHERE false") == ""


def test_ended(one):
    one.node(one.pid, "inject")
    patience.until(lambda: one.node.rows("SELECT 1 FROM python.memory", one.pid))
    os.kill(one.pid, signal.SIGKILL)
    one.target.process.wait()
    gone(one.pid)
    assert one.said("SELECT * FROM python.comm") == (
        "probing: process %d has ended and left no rows in python.comm\n" % one.pid)
    assert one.said("SELECT * FROM python.stacks") == (
        "probing: process %d has ended, and python.stacks is about living ones\n" % one.pid)


def test_over_http(one):
    one.node.rows("SELECT 1")

    def ask(**body):
        link = http.client.HTTPConnection("localhost")
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.connect(one.node.socket())
        link.request("POST", "/api/query", json.dumps(dict(
            target=one.pid, sql="SELECT * FROM python.comm", **body)),
                     {"Content-Type": "application/json"})
        answer = link.getresponse()
        return answer.headers, answer.read().decode()

    line = "no probes in process %d: probing %d inject" % (one.pid, one.pid)
    assert ask(format="json")[0]["X-Probing-Notices"] == line
    last = json.loads(ask(format="rows")[1].splitlines()[-1])
    assert last["done"]["notices"] == [line]
    assert line not in ask(format="rows", quiet=True)[1]


def test_a_copied_folder(one, tmp_path):
    (tmp_path / "empty").mkdir()
    answer = harness.probing("--store", tmp_path / "empty", "query", "SELECT * FROM python.comm")
    assert answer.returncode == 0
    assert answer.stderr == "probing: python.comm: no rows in this folder\n"
