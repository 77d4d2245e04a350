"""A target at host:port: the commands work as on the machine itself, with the token."""
import json
import os
import re
import subprocess

import pytest

import agents
import harness
import patience
import querying
import ranks
from querying import table


class Far:
    """A probed process whose node listens, and somebody elsewhere who has a token or not."""

    def __init__(self, any_py, folder):
        self.node = querying.Node(folder)
        self.job = agents.Probed(any_py)
        self.pid = self.job.pid
        self.at = "127.0.0.1:%d" % ranks.free_port()
        try:
            self.node.text(self.pid, "inject", "-l", self.at)
            with open(os.path.join(self.node.env["XDG_CONFIG_HOME"], "probing", "token")) as file:
                self.token = file.read().strip()
        except BaseException:
            self.stop()
            raise
        # Elsewhere: no node of its own is ever asked.
        self.env = {"PROBING_HOME": str(folder / "elsewhere"),
                    "XDG_CONFIG_HOME": str(folder / "elsewhere")}

    def run(self, *words, token=True, **how):
        env = dict(self.env, **how.pop("env", {}))
        if token:
            env["PROBING_TOKEN"] = self.token
        return harness.probing(*words, env=env, **how)

    def text(self, *words, **how):
        answer = self.run(*words, **how)
        assert (answer.returncode, answer.stderr) == (0, ""), answer
        return answer.stdout

    def stop(self):
        self.node.stop()
        self.job.stop()
        querying.forget(self.pid)


@pytest.fixture(scope="module")
def far(any_py, tmp_path_factory):
    it = Far(any_py, tmp_path_factory.mktemp("far"))
    yield it
    it.stop()


def test_memory_of_a_process_that_runs(far):
    """It has rows within a second or two, and is alive."""
    def now():
        found = json.loads(far.text(far.at, "memory", "--json"))
        found = found if isinstance(found, list) else [found]
        return [row for row in found if row["pid"] == far.pid]
    patience.until(lambda: far.run(far.at, "memory").returncode == 0 and now())
    assert now()[0]["alive"] is True and now()[0]["command"]
    head = far.text(far.at, "memory").splitlines()[0]
    assert head.startswith("process %d" % far.pid) and " now " in head and "until" not in head


def test_query(far):
    assert far.text(far.at, "SELECT 1 AS x") == "x\n-\n1\n"
    rows = json.loads(far.text(far.at, "query", "-f", "json",
                               "SELECT DISTINCT pid FROM python.backtrace"))
    assert rows == [{"pid": far.pid}]
    assert far.text("query", "SELECT 1 AS x", env={"ENDPOINT": far.at}) == "x\n-\n1\n"
    assert far.text("-t", far.at, "query", "SELECT 1 AS x") == "x\n-\n1\n"
    assert table(far.text(far.at, "tables"))[0] == ["name", "rows", "doc"]
    assert not os.path.exists(far.env["PROBING_HOME"]) or not os.listdir(far.env["PROBING_HOME"])


def test_one_process_there(far):
    name = "%s/%d" % (far.at, far.pid)
    assert far.text(name, "eval", "loss") == "0.0234\n"
    answer = far.run("%s/4194999" % far.at, "query", "SELECT 1")
    assert answer.returncode == 4 and "4194999" in answer.stderr


def test_eval(far):
    assert far.text(far.at, "eval", "1 + 1") == "2\n"
    answer = far.run(far.at, "eval", "1 / 0")
    assert answer.returncode == 1
    assert answer.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert far.text(far.at, "eval", "--frame", "0", "secret") == "42\n"


def test_backtrace(far):
    far.job.settle()
    here = harness.stack_of(far.pid)
    there = json.loads(far.text(far.at, "backtrace", "-f", "json"))
    assert harness.frames(harness.main_thread(there))[1:] == here[1:]
    text = far.text(far.at, "backtrace", "-l")
    assert "main" in text and "secret = 42" in text
    # What comes as data is drawn here as if it had been read here; the innermost frame may move.
    drawn = harness.probing(far.pid, "backtrace", "-l").stdout
    assert text.split("\n  1  ")[1] == drawn.split("\n  1  ")[1]


