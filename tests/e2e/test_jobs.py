"""A job as a target: every process that runs a script, and the processes that those started."""
import json
import os
import pty
import shutil
import signal
import subprocess

import pytest

import harness
import patience
from nodes import Node, gone

NAME = "job_under_test.py"
TABLE = "SELECT pid FROM system.process LIMIT 1"


class Job:
    """Two ranks with two forked workers each, started by a Python that is not part of it."""

    def __init__(self, any_py, folder):
        self.node = Node(folder)
        self.script = os.path.join(str(folder), NAME)
        shutil.copy(os.path.join(harness.TARGETS, "forks.py"), self.script)
        self.ranks = []
        for rank in (0, 1):
            self.ranks.append(harness.Target([any_py.command, self.script],
                                             env={"RANK": str(rank), "WORLD_SIZE": "2"}))
        # forks.py starts a third child that ends at once and is not waited for.
        self.pids = sorted([one.pid for one in self.ranks] +
                           [pid for one in self.ranks for pid in one.extra[:2]])
        harness.STARTED.update(self.pids)

    def __call__(self, *words, **how):
        return self.node("job:" + NAME, *words, **how)

    def stop(self):
        for one in self.ranks:
            one.stop()
        self.node.stop()


@pytest.fixture
def job(any_py, tmp_path):
    made = Job(any_py, tmp_path)
    yield made
    made.stop()


def numbers(text, before):
    return sorted(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                  if line.startswith(before))


def test_inject_config_query_eject(job):
    answer = job("inject")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert numbers(answer.stdout, "Successfully injected") == job.pids
    # Each process is told, and says its own.
    assert job("config", "memory.interval=0.1").returncode == 0
    answer = job("config", "memory.interval")
    assert answer.stdout.count("process ") == len(job.pids) and "rank 1" in answer.stdout
    assert [line for line in answer.stdout.splitlines() if line == "0.1"] == ["0.1"] * 6
    patience.until(lambda: len(json.loads(job(
        "query", "-f", "json", "SELECT DISTINCT pid FROM python.memory").stdout)) == 6)
    rows = json.loads(job("query", "-f", "json", "SELECT DISTINCT pid, rank FROM python.memory "
                                                 "ORDER BY pid").stdout)
    assert [row["pid"] for row in rows] == job.pids and {row["rank"] for row in rows} == {0, 1}
    memory = json.loads(job("memory", "--json").stdout)
    assert sorted(one["pid"] for one in memory) == job.pids
    answer = job("eject")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert numbers(answer.stdout, "Removed probes") == job.pids


def test_backtrace_of_all(job):
    answer = job("backtrace")
    assert answer.returncode == 0, answer.stderr
    titles = [line for line in answer.stdout.splitlines() if line.startswith("process ")]
    assert [int(line.split()[1]) for line in titles] == job.pids
    assert all("rank" in line and NAME in line for line in titles)
    assert answer.stdout.count("child_one") == 2 and answer.stdout.count("child_two") == 2
    told = json.loads(job("backtrace", "--json").stdout)
    assert sorted(one["pid"] for one in told) == job.pids
    answer = job("backtrace", "-w", "1")
    assert answer.returncode == 2 and "--watch is for one process" in answer.stderr


def test_one_that_fails_is_told_and_the_rest_is_done(job):
    stopped = job.ranks[0].extra[0]
    os.kill(stopped, signal.SIGSTOP)
    answer = job("inject")
    os.kill(stopped, signal.SIGCONT)
    assert answer.returncode != 0
    assert numbers(answer.stdout, "Successfully injected") == [
        pid for pid in job.pids if pid != stopped]
    lines = answer.stderr.splitlines()
    assert len(lines) == 2 and lines[0].startswith("probing: %d: " % stopped)
    assert lines[1] == "probing: job:%s: inject failed for 1 of 6 processes" % NAME


def test_names(job):
    for name in (NAME, NAME[:-3], job.script, os.path.join(os.path.basename(
            os.path.dirname(job.script)), NAME)):
        answer = job.node("job:" + name, "backtrace", "--json")
        assert answer.returncode == 0, (name, answer.stderr)
        assert len(json.loads(answer.stdout)) == 6, name
    answer = job.node("job:nobody_runs_this.py", "backtrace")
    assert answer.returncode == 4
    assert answer.stderr == ("probing: no Python process runs 'nobody_runs_this.py'. "
                             "See: probing list\n")
    assert job.node("job:", "backtrace").returncode == 2


