"""What sampling allocations costs a loop that does little else, beside tracemalloc and memray."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import measure
from measure import harness

SCRIPT = os.path.join(harness.TARGETS, "alloc_loop.py")
BAR = 1  # per cent


def read(path):
    with open(path) as file:
        return [tuple(map(float, line.split())) for line in file if line.endswith("\n")]


def set_sites(tool, pid, value):
    subprocess.run([tool, str(pid), "config", "memory.sites=" + value], check=True,
                   stdout=subprocess.DEVNULL, env=harness.ENV)
    time.sleep(1.5)  # hooks go in and out within a second


def window(path, seconds):
    """The fastest round: what other load adds is not the hooks'."""
    began = time.time()
    time.sleep(seconds)
    return min(took for end, took in read(path) if end - took > began)


def sampled(tool, quick, folder):
    """By how many per cent the loop is slower with memory.sites, in each pair of windows."""
    path = os.path.join(folder, "rounds")
    target = harness.Target([sys.executable, SCRIPT, path])
    slower = []
    try:
        set_sites(tool, target.pid, "off")
        for _ in range(2 if quick else 12):
            bare = window(path, 1.5)
            set_sites(tool, target.pid, "on")
            there = window(path, 1.5)
            set_sites(tool, target.pid, "off")
            bare = min(bare, window(path, 1.5))
            slower.append((there / bare - 1) * 100)
    finally:
        target.stop()
    return slower


def rival(name, folder):
    """How many times slower the loop is with it; None: it is not there."""
    path = os.path.join(folder, name)
    done = subprocess.run([sys.executable, SCRIPT, path, name], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=harness.ENV)
    if done.returncode != 0:
        return None
    pairs = read(path)
    return min(there for _, there in pairs) / min(bare for bare, _ in pairs)


def rows(quick):
    with tempfile.TemporaryDirectory() as folder:
        slower = statistics.median(sampled(measure.tool_path(), quick, folder))
        others = [(name, rival(name, folder)) for name in ("tracemalloc", "memray")]
    yield ("memory.sites, allocation-heavy loop slower by", "%d %%" % BAR, "%.2f %%" % slower,
           ", ".join("%s %.1f times" % pair if pair[1] else pair[0] + " not there"
                     for pair in others), slower <= BAR)


if __name__ == "__main__":
    for found in rows("--quick" in sys.argv):
        print(*found, sep=" | ")
