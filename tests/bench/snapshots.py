"""Snapshots of a busy program whose legal stacks are known, counted by truth."""
import json
import os
import subprocess
import tempfile

from measure import harness

import chainlaw


class Busy:
    """tests/targets/chains.py running, with its law."""

    def __init__(self, python):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "program.py")
        script = os.path.join(harness.TARGETS, "chains.py")
        self.target = harness.Target([python, script, path])
        self.pid = self.target.pid
        self.law = chainlaw.Law(path)

    def stop(self):
        self.target.stop()
        self.folder.cleanup()


def take(tool, busy, count, *options):
    """count snapshots by one run of the tool."""
    tally = chainlaw.Tally(busy.law)
    command = [tool, str(busy.pid), "backtrace", "-a", "-f", "json", "-w", "0"]
    command += ["--count", str(count)]
    run = subprocess.Popen(command + list(options), stdout=subprocess.PIPE, env=harness.ENV)
    for line in run.stdout:
        tally.add(json.loads(line.decode()))
    run.stdout.close()
    if run.wait() != 0 or tally.snapshots != count:
        raise RuntimeError("%d of %d snapshots" % (tally.snapshots, count))
    return tally


def take_spy(spy, busy, count):
    """The same from py-spy without stopping, one process each; failures count as torn."""
    tally = chainlaw.Tally(busy.law)
    command = [spy, "dump", "--json", "--nonblocking", "--pid", str(busy.pid)]
    for _ in range(count):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if run.returncode:
            tally.snapshots += 1
            tally.stacks += 8
            tally.torn += 8
            continue
        threads = [{"name": thread["thread_name"], "torn": False, "frames": [
            {"func": frame["name"], "file": frame["filename"], "lineno": frame["line"],
             "frame_type": "python"} for frame in thread["frames"]]}
            for thread in json.loads(run.stdout.decode())]
        tally.add({"threads": threads})
    return tally


def pauses(tool, pid, count):
    """Microseconds that a running thread was held, one per snapshot that held it."""
    command = [tool, str(pid), "backtrace", "-n", "-f", "json", "-w", "0", "--count", str(count)]
    run = subprocess.run(command, stdout=subprocess.PIPE, env=harness.ENV, check=True)
    found = [json.loads(line)["threads"][0].get("pause_us") for line in run.stdout.splitlines()]
    return [value for value in found if value]


def whole(tool, pid):
    """Threads read with `-a -n`, and how many of them reach the start of their thread."""
    command = [tool, str(pid), "backtrace", "-a", "-n", "-f", "json"]
    run = subprocess.run(command, stdout=subprocess.PIPE, env=harness.ENV, check=True)
    threads = json.loads(run.stdout.decode())["threads"]
    return len(threads), sum(reaches_start(thread) for thread in threads)


def reaches_start(thread):
    """The outermost frame is the C library's start of a process or a thread."""
    if not thread["frames"]:
        return False
    last = thread["frames"][-1]
    place = " ".join(str(last.get(key) or "") for key in ("func", "file", "module"))
    return last["frame_type"] == "native" and ("start" in place or "clone" in place
                                               or "libc.so" in place)
