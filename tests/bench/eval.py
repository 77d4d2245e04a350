"""
What `eval "1+1"` costs once the agent is there: rows(quick) for the table of run.py.

The rival is the original tool from the package index, in a virtual environment of its own, on a
target that it was loaded into at start-up; without it (no network) its column stays empty.
"""
import os
import statistics
import subprocess
import sys
import time

import measure
from measure import harness

ORIGINAL = os.path.join(measure.ROOT, "build", "bench-original")
LIMIT_MS = 8


def original():
    """The original's (python, tool), installed at the first use; None when it cannot be had."""
    python, tool = (os.path.join(ORIGINAL, "bin", name) for name in ("python", "probing"))
    if not os.path.exists(tool):
        try:
            subprocess.run([sys.executable, "-m", "venv", ORIGINAL], check=True, timeout=120,
                           stdout=subprocess.DEVNULL)
            subprocess.run([python, "-m", "pip", "install", "-q", "probing", "ipykernel"],
                           check=True, timeout=300, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError):
            return None
    return python, tool


def target(python, mode, env=None):
    script = os.path.join(harness.TARGETS, "probed.py")
    return harness.Target([python, script, mode], env=env)


def works(command):
    try:
        run = subprocess.run(command, env=harness.ENV, timeout=20, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
    except subprocess.SubprocessError:
        return False
    return run.returncode == 0 and run.stdout.strip() == b"2"


def compare(mode, runs, rival):
    """Median milliseconds of ours and theirs (None when it does not answer), interleaved."""
    ours = target(sys.executable, mode)
    theirs = target(rival[0], mode, {"PROBING": "1"}) if rival else None
    commands = {"ours": [measure.tool_path(), str(ours.pid), "eval", "1+1"]}
    try:
        if not works(commands["ours"]):
            raise RuntimeError("eval does not work")
        if theirs:
            time.sleep(1)  # its server starts in the background
            command = [rival[1], "-t", str(theirs.pid), "eval", "1+1"]
            # Its output needs more than it installs on some versions: the exit code has to do.
            if subprocess.run(command, env=harness.ENV, timeout=30, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0:
                commands["theirs"] = command
        found = measure.interleave(commands, runs)
    finally:
        ours.stop()
        if theirs:
            theirs.stop()
    return found["ours"], found.get("theirs")


def first(runs):
    """The first evaluation in a process that has the agent: the Python part is made then."""
    took = []
    for _ in range(runs):
        process = target(sys.executable, "idle")
        try:
            subprocess.run([measure.tool_path(), str(process.pid), "inject"], check=True,
                           stdout=subprocess.DEVNULL, env=harness.ENV)
            took.append(measure.once([measure.tool_path(), str(process.pid), "eval", "1+1"]))
        finally:
            process.stop()
    return statistics.median(took)


def rows(quick):
    runs = 5 if quick else 41
    rival = original()
    for mode in ("idle", "busy"):
        ours, theirs = compare(mode, runs, rival)
        # A thread that computes keeps the GIL for 5 ms: Python's own share of the second row.
        limit = LIMIT_MS if mode == "idle" else LIMIT_MS + 5
        good = ours <= limit and (theirs is None or ours < theirs)
        yield ('eval "1+1", %s process' % mode, "%d ms, the original" % limit,
               "%.1f ms" % ours, "%.1f ms" % theirs if theirs else "", good,
               "" if theirs else "no original to compare with")
    yield ('eval "1+1", the first in a process', "", "%.1f ms" % first(3 if quick else 11), "",
           None, "")


if __name__ == "__main__":
    for row in rows("--quick" in sys.argv):
        print(" | ".join(str(cell) for cell in row))
