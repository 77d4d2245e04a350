"""What sampling costs the target and the sampler, beside py-spy's."""
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import measure
from measure import harness

BAR_SLOWER = {"150 idle threads, 100 Hz": 0.5}  # per cent; nothing is promised of 1 kHz
BAR_CPU = {"150 idle threads, 100 Hz": 10, "one busy thread, 1 kHz": 6}


class Paced(harness.Target):
    """A target whose progress can be read from outside."""

    def __init__(self, folder, threads):
        self.path = os.path.join(folder, "pace-%d" % threads)
        with open(self.path, "wb") as file:
            file.write(bytes(8))
        super().__init__([sys.executable, os.path.join(harness.TARGETS, "paced.py"), self.path,
                          str(threads)])

    def done(self):
        with open(self.path, "rb") as file:
            return struct.unpack("q", file.read(8))[0]

    def pace(self, seconds):
        """Units a second over the next seconds."""
        began, before = time.perf_counter(), self.done()
        time.sleep(seconds)
        return (self.done() - before) / (time.perf_counter() - began)


def commands(pid, rate, seconds, folder):
    out = os.path.join(folder, "out.txt")
    known = {"probing": [measure.tool_path(), str(pid), "flamegraph", "-r", str(rate), "-d",
                         str(seconds), "-f", "collapsed", "-o", out]}
    spy = os.environ.get("PY_SPY") or measure.spy_path()
    if spy:
        known["py-spy"] = [spy, "record", "-p", str(pid), "-r", str(rate), "-d",
                           str(int(seconds) or 1), "-f", "raw", "-o", out]
    return known


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_one(target, command, seconds):
    """(how much slower in per cent, the sampler's CPU in per cent of a core)."""
    bare = target.pace(seconds / 2)
    used = cpu_of_children()
    tool = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=harness.ENV)
    time.sleep(0.3)  # what opening costs is not what sampling costs
    sampled = target.pace(max(seconds - 1, 0.5))
    tool.wait()
    used = cpu_of_children() - used
    bare = (bare + target.pace(seconds / 2)) / 2
    return (bare / sampled - 1) * 100, used / seconds * 100


def case(name, threads, rate, quick, folder):
    seconds, rounds = (2, 1) if quick else (4, 5)
    target = Paced(folder, threads)
    found = {}
    try:
        known = commands(target.pid, rate, seconds, folder)
        for _ in range(rounds):
            for who, command in known.items():
                found.setdefault(who, []).append(measure_one(target, command, seconds))
    finally:
        target.stop()
    mid = {who: [statistics.median(pair[part] for pair in pairs) for part in (0, 1)]
           for who, pairs in found.items()}
    mine, other = mid["probing"], mid.get("py-spy")
    bar = BAR_SLOWER.get(name)
    yield ("slower by, " + name, "%.1f %%" % bar if bar else "", "%.2f %%" % mine[0],
           "%.1f %%" % other[0] if other else "not there", mine[0] <= bar if bar else None)
    yield ("  the sampler's own CPU", "%d %%" % BAR_CPU[name], "%.1f %%" % mine[1],
           "%.1f %%" % other[1] if other else "not there", mine[1] <= BAR_CPU[name])


def rows(quick):
    """Lines for the table: what, at most, probing, other, does it hold, note."""
    with tempfile.TemporaryDirectory() as folder:
        yield from case("150 idle threads, 100 Hz", 150, 100, quick, folder)
        yield from case("one busy thread, 1 kHz", 0, 1000, quick, folder)


if __name__ == "__main__":
    for found in rows("--quick" in sys.argv):
        print(*found, sep=" | ")
