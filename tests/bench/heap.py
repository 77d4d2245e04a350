"""Python objects from outside: how long a look takes, how true it is, whether anybody notices."""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import gaps
import measure
from measure import harness

TYPES = ("Point", "list")


def look(tool, pid):
    """The answer, with the CPU time that it took: what other load adds is not the tool's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([tool, str(pid), "memory", "--heap", "-f", "json"], check=True,
                         stdout=subprocess.PIPE, env=harness.ENV).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return dict(json.loads(out), cpu=after.ru_utime + after.ru_stime
                - before.ru_utime - before.ru_stime)


def rows(quick):
    tool = measure.tool_path()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "own")
        script = os.path.join(harness.TARGETS, "million.py")
        target = harness.Target([sys.executable, script, path])
        try:
            looks = [look(tool, target.pid) for _ in range(3 if quick else 15)]
            with open(path) as file:
                count, size, took = file.read().split()
        finally:
            target.stop()
    seconds = statistics.median(one["cpu"] for one in looks)
    elapsed = statistics.median(one["seconds"] for one in looks)
    found = [row for row in looks[0]["types"] if row["type"] in TYPES]
    more = 100 * (sum(row["count"] for row in found) - int(count)) / int(count)
    heavier = 100 * (sum(row["bytes"] for row in found) - int(size)) / int(size)
    yield ("memory --heap, %d objects" % looks[0]["objects"], "0.3 s CPU a million",
           "%.2f s CPU, %.2f s elapsed" % (seconds, elapsed),
           "%.2f s inside, with the GIL" % float(took),
           seconds / looks[0]["objects"] * 1e6 <= 0.3)
    yield ("  against gc.get_objects, sys.getsizeof", "1 %",
           "%+.2f %% objects, %+.2f %% bytes" % (more, heavier), "",
           abs(more) <= 1 and abs(heavier) <= 1)
    commands = {"probing": lambda pid: [tool, str(pid), "memory", "--heap", "-f", "json"]}
    found = gaps.measure(sys.executable, "running", 0, commands, 10, 2 if quick else 20)
    mine, bare = statistics.median(found["probing"]), found["bare"]
    yield ("  longest gap of a running thread", "bare run's spread", gaps.show(found["probing"]),
           "", mine <= max(bare), "bare %s" % gaps.show(bare))
