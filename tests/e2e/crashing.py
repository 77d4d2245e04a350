"""Programs that crash, run with and without a report of it."""
import json
import os
import subprocess
import time

import harness
import package
import patience

SCRIPT = os.path.join(harness.TARGETS, "crashing.py")
LINES = harness.markers(SCRIPT)
WAYS = {"segv": -11, "bus": -7, "fpe": -8, "ill": -4, "abort": -6, "overflow": -11,
        "malloc": -11, "in_thread": -11, "kill": -11, "chain": -11}


def build(folder):
    path = os.path.join(str(folder), "libcrashing.so")
    if not os.path.exists(path):
        subprocess.run(["cc", "-O1", "-g", "-fno-builtin", "-shared", "-fPIC", "-w", "-pthread",
                        "-o", path, os.path.join(harness.TARGETS, "crashing.c")], check=True)
    return path


def with_reports(home):
    """The environment of a program that leaves a report in this folder when it crashes."""
    return dict(harness.ENV, PROBING_HOME=str(home), PROBING="1", PROBING_CRASH="1",
                PROBING_QUIET="1", PROBING_EXECUTABLE=harness.BIN,
                PYTHONPATH=":".join([package_folder(home),
                                     os.path.join(harness.ROOT, "python", "launch")]))


class Crash:
    """One run: how it ended, what it printed, and the report of it."""

    def __init__(self, py, library, way, home, armed=True, inject=False, threads=0, env=None):
        self.home = str(home)
        more = {"PROBING_HOME": self.home}
        if not inject:
            more["GO"] = "1"
        if armed and not inject:
            more = dict(with_reports(home), GO="1")
        self.process = subprocess.Popen(
            [py, SCRIPT, library, way, str(threads)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            env=dict(harness.ENV, **dict(more, **(env or {}))), preexec_fn=harness.die_with_parent)
        self.pid = int(self.process.stdout.readline().split()[1])
        harness.STARTED.add(self.pid)
        if inject:
            answer = harness.probing(self.pid, "inject", "-c", env=more)
            assert answer.returncode == 0, answer.stderr
            wait_until_on(self.pid)
        began = time.monotonic()
        out, err = self.process.communicate(b"\n", timeout=60)
        self.seconds = time.monotonic() - began
        self.code, self.out, self.err = self.process.returncode, out.decode(), err.decode()

    def list(self):
        answer = harness.probing("crashes", "-f", "json", env={"PROBING_HOME": self.home})
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def report(self, pid=None):
        answer = harness.probing("crashes", pid or self.pid, "-f", "json",
                                 env={"PROBING_HOME": self.home})
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)


def wait_until_on(pid):
    """Hooks are put into the interpreter a moment after the agent has come."""
    def state():
        with open(os.path.join(package.home(pid), "status")) as file:
            return [line for line in file if line.strip() == "collector.crash=on"]
    assert patience.once(state), "the collector did not come on"


def package_folder(home):
    folder = os.path.join(str(home), "package")
    if not os.path.exists(folder):
        os.makedirs(folder)
        package.make(folder)
    return folder
