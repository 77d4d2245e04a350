"""Crashes of all kinds: is there a report with the right line, and did the process end as ever?"""
import os
import shutil
import statistics
import sys
import tempfile

import measure  # noqa: F401 (finds the harness of the end-to-end tests)
import crashing

# Way, how it ends, the marker of the line, threads beside it.
KINDS = [("segv", -11, "call", 0), ("bus", -7, "call", 0), ("fpe", -8, "call", 0),
         ("ill", -4, "call", 0), ("abort", -6, "call", 0), ("kill", -11, "kill", 0),
         ("malloc", -11, "call", 0), ("overflow", -11, "call", 0),
         ("in_thread", -11, "call", 0), ("segv", -11, "call", 150), ("fork", 0, "call", 0)]


def right_line(run, way, marker):
    """Python's innermost line of the thread that crashed; of the waiting one for a C thread."""
    if way == "fork":
        reports = [one for one in run.list() if one["command"].endswith("fork 0")]
        return len(reports) == 1 and reports[0]["at"]["lineno"] == crashing.LINES[marker]
    reports = [one for one in run.list() if one["pid"] == run.pid]
    if len(reports) != 1:
        return False
    report = run.report(reports[0]["id"])
    for thread in report["process"]["threads"]:
        if thread["is_main"] if way == "in_thread" else thread["tid"] == report["tid"]:
            lines = [frame["lineno"] for frame in thread["frames"]
                     if frame["frame_type"] == "python"]
            return lines[:1] == [crashing.LINES[marker]]
    return False


def rows(quick):
    rounds = 2 if quick else 91
    found = {"lines": 0, "codes": 0, "all": 0}
    later, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        library = crashing.build(folder)
        for way, code, marker, threads in KINDS:
            bare = statistics.median(
                crashing.Crash(sys.executable, library, way, folder, armed=False,
                               threads=threads).seconds for _ in range(3))
            for _ in range(rounds):
                run = crashing.Crash(sys.executable, library, way, folder, threads=threads)
                good = right_line(run, way, marker)
                found["all"] += 1
                found["lines"] += good
                found["codes"] += run.code == code
                later.append(run.seconds - bare)
                if not good:
                    wrong.append("%s/%d" % (way, threads))
                shutil.rmtree(os.path.join(folder, "crashes"), ignore_errors=True)
    share = 100 * found["lines"] / found["all"]
    yield ("%d crashes: report with the right line" % found["all"], "99.9 %", "%.2f %%" % share,
           "", share >= 99.9, ", ".join(sorted(set(wrong))))
    yield ("  exit status as without us", "all", "%d of %d" % (found["codes"], found["all"]), "",
           found["codes"] == found["all"])
    yield ("  later than without us", "0.5 s", "%.0f ms median, %.0f ms at most" % (
        1000 * statistics.median(later), 1000 * max(later)), "", max(later) <= 0.5)