def test_a_command_for_one_process_says_so(job):
    answer = job("repl")
    assert answer.returncode == 2
    assert "repl looks at one process; '%s' has 6: %s" % (
        NAME, ", ".join(map(str, job.pids))) in answer.stderr


def test_attach(job, tmp_path):
    path = tmp_path / "probes.yaml"
    path.write_text("probing:\n  eval.timeout: 7\n")
    answer = job.node("attach", "job:" + NAME, "--config", path)
    assert answer.returncode == 0, answer.stderr
    assert numbers(answer.stdout, "Successfully injected") == job.pids
    assert job("config", "eval.timeout").stdout.count("\n7\n") == 6


def test_living_ones_unless_dead(job):
    job("inject")
    job("config", "memory.interval=0.1")
    ended = job.ranks[1].pid
    patience.until(lambda: job.node.rows("SELECT 1 FROM python.memory WHERE pid = %d" % ended))
    os.kill(ended, signal.SIGKILL)
    job.ranks[1].process.wait()
    gone(ended)
    count = "SELECT count(*) AS n FROM python.memory WHERE pid = %d" % ended
    assert job.node.rows(count) == [{"n": 0}]
    for words in (["query", "--dead", "-f", "json", count], [ended, "query", "-f", "json", count],
                  ["job:" + NAME, "query", "--dead", "-f", "json", count]):
        answer = job.node(*words)
        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout)[0]["n"] > 0, words
    # What is measured from outside follows the same rule.
    outside = "SELECT DISTINCT pid FROM system.cpu WHERE pid = %d" % ended
    patience.until(lambda: json.loads(job.node("query", "--dead", "-f", "json",
                                               outside).stdout))
    assert job.node.rows(outside) == []


def test_workers_that_come_and_go(any_py, start, tmp_path):
    """One that ends between the listing and the question is no error."""
    script = tmp_path / "churning_job.py"
    script.write_text(
        "import os, time\n"
        "print('ready', os.getpid(), flush=True)\n"
        "while True:\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        time.sleep(0.004)\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n")
    target = start(harness.Target, [any_py.command, str(script)])
    node = Node(tmp_path)
    try:
        for _ in range(12):
            answer = node("job:churning_job.py", "query", "-f", "json",
                          "SELECT pid FROM system.process")
            assert answer.returncode == 0, answer.stderr
            assert target.pid in [row["pid"] for row in json.loads(answer.stdout)]
        answer = node("job:churning_job.py", "backtrace")
        assert answer.returncode == 0 and "process %d" % target.pid in answer.stdout, answer.stderr
    finally:
        node.stop()


def test_a_whole_job_that_ended(job):
    job("inject")
    patience.until(lambda: len(json.loads(job(
        "query", "-f", "json", "SELECT DISTINCT pid FROM python.memory").stdout)) == 6)
    for one in job.ranks:
        one.stop()
        one.process.wait()
    for pid in job.pids:
        gone(pid)
    answer = job("query", "SELECT 1")
    assert answer.returncode == 4 and "--dead" in answer.stderr
    answer = job("query", "--dead", "-f", "json", "SELECT DISTINCT pid FROM probing.agents")
    assert answer.returncode == 0, answer.stderr
    # An earlier test's job had the same name.
    assert set(row["pid"] for row in json.loads(answer.stdout)) >= set(job.pids)


def on_terminal(node, *words):
    """What the tool writes to stderr when that is a terminal."""
    master, slave = pty.openpty()
    run = subprocess.Popen([harness.BIN] + [str(word) for word in words], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=slave, env=dict(harness.ENV, **node.env))
    os.close(slave)
    out = run.communicate(timeout=60)[0]
    try:
        said = os.read(master, 65536).decode()
    except OSError:
        said = ""
    os.close(master)
    assert run.returncode == 0, said
    return out.decode(), said.replace("\r\n", "\n")


def test_how_many_are_covered(job):
    job.node.rows("SELECT 1 FROM system.process")
    living = len(json.loads(job.node("list", "-f", "json").stdout))
    said = on_terminal(job.node, "query", TABLE)[1]
    # This very test is one, and others may come and go.
    count = int(said.split("covers ")[1].split()[0])
    assert said.startswith("probing: covers ") and "--dead adds those that ended" in said
    assert abs(count - living) <= 2
    assert " that ended" in on_terminal(job.node, "query", "--dead", TABLE)[1]
    assert on_terminal(job.node, job.pids[0], "query", TABLE)[1] == ""
    # No table, no process.
    assert on_terminal(job.node, "query", "SELECT 1 AS one")[1] == ""
    assert job.node("query", TABLE).stderr == ""
