"""The longest gap that a target sees in its own clock while it is looked at."""
import mmap
import os
import statistics
import tempfile
import time

from measure import harness, once, pin

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
    length as the first command's: {name: [milliseconds]}.
    """
    watched = Watched(python, mode, idle)
    cpus = sorted(os.sched_getaffinity(0))
    try:
        if len(cpus) > 1:
            pin(watched.pid, {cpus[-1]})
            os.sched_setaffinity(0, set(cpus[:-1]))
        made = {name: command(watched.pid) for name, command in commands.items()}
        gaps = {name: [] for name in ["bare"] + list(made)}
        length = 0.02
        for _ in range(rounds):
            gaps["bare"].append(round_of(watched, lambda: time.sleep(length)))
            for index, (name, command) in enumerate(made.items()):
                began = time.time()
                repeat = lambda: [once(command) for _ in range(per_round)]  # noqa: E731
                gaps[name].append(round_of(watched, repeat))
                if index == 0:
                    length = time.time() - began
        return gaps
    finally:
        os.sched_setaffinity(0, set(cpus))
        watched.stop()


def show(values):
    return "%.3f ms (max %.2f)" % (statistics.median(values), max(values))
