"""A target that writes numbered rows, and the count of what of them can be read."""
import glob
import os
import signal
import struct
import subprocess
import time

import harness
import patience
from nodes import gone

TABLE = os.path.join("lake", "python.numbers")


class Numbers(harness.Target):
    """tests/targets/numbered.py with an agent, writing `rate` rows a second into a small ring."""

    def __init__(self, interpreter, node, folder, rate=20000, rows=65536):
        self.counter = os.path.join(str(folder), "count-%d" % time.monotonic_ns())
        super().__init__([harness.BIN, "run", interpreter.command,
                          os.path.join(harness.TARGETS, "numbered.py"), self.counter, str(rate),
                          str(rows)], env=node.env)
        with open("/proc/%d/stat" % self.pid) as file:
            self.id = "%d-%s" % (self.pid, file.read().rpartition(")")[2].split()[19])

    def parts(self, node):
        """Its files in a node's history."""
        return glob.glob(os.path.join(node.home, TABLE, "date=*", "host=*", "process=" + self.id,
                                      "part-*.parquet"))

    def sealed(self, node):
        """Number behind the last row in a file, by the names alone."""
        return max([int(path.rpartition("-")[2].partition(".")[0]) + 1
                    for path in self.parts(node)] + [0])

    def written(self):
        """At least so many rows are complete."""
        with open(self.counter, "rb") as file:
            return struct.unpack("q", file.read(8))[0]

    def halt(self):
        """Stops writing; returns how many rows there are."""
        with open(self.counter, "rb+") as file:
            file.seek(8)
            file.write(struct.pack("q", 1))
        before = -1
        while self.written() != before:
            before = self.written()
            time.sleep(0.05)
        return before

    def wait_for(self, rows, seconds=patience.SECONDS):
        end = time.monotonic() + seconds
        while self.written() < rows and time.monotonic() < end:
            time.sleep(0.005)
        assert self.written() >= rows
        return self

    def kill(self, wait=True):
        """
        As the kernel's out-of-memory killer does it; returns how many rows it had written. Without
        `wait` its remains stay, as with a parent that never looks.
        """
        os.kill(self.pid, signal.SIGKILL)
        if wait:
            self.process.wait()
        else:
            assert gone(self.pid)
        return self.written()


def census(node, target, **how):
    """(rows, different ones, lowest, highest) that a query finds of a process."""
    row, = node.rows("SELECT count(*) AS c, count(DISTINCT n) AS d, min(n) AS a, max(n) AS z "
                     "FROM python.numbers", target=target, **how)
    return row["c"], row["d"], row["a"], row["z"]


def assert_whole(node, target, written, **how):
    """Every row from the first to the last that was written is there, and once."""
    rows, different, lowest, highest = census(node, target, **how)
    assert rows == different, "%d rows are there twice" % (rows - different)
    assert (lowest, highest + 1) == (0, rows), "rows are missing"
    # The count is written behind a batch: the end may have come in the midst of one.
    assert written <= rows <= written + 1000
    return rows


def kill_node(node):
    """kill -9, if one runs."""
    pid = node.pid()
    if pid:
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)


def broken_off(node, *words, after):
    """A command that is killed at some moment."""
    tool = subprocess.Popen([harness.BIN] + [str(word) for word in words],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=dict(harness.ENV, **node.env))
    time.sleep(after)
    tool.kill()
    tool.wait()