def test_config(far):
    assert far.text(far.at, "config", "eval.timeout=17") == ""
    assert far.text(far.at, "config", "eval.timeout") == "17\n"
    assert harness.probing(far.pid, "config", "eval.timeout").stdout == "17\n"


def test_repl(far):
    env = dict(harness.ENV, **far.env, PROBING_TOKEN=far.token)
    script = b"loss\n%query SELECT count(*) AS n FROM python.backtrace\n%bt\n"
    answer = subprocess.run([harness.BIN, far.at, "repl"], input=script, env=env, timeout=30,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
    text = answer.stdout.decode()
    assert text.startswith("0.0234\nn\n-\n") and "MainThread" in text, answer


@pytest.mark.parametrize("words", [
    ["query", "SELECT 1"], ["eval", "1"], ["backtrace"], ["config"], ["tables"], ["repl"],
])
def test_without_the_token(far, words):
    for how in ({"token": False}, {"token": False, "env": {"PROBING_TOKEN": "wrong"}}):
        answer = far.run(far.at, *words, **how)
        assert (answer.returncode, answer.stdout) == (3, ""), answer
        assert answer.stderr.count("\n") == 1 and "--token" in answer.stderr


def test_ways_to_give_the_token(far, tmp_path):
    path = tmp_path / "token"
    path.write_text(far.token + "\n")
    for words in (["--token", far.token], ["--token-file", path]):
        assert far.text(far.at, *words, "query", "SELECT 1 AS x", token=False) == "x\n-\n1\n"
    answer = far.run(far.at, "--token-file", tmp_path / "none", "query", "SELECT 1", token=False)
    assert answer.returncode == 2 and "--token-file" in answer.stderr


def test_nobody_there(far):
    answer = far.run("127.0.0.1:%d" % ranks.free_port(), "query", "SELECT 1")
    assert answer.returncode in (1, 4) and answer.stderr.count("\n") == 1


def test_what_needs_the_machine_itself(far):
    for words in (["inject", "--force"], ["inject", "-l", "127.0.0.1:0"]):
        answer = far.run(far.at, *words)
        assert answer.returncode == 2 and "own machine" in answer.stderr


def whole_node(far):
    """An address that is no process's own."""
    return re.search(r"listening on (\S+)\n",
                     far.node.text("serve", "--listen", "127.0.0.1:0")).group(1)


def test_load_and_unload(far, any_py, start, tmp_path):
    """inject, attach and eject by address, of any process that the node there may touch."""
    other = start(agents.Probed, any_py)
    name = "%s/%d" % (whole_node(far), other.pid)
    assert far.run(name, "inject", token=False).returncode == 3
    assert other.threads() == 1
    assert far.text(name, "inject", "-D", "eval.timeout=9") == (
        "Successfully injected probes into process %s\n" % name)
    assert other.threads() > 1 and far.text(name, "config", "eval.timeout") == "9\n"
    assert far.text(name, "inject", env={"PROBING_SAMPLE_RATE": "0.5"}) == (
        "Probes are already in process %s; options applied\n" % name)
    assert far.text(name, "config", "sample_rate") == "0.5\n"
    path = tmp_path / "probes.yaml"
    path.write_text("probing:\n  eval.timeout: 8\n")
    assert far.text("attach", name, "--config", path) == (
        "Probes are already in process %s; settings applied\n" % name)
    assert far.text(name, "config", "eval.timeout") == "8\n"
    assert far.text(name, "eject") == "Removed probes from process %s\n" % name
    patience.until(lambda: other.threads() == 1)
    answer = far.run(name, "eject")
    assert (answer.returncode, answer.stderr) == (
        1, "probing: %s: there are no probes in this process\n" % name)
    answer = far.run(name, "inject", "-l", "127.0.0.1:0")
    assert answer.returncode == 2 and "--listen works on the target's own machine" in answer.stderr


def test_the_node_s_settings_by_address(far):
    assert far.text(whole_node(far), "config", "retention.days=6") == ""
    assert far.node.text("config", "retention.days") == "6\n"
    # The port of a process is for that process.
    assert far.run(far.at, "config", "retention.days=5").returncode == 3
    assert far.node.text("config", "retention.days") == "6\n"
