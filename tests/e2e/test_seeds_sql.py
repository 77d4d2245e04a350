"""Every query of the project's description, as typed there, on a living and a dead process."""
import glob
import json
import os
import shutil
import signal

import pytest

import agents
import harness
import patience
import querying
from querying import table

TRACE = ["timestamp", "step", "seq", "module", "module_type", "stage", "operation_name",
         "duration_ms"]

# (the command line, the columns it must begin with, does it have rows: "live", "always", "no")
LINES = [
    ('probing $TRAIN_PID "SELECT * FROM python.backtrace"', ["depth", "func", "file", "lineno"],
     "live"),
    ("""probing <pid> query "SELECT * FROM memory_usage WHERE timestamp > """
     """now() - interval '5 min'\"""", ["timestamp", "memory_mb"], "always"),
    ('probing query "SELECT avg(gpu_util) FROM gpu_metrics WHERE timestamp > now() - 60"',
     ["avg(gpu_util)"], "one"),
    ('probing query "SELECT src_rank, dst_rank, avg(latency_ms) FROM comm_metrics"',
     ["src_rank", "dst_rank", "avg(latency_ms)"], "no"),
    ('probing <pid> query "SELECT hour(timestamp), avg(memory_mb) FROM memory_usage '
     'GROUP BY hour(timestamp)"', ["hour(timestamp)", "avg(memory_mb)"], "always"),
    ('''probing query "
  SELECT operation_name, avg(duration_ms), count(*)
  FROM profiling_data 
  WHERE timestamp > now() - interval '5 minutes'
  GROUP BY operation_name
  ORDER BY avg(duration_ms) DESC
"''', ["operation_name", "avg(duration_ms)", "count(*)"], "no"),
    ('''probing query "
  SELECT epoch, avg(loss), min(loss), count(*) as steps
  FROM training_logs 
  GROUP BY epoch 
  ORDER BY epoch
"''', ["epoch", "avg(loss)", "min(loss)", "steps"], "no"),
    ('probing -t <pid> query "SELECT * FROM python.torch_trace"', TRACE, "no"),
    ('''probing -t <pid> query "-- 示例：找出最耗时的 10 个操作
SELECT
    operation_name,
    AVG(duration_ms) as avg_duration,
    COUNT(*) as call_count
FROM python.torch_trace
WHERE timestamp > now() - interval '5 minutes'
GROUP BY operation_name
ORDER BY avg_duration DESC
LIMIT 10"''', ["operation_name", "avg_duration", "call_count"], "no"),
    ('probing -t <pid> query "SELECT * FROM python.torch_trace LIMIT 10"', TRACE, "no"),
    ('''probing $ENDPOINT query "
SELECT 
    step,
    module,
    SUM(allocated) as total_memory_mb,
    COUNT(*) as operation_count
FROM python.torch_trace 
WHERE step > 100 
GROUP BY step, module 
ORDER BY total_memory_mb DESC 
LIMIT 10"''', ["step", "module", "total_memory_mb", "operation_count"], "no"),
    ('probing $ENDPOINT query "SELECT func, file, lineno FROM python.backtrace '
     'ORDER BY depth LIMIT 3"', ["func", "file", "lineno"], "live"),
    ('probing $ENDPOINT query "SELECT func, file, lineno, depth FROM python.backtrace '
     'ORDER BY depth LIMIT 10"', ["func", "file", "lineno", "depth"], "live"),
    ('probing $ENDPOINT query "SELECT step, AVG(allocated) as avg_memory, MAX(allocated) as '
     'peak_memory FROM python.torch_trace WHERE step >= (SELECT MAX(step) - 20 FROM '
     'python.torch_trace) GROUP BY step ORDER BY step"', ["step", "avg_memory", "peak_memory"],
     "no"),
    ('probing $ENDPOINT query "SELECT module, stage, AVG(allocated) as avg_memory, COUNT(*) as '
     'frequency FROM python.torch_trace WHERE step >= (SELECT MAX(step) - 5 FROM '
     'python.torch_trace) GROUP BY module, stage ORDER BY avg_memory DESC LIMIT 10"',
     ["module", "stage", "avg_memory", "frequency"], "no"),
    ('probing $ENDPOINT query "SELECT name, value FROM information_schema.df_settings LIMIT 5"',
     ["name", "value"], "always"),
    ('probing $ENDPOINT query "SELECT func, file, lineno FROM python.backtrace '
     'ORDER BY depth LIMIT 5"', ["func", "file", "lineno"], "live"),
    ('probing $ENDPOINT query "SELECT func, file, lineno FROM python.backtrace ORDER BY depth"',
     ["func", "file", "lineno"], "live"),
]


class Job:
    """A probed process with some rows of python.memory; alive, or killed after that."""

    def __init__(self, any_py, folder, dead):
        self.node = querying.Node(folder)
        self.target = agents.Probed(any_py)
        self.pid, self.dead = self.target.pid, dead
        try:
            harness.probing(self.pid, "inject", env={"PROBING_MEMORY_INTERVAL": "0.1"})
            self.node.text(self.pid, "query", "SET probing.memory.interval = 0.1")
            patience.until(lambda: self.node.rows(
                "SELECT count(*) AS n FROM memory_usage", self.pid)[0]["n"] >= 3)
            if dead:
                os.kill(self.pid, signal.SIGKILL)
                self.target.process.wait()
        except BaseException:
            self.stop()
            raise

    def type(self, line):
        return self.node.shell(line.replace("<pid>", str(self.pid)), ENDPOINT=str(self.pid),
                               TRAIN_PID=str(self.pid))

    def stop(self):
        self.node.stop()
        self.target.stop()
        querying.forget(self.pid)


