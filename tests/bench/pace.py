"""
A training process whose steps are timed while the collector is switched in turn.

Turns of one process are compared with their neighbours, so that what drifts, drifts for all of
them. A figure is a median of such ratios together with the range that holds the true one with 95 %
(by ranks: nothing is assumed of how they are spread), so that "at most 1 %" can be told from noise.
"""
import array
import math
import os
import re
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import rings  # noqa: E402  (its folder is put on the path above)

SCRIPT = os.path.join(ROOT, "tests", "targets", "torch_pace.py")
# Until the hooks are in or out and the first steps are over, in which names are found.
SETTLE, SETTLE_STEPS = 0.08, 4
# A step that takes so many times the usual one was held up by something else.
HELD_UP = 3
# A turn has at least so many steps.
STEPS = 8
WALL, COMPUTED = 0, 1
BEGAN = time.time()


def say(text):
    print("  [%5.1f s] %s" % (time.time() - BEGAN, text), file=sys.stderr, flush=True)


class Job:
    """tests/targets/torch_pace.py and the tool."""

    def __init__(self, tool, folder, *options, python=sys.executable, env=None, quiet=False):
        self.tool, self.path = tool, os.path.join(folder, "times-%d" % time.time_ns())
        self.step = 0
        self.env = dict(os.environ, PROBING_HOME=folder)
        self.process = subprocess.Popen(
            [python, SCRIPT, self.path] + [str(option) for option in options],
            env=dict(os.environ, **(env or {})), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if quiet else None, encoding="utf-8")
        words = self.process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise RuntimeError("the training process did not start")
        self.pid = int(words[1])
        with open("/proc/%d/stat" % self.pid) as file:
            start = file.read().rpartition(")")[2].split()[19]
        self.home = "/dev/shm/probing-%d/%d-%s" % (os.getuid(), self.pid, start)

    def probing(self, *words):
        subprocess.run([self.tool, str(self.pid)] + list(words), check=True, env=self.env,
                       stdout=subprocess.DEVNULL, timeout=20)

    def status(self):
        return rings.lines(self.home, "status")["collector.torch"]

    def period(self):
        """One step in how many is traced."""
        found = re.search(r"one step in (\d+)", self.status())
        return int(found.group(1)) if found else 1

    def rows(self, table):
        return rings.rows(self.home, table) if os.path.exists(self.home) else []

    def turn(self, settings, seconds):
        """A turn with these settings: (from, to) by the clock."""
        self.probing("config", *settings)
        time.sleep(max(SETTLE, SETTLE_STEPS * self.step))
        began = time.time()
        time.sleep(seconds)
        return began, time.time()

    def look_at_pace(self):
        """Seconds of a step so far, by what the collector has written."""
        took = [row["step_ms"] for row in self.rows("python.training_logs") if row["step_ms"]]
        self.step = statistics.median(took) / 1000 if took else 0

    def turns(self, states, seconds, least):
        """
        The states {name: settings} in turn for so many seconds, each time at least that long; the
        first one also ends it. [(name, from, to)]
        """
        self.look_at_pace()
        first, found, began = next(iter(states)), [], time.time()
        each = max(least, (STEPS + 1) * self.step)
        while time.time() < began + seconds or not found:
            found += [(name,) + self.turn(settings, each) for name, settings in states.items()]
        return found + [(first,) + self.turn(states[first], each)]

    def end(self):
        """When each step ended, by the clock and by computing time; and what the process said."""
        with open(self.path + ".stop", "w"):
            pass
        said = self.process.communicate(timeout=60)[0]
        times = array.array("d")
        with open(self.path, "rb") as file:
            times.frombytes(file.read())
        return list(zip(times[::2], times[1::2])), said

    def kill(self):
        """Whatever happens, it does not stay."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def steps(times, began, ended, by=WALL):
    """Milliseconds of the steps between two instants; by=COMPUTED: that the thread has computed."""
    inside = [pair for pair in times if began <= pair[0] <= ended]
    return [(b[by] - a[by]) * 1000 for a, b in zip(inside, inside[1:])]


def usual(values):
    """Their mean, but one that was held up counts as a few usual ones."""
    most = HELD_UP * statistics.median(values)
    return statistics.mean(min(value, most) for value in values)


class Figure:
    """The median of some ratios, and where the true one is with 95 %."""

    def __init__(self, ratios):
        found = sorted(ratios) or [math.nan]
        n = len(found)
        # The sign test: with 2.5 % no more than so many are on the wrong side by chance.
        out, ways, sum_of_ways = 0, 1, 1
        while out < n // 2 and 40 * sum_of_ways <= 2 ** n:
            ways = ways * (n - out) // (out + 1)
            out += 1
            sum_of_ways += ways
        out = max(out - 1, 0)
        self.count, self.middle = n, statistics.median(found)
        self.low, self.high = found[out], found[-1 - out]

    def whole(self, period, idle, bare):
        """
        The cost of all steps, when this is that of the traced ones, of which there is one in so
        many, and idle what every step costs. Its bounds are no narrower than the true ones.
        """
        made = Figure([])
        made.count = self.count
        for part in ("low", "middle", "high"):
            setattr(made, part, 1 + (getattr(self, part) - 1) / period
                    + getattr(idle, part) / bare)
        return made

    def __str__(self):
        return "%+.2f %% (%+.2f to %+.2f of %d)" % (
            100 * (self.middle - 1), 100 * (self.low - 1), 100 * (self.high - 1), self.count)

    def holds(self, limit):
        """At most this: yes, no, or None when the noise does not let it be told."""
        if self.high <= limit:
            return True
        return False if self.low > limit else None


def ratio(pace, beside):
    return pace / beside


def difference(pace, beside):
    return pace - beside


def compare(times, turns, name, base, by=WALL, figure=usual, how=ratio):
    """The turns of one state to those of another before and after it."""
    paces = [(state, steps(times, began, ended, by)) for state, began, ended in turns]
    paces = [(state, figure(values) if len(values) > 1 else None) for state, values in paces]
    ratios = []
    for i, (state, pace) in enumerate(paces):
        before = [p for s, p in paces[:i] if s == base and p][-1:]
        after = [p for s, p in paces[i:] if s == base and p][:1]
        if state == name and pace and before and after:
            ratios.append(how(pace, (before[0] + after[0]) / 2))
    return Figure(ratios)


def beside(times, began, ended, period, by):
    """Where one step in so many is traced: what it took, and the two untraced ones beside it."""
    took = [b[by] - a[by] for a, b in zip(times, times[1:])]
    # The first one in the list is number 1.
    return [(took[i], took[i - 1], took[i + 1]) for i in range(period - 1, len(took) - 1, period)
            if times[i - 1][0] >= began and times[i + 2][0] <= ended]


def traced(times, began, ended, period=2, by=WALL):
    """
    Traced steps to those beside them, which are some milliseconds away. The median is that of the
    usual one; the few in which more is looked at (brake.c) are too few to move it.
    """
    return Figure(2 * its / (before + after)
                  for its, before, after in beside(times, began, ended, period, by))


def traced_mean(times, began, ended, period=2, by=WALL):
    """
    What a traced step takes more than those beside it, in milliseconds: the mean, in which those
    count in which more is looked at. One that was held up counts as a few usual ones.
    """
    found = beside(times, began, ended, period, by)
    most = HELD_UP * statistics.median(its for its, _, _ in found)
    added = [1000 * (min(its, most) - (min(before, most) + min(after, most)) / 2)
             for its, before, after in found]
    made, spread = Figure([]), 1.96 * statistics.stdev(added) / len(added) ** 0.5
    made.count, made.middle = len(added), statistics.mean(added)
    made.low, made.high = made.middle - spread, made.middle + spread
    return made


def pooled(times, turns, name, by=WALL):
    """Median milliseconds of all steps of a state."""
    return statistics.median(sum((steps(times, began, ended, by) for state, began, ended in turns
                                  if state == name), []))
