"""The longest gap that a target sees in its own clock while it is looked at."""
import mmap
import os
import statistics
import tempfile
import time

from measure import apart, harness, once

ROUNDS = 20


class Watched:
    """tests/targets/gap.py with its shared words."""

    def __init__(self, python, mode, idle):
        handle, self.path = tempfile.mkstemp()
        os.ftruncate(handle, 4096)
        self.words = memoryview(mmap.mmap(handle, 4096)).cast("Q")
        os.close(handle)
        script = os.path.join(harness.TARGETS, "gap.py")
        self.target = harness.Target([python, script, self.path, mode, str(idle)])
        self.pid = self.target.pid

    def begin(self):
        self.words[0] += 1
        while self.words[2] != self.words[0]:
            time.sleep(0.001)

    def longest(self):
        """Longest gap since begin(), in milliseconds."""
        return self.words[1] / 1e6

    def stop(self):
        self.target.stop()
        os.unlink(self.path)


def round_of(watched, act):
    watched.begin()
    act()
    return watched.longest()


def measure(python, mode, idle, commands, per_round, rounds=ROUNDS):
    """
    Longest gap per round for each command and for a bare run of the same
    length as the tool's: {name: [milliseconds]}.
    """
    watched = Watched(python, mode, idle)
    try:
        with apart(watched.pid):
            made = {name: command(watched.pid) for name, command in commands.items()}
            return take_turns(watched, made, per_round, rounds)
    finally:
        watched.stop()


def take_turns(watched, commands, per_round, rounds):
    gaps = {name: [] for name in ["bare"] + list(commands)}
    length = 0.02
    for _ in range(rounds):
        gaps["bare"].append(round_of(watched, lambda: time.sleep(length)))
        for name, command in commands.items():
            began = time.time()
            gaps[name].append(round_of(watched, lambda: repeat(command, per_round)))
            if name == "probing":
                length = time.time() - began
    return gaps


def repeat(command, times):
    for _ in range(times):
        once(command)


def show(values):
    return "%.3f ms (max %.2f)" % (statistics.median(values), max(values))
