"""A training process whose steps are timed while the collector is switched off and on in turn."""
import array
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import rings  # noqa: E402  (its folder is put on the path above)

SCRIPT = os.path.join(ROOT, "tests", "targets", "torch_pace.py")


class Job:
    """tests/targets/torch_pace.py and the tool."""

    def __init__(self, tool, folder, *options, python=sys.executable, env=None):
        self.tool, self.path = tool, os.path.join(folder, "times-%d" % time.time_ns())
        self.env = dict(os.environ, PROBING_HOME=folder)
        self.process = subprocess.Popen(
            [python, SCRIPT, self.path] + [str(option) for option in options],
            env=dict(os.environ, **(env or {})), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
            encoding="utf-8")
        words = self.process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise RuntimeError("the training process did not start")
        self.pid = int(words[1])
        with open("/proc/%d/stat" % self.pid) as file:
            start = file.read().rpartition(")")[2].split()[19]
        self.home = "/dev/shm/probing-%d/%d-%s" % (os.getuid(), self.pid, start)

    def probing(self, *words):
        subprocess.run([self.tool, str(self.pid)] + list(words), check=True, env=self.env,
                       stdout=subprocess.DEVNULL)

    def status(self):
        return rings.lines(self.home, "status")["collector.torch"]

    def rows(self, table):
        return rings.rows(self.home, table) if os.path.exists(self.home) else []

    def turn(self, state, seconds):
        """A turn with the collector on or off: (from, to) by the clock."""
        self.probing("config", "torch.collect=" + state)
        time.sleep(0.1)
        began = time.time()
        time.sleep(seconds)
        return began, time.time()

    def turns(self, count, seconds):
        """Off, on, off, ... off."""
        return [self.turn("on" if number % 2 else "off", seconds) for number in range(count | 1)]

    def end(self):
        """When each step ended, by the clock and by computing time; and what the process said."""
        with open(self.path + ".stop", "w"):
            pass
        said = self.process.communicate(timeout=120)[0]
        times = array.array("d")
        with open(self.path, "rb") as file:
            times.frombytes(file.read())
        return list(zip(times[::2], times[1::2])), said


def steps(times, began, ended, by=0):
    """Milliseconds of the steps between two instants; by=1: that the thread has computed."""
    inside = [pair for pair in times if began <= pair[0] <= ended]
    return [(b[by] - a[by]) * 1000 for a, b in zip(inside, inside[1:])]


def ratios(times, turns, figure=statistics.median, by=0):
    """Of each turn with the collector to those beside it without; sorted."""
    paces = [figure(steps(times, *turn, by=by)) for turn in turns]
    return sorted(paces[i] / ((paces[i - 1] + paces[i + 1]) / 2)
                  for i in range(1, len(paces) - 1, 2))
