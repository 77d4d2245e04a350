"""Timing of commands, interleaved so that every one meets the same weather."""
import contextlib
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import harness  # noqa: E402  (its folder is put on the path above)

NULL = os.open(os.devnull, os.O_RDWR)


def tool_path():
    given = os.environ.get("PROBING_BIN")
    built = [os.path.join(ROOT, "build", kind, "probing") for kind in ("release", "dev")]
    found = [path for path in ([given] if given else built) if os.access(path, os.X_OK)]
    if not found:
        sys.exit("bench: no tool built: run make first, or set PROBING_BIN")
    return found[0]


def spy_path():
    path = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return path if os.access(path, os.X_OK) else None


def runs(command):
    """Whether there is such a program, and it starts on this system."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def once(command):
    """Milliseconds from start to exit; output goes nowhere."""
    actions = [(os.POSIX_SPAWN_DUP2, NULL, fd) for fd in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, harness.ENV, file_actions=actions)
    status = os.waitpid(pid, 0)[1]
    took = (time.perf_counter() - began) * 1000
    if status:
        raise RuntimeError("%s: exit status %d" % (" ".join(command), status))
    return took


def interleave(commands, runs):
    """Median milliseconds of each command, run in turn; one warm-up each."""
    times = {name: [] for name in commands}
    for name, command in commands.items():
        once(command)
    for number in range(runs):
        names = list(commands) if number % 2 else list(reversed(list(commands)))
        for name in names:
            times[name].append(once(commands[name]))
    return {name: statistics.median(values) for name, values in times.items()}


@contextlib.contextmanager
def apart(pid):
    """The target on one CPU, the tools on the others: neither waits for the other's turn."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        for tid in os.listdir("/proc/%d/task" % pid):
            os.sched_setaffinity(int(tid), {cpus[-1]})
        os.sched_setaffinity(0, set(cpus[:-1]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(cpus))
