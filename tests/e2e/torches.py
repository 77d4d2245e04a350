"""Targets that run PyTorch: jobs that are told what to do and keep a book of what they did."""
import functools
import json
import os
import statistics
import subprocess
import sys
import time

import facts
import harness
import patience
import rings
from agents import Probed
from harness import probing

TRACE, LOGS = "python.torch_trace", "python.training_logs"


@functools.lru_cache(maxsize=None)
def pythons():
    """Interpreters with torch: those that PROBING_TEST_TORCH names, and the one of the tests."""
    named = os.environ.get("PROBING_TEST_TORCH", "").split(os.pathsep)
    return [path for path in dict.fromkeys(named + [sys.executable])
            if path and facts.remembered("torch " + path, lambda at=path: imports_torch(at))]


def imports_torch(path):
    return subprocess.run([path, "-c", "import torch"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def python():
    return pythons()[0] if pythons() else None


def check_parts(logs):
    """In every loop: no time is in two parts of a step, and all of it is in one."""
    for row in logs:
        if row["step_ms"] is None:
            continue
        parts = [row[part + "_ms"] or 0 for part in ("data", "forward", "backward", "optimizer",
                                                     "other")]
        assert min(parts) >= 0 and sum(parts) <= row["step_ms"] * 1.0001, row
        # Between ranks: what is beside the other parts.
        assert sum(parts) + row["comm_ms"] >= row["step_ms"] * 0.9999, row


class Loop(Probed):
    """A script of tests/targets whose main thread runs the job that it is told."""

    def __init__(self, script, prefix=(), env=None, interpreter=None, args=()):
        command = list(prefix) + [interpreter or python(), os.path.join(harness.TARGETS, script)]
        harness.Target.__init__(self, command + list(args), env=env)

    def turn(self, on):
        """Switched off and on, the collector begins to count anew."""
        state = "on" if on else "off"
        assert probing(self.pid, "config", "torch.collect=" + state).returncode == 0
        patience.until(lambda: self.value("torch.autograd.Variable._execution_engine is engine") ==
                           "%s\n" % (not on))

    def run(self, job):
        """The job's own book, and the rows that were written meanwhile."""
        began = time.time_ns()
        self.value("job = %r" % job)
        patience.until(lambda: self.value("job is None") == "True\n")
        book = json.loads(self.value("import json; print(json.dumps(books[%r]))" % job))
        trace, logs = ([row for row in rings.rows(self.home(), table) if row["timestamp"] > began]
                       for table in (TRACE, LOGS))
        check_parts(logs)
        return book, trace, logs

    def anew(self, job):
        self.turn(False)
        self.turn(True)
        return self.run(job)

    def sees_norms(self):
        return self.value("sys.version_info >= (3, 8)") == "True\n"

    def await_collector(self):
        patience.until(lambda: rings.lines(self.home(), "status")["collector.torch"][:2] == "on")


def injected(script, **how):
    """Every step is to be traced, however slow this machine is at the moment."""
    target = Loop(script, **how)
    assert probing(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
    target.await_collector()
    return target


def close(a, b, rel=1e-5):
    return abs(a - b) <= rel * max(abs(a), abs(b)) + 1e-9


def near(ours, theirs, slack=1.0):
    """Two clocks around the same thing; a thread may lose its processor between them."""
    gaps = [abs(a - b) for a, b in zip(ours, theirs)]
    return statistics.median(gaps) < slack


def of(rows, module, stage="forward"):
    return [row for row in rows if row["module"] == module and row["stage"] == stage]


def check_order(trace, logs):
    """Rows stand in the order of their steps, and within a step in that of their numbers."""
    places = [(row["step"], row["seq"]) for row in trace]
    assert all(a < b for a, b in zip(places, places[1:]))
    assert all(a["timestamp"] <= b["timestamp"] and a["step"] < b["step"]
               for a, b in zip(logs, logs[1:]))
