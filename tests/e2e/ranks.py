"""Jobs of several ranks that talk through torch.distributed."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import harness
from nodes import Node


# Below those that the system gives to whoever asks for any, so that none is taken before it is
# used; each is given once by a process of the tests.
PORTS = iter(range(20000 + os.getpid() % 10000, 32000))


def free_port():
    for port in PORTS:
        with socket.socket() as door:
            try:
                door.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port is left")


class Job:
    """A job whose ranks say "rank 0 is process 4242"; all of them are there when it returns."""

    def __init__(self, command, ranks, folder, **env):
        self.port = free_port()
        self.out = os.path.join(str(folder), "ranks.out")
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(
                [part.replace("PORT", str(self.port)) for part in command],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=dict(harness.ENV, TMPDIR=str(folder), OMP_NUM_THREADS="1", **env),
                start_new_session=True, preexec_fn=harness.die_with_parent)
        self.pids = {}
        end = time.monotonic() + 90
        while len(self.pids) < ranks:
            if time.monotonic() > end or self.process.poll() is not None:
                text = self.text()
                self.stop()
                raise AssertionError("ranks did not come: " + text)
            time.sleep(0.1)
            self.pids = {int(rank): int(pid) for rank, pid
                         in re.findall(r"rank (\d+) is process (\d+)", self.text())}
        harness.STARTED.update(self.pids.values())

    def text(self):
        with open(self.out, errors="replace") as file:
            return file.read()

    def says(self, what, seconds=60):
        """Waits for a text."""
        end = time.monotonic() + seconds
        while what not in self.text():
            assert time.monotonic() < end and self.process.poll() is None, self.text()
            time.sleep(0.05)

    def stop(self):
        """Each rank by its number; torchrun gives its ranks sessions of their own."""
        for pid in list(self.pids.values()) + [self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


class Pair:
    """Two ranks of a script that wait for a file, a node, and the book that each of them keeps."""

    def __init__(self, python, script, folder):
        self.node = Node(folder)
        self.go = os.path.join(str(folder), "go")
        self.job = Job([python, os.path.join(harness.TARGETS, script), "PORT", self.go], 2, folder)
        inject(self.node, self.job)
        open(self.go, "w").close()
        for rank in (0, 1):
            self.job.says("end of book %d" % rank)
        self.books = {int(rank): json.loads(text) for rank, text
                      in re.findall(r"^book (\d) (.*)$", self.job.text(), re.M)}
        self.mine = "job LIKE '%%:%d'" % self.job.port

    def rows(self, sql, rank):
        return self.node.rows(sql, self.job.pids[rank])

    def stop(self):
        self.job.stop()
        self.node.stop()


def torchrun(script, ranks, *args):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
            "--master-port", "PORT", os.path.join(harness.ROOT, "examples", script)] + [
                str(arg) for arg in args]


def inject(node, job):
    for pid in job.pids.values():
        answer = node(pid, "inject")
        assert answer.returncode == 0, answer.stderr
    for pid in job.pids.values():
        wait_for(node, "SELECT state FROM probing.agents WHERE pid = %d AND "
                       "collector = 'torch_comm' AND state = 'on'" % pid)


def wait_for(node, sql, seconds=40):
    """Rows of a query, once there are any."""
    end = time.monotonic() + seconds
    while True:
        rows = node.rows(sql)
        if rows:
            return rows
        assert time.monotonic() < end, "no rows: " + sql
        time.sleep(0.2)