@pytest.fixture(scope="module", params=["living", "dead"])
def job(request, any_py, tmp_path_factory):
    it = Job(any_py, tmp_path_factory.mktemp("seeds"), request.param == "dead")
    yield it
    it.stop()


@pytest.mark.parametrize("line, columns, has", LINES, ids=range(len(LINES)))
def test_as_typed(job, line, columns, has):
    answer = job.type(line)
    assert answer.returncode == 0, answer.stderr
    names, rows = table(answer.stdout)
    # As they were typed: the engine itself would say "hour"("timestamp") and count_star(). Units
    # that a name does not say stand behind it.
    assert [name.split(" [")[0] for name in names[:len(columns)]] == columns
    if has == "one":
        assert len(rows) == 1
    elif has == "always" or (has == "live" and not job.dead):
        assert rows
    elif has == "live":
        assert not rows
    check_notes(job, line, has, answer.stderr.splitlines())


def check_notes(job, line, has, said):
    """An answer without rows says why."""
    if "comm_metrics" in line:
        assert said.pop(0) == "probing: no GROUP BY: grouped by src_rank, dst_rank"
    if "gpu_metrics" in line:
        assert not said or said[0].startswith("probing: gpu.utilization: "), said
        return
    if has in ("always", "one") or (has == "live" and not job.dead):
        assert said == []
        return
    assert len(said) == 1, said
    table = ("python.backtrace" if has == "live" else
             "python.comm" if "comm_metrics" in line else
             "python.training_logs" if "training_logs" in line else "python.torch_trace")
    if "probing query" in line:
        # Whatever else lives on this machine is meant, too.
        assert table in said[0] or "no probes in" in said[0], said
    elif has == "live":
        assert said == ["probing: process %d has ended, and python.backtrace is about living "
                        "ones" % job.pid]
    elif job.dead:
        assert said == ["probing: process %d has ended and left no rows in %s" % (job.pid, table)]
    else:
        assert said == ["probing: %s: torch is not imported in process %d" % (table, job.pid)]


def test_the_stack(job):
    if job.dead:
        pytest.skip("the dead have no stack")
    answer = job.type('probing $ENDPOINT query "SELECT func, file, lineno, depth FROM '
                      'python.backtrace ORDER BY depth LIMIT 10"')
    path, lines = job.target.path, job.target.lines
    assert table(answer.stdout)[1] == [
        ["work", path, str(lines["work"]), "0"], ["main", path, str(lines["main"]), "1"],
        ["<module>", path, table(answer.stdout)[1][2][2], "2"]]


def test_the_memory(job):
    rows = job.node.rows("SELECT memory_mb, pid, host FROM memory_usage", job.pid)
    assert {row["pid"] for row in rows} == {job.pid}
    assert {row["host"] for row in rows} == {os.uname().nodename}
    assert all(3 < row["memory_mb"] < 500 for row in rows if row["memory_mb"] is not None)


def test_the_settings(job):
    rows = job.node.rows("SELECT name, value FROM information_schema.df_settings", job.pid)
    values = {row["name"]: row["value"] for row in rows}
    name = [name for name in values if name.endswith("memory.interval")]
    assert len(name) == 1
    if not job.dead:
        assert float(values[name[0]]) == 0.1


def test_on_a_copied_folder(job, tmp_path):
    """--store: neither a node nor the process is needed."""
    # The newest: an earlier process may have had its number.
    home = max(glob.glob("/dev/shm/probing-%d/%d-*" % (os.getuid(), job.pid)), key=os.path.getmtime)
    copy = tmp_path / os.path.basename(home)
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("control"))
    env = {"PROBING_HOME": str(tmp_path / "none")}
    sql = "SELECT count(*) AS n, min(pid) AS pid FROM python.memory"
    for folder, target in ((copy, []), (tmp_path, [job.pid]), (copy, [copy.name])):
        answer = harness.probing("--store", folder, *target, "query", "-f", "json", sql, env=env)
        assert (answer.returncode, answer.stderr) == (0, ""), answer
        row, = json.loads(answer.stdout)
        assert row["n"] >= 3 and row["pid"] == job.pid
    names, rows = table(harness.probing("--store", copy, "tables", env=env).stdout)
    assert int({row[0]: row[1] for row in rows}["python.memory"]) >= 3
    listed = json.loads(harness.probing("--store", copy, "list", "-f", "json", env=env).stdout)
    assert [item["pid"] for item in listed] == [job.pid]
    assert harness.probing("--store", copy, "4194999", "query", sql, env=env).returncode == 4
    assert not (tmp_path / "none").exists()


def test_list_of_the_dead(job):
    listed = json.loads(job.node.text("list", "--dead", "-f", "json"))
    found = [item for item in listed if item["pid"] == job.pid]
    if not job.dead:
        assert not found
        return
    assert len(found) == 1 and found[0]["rows"] >= 3 and "python.memory" in found[0]["tables"]
    assert "probed.py" in found[0]["command"] and found[0]["ended"]
    text = job.node.text("list", "--dead")
    assert text.splitlines()[0].split() == ["pid", "python", "rank", "ended", "how", "tables",
                                            "rows", "command"]
    assert any(line.split()[0] == str(job.pid) for line in text.splitlines()[1:])
    by_id = job.node.rows("SELECT count(*) AS n FROM python.memory", found[0]["process"])
    assert by_id[0]["n"] >= 3
