"""What sampling costs the target and the sampler, beside py-spy and austin."""
import glob
import os
import re
import resource
import signal
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
    known = {"probing": [measure.tool_path(), str(pid), "flamegraph", "-r", str(rate), "-f",
                         "collapsed", "-o", out]}
    spy = os.environ.get("PY_SPY") or measure.spy_path()
    if spy:
        known["py-spy"] = [spy, "record", "-p", str(pid), "-r", str(rate), "-d",
                           str(int(seconds) or 1), "-f", "raw", "-o", out]
    austin = os.path.join(os.path.dirname(sys.executable), "austin")
    if measure.runs([austin, "--version"]):
        known["austin"] = [austin, "-i", "%dus" % (1000000 // rate), "-x", str(int(seconds) or 1),
                           "-o", out, "-p", str(pid)]
    return known


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_ns(pid, tid="*"):
    """Time on a processor of a thread, or of all threads of a process."""
    spent = 0
    for path in glob.glob("/proc/%d/task/%s/schedstat" % (pid, tid)):
        with open(path) as file:
            spent += int(file.read().split()[0])
    return spent


def window(target, tool, seconds):
    """(the target's units per second of processor time, the tool's share of a core)."""
    began, done, spent, used = (time.perf_counter(), target.done(),
                                cpu_ns(target.pid, str(target.pid)), cpu_ns(tool.pid))
    time.sleep(seconds)
    spent = cpu_ns(target.pid, str(target.pid)) - spent
    took = time.perf_counter() - began
    return ((target.done() - done) / spent if spent else None, (cpu_ns(tool.pid) - used) / took)


def measure_ours(target, command, seconds):
    """
    As measure_one, in short turns with the sampler at work and suspended, and by processor time:
    what else runs on the machine is in both. Time in which threads were held comes on top.
    """
    tool = subprocess.Popen(command + ["-d", "3600"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=harness.ENV)
    time.sleep(1)  # what opening costs is not what sampling costs
    bare, sampled, used = [], [], []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for signal_, paces in ((signal.SIGSTOP, bare), (signal.SIGCONT, sampled)):
            tool.send_signal(signal_)
            pace, share = window(target, tool, 0.2)
            if pace:
                paces.append(pace)
            if paces is sampled:
                used.append(share * 100 / 1e9)
    tool.send_signal(signal.SIGINT)
    said = tool.communicate()[1].decode()
    held = re.search(r"stops: ([\d,]+) of (\d+) us", said)
    lost = int(held.group(1).replace(",", "")) * int(held.group(2)) / 1e6 if held else 0
    return ((statistics.median(bare) / statistics.median(sampled) - 1 + lost / seconds) * 100,
            statistics.median(used))


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
                measured = measure_ours if who == "probing" else measure_one
                found.setdefault(who, []).append(measured(target, command, seconds))
    finally:
        target.stop()
    mid = {who: [statistics.median(pair[part] for pair in pairs) for part in (0, 1)]
           for who, pairs in found.items()}
    mine, bar = mid["probing"], BAR_SLOWER.get(name)

    def others(part):
        return ", ".join("%s %.1f %%" % (who, mid[who][part]) if who in mid else
                         who + " not there" for who in ("py-spy", "austin"))

    yield ("slower by, " + name, "%.1f %%" % bar if bar else "", "%.2f %%" % mine[0], others(0),
           mine[0] <= bar if bar else None)
    yield ("  the sampler's own CPU", "%d %%" % BAR_CPU[name], "%.1f %%" % mine[1], others(1),
           mine[1] <= BAR_CPU[name])


def rows(quick):
    """Lines for the table: what, at most, probing, other, does it hold, note."""
    with tempfile.TemporaryDirectory() as folder:
        yield from case("150 idle threads, 100 Hz", 150, 100, quick, folder)
        yield from case("one busy thread, 1 kHz", 0, 1000, quick, folder)


if __name__ == "__main__":
    for found in rows("--quick" in sys.argv):
        print(*found, sep=" | ")
