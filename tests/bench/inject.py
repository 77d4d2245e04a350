"""
What injection costs and survives: rows(quick) for the table of run.py.

Each row: what, bar, figure, what the rival does (nothing here), good, note.
"""
import importlib.util
import mmap
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import gaps
import measure
from measure import harness

import injecting  # noqa: E402  (found through measure)

TOLD = re.compile(r"held for (\d+) µs; .* ([\d.]+) ms in all")


class Python:
    """This interpreter, as injecting.begin wants one."""

    command = sys.executable


def run(*args):
    return subprocess.run([measure.tool_path()] + [str(arg) for arg in args], env=harness.ENV,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", timeout=120)


def once(pid):
    """Pause in µs and end to end in ms of one injection, the process of the tool included."""
    began = time.perf_counter()
    answer = run(pid, "-v", "inject")
    took = (time.perf_counter() - began) * 1000
    if answer.returncode:
        raise RuntimeError("inject: " + answer.stderr)
    run(pid, "eject")
    return int(TOLD.search(answer.stderr).group(1)), took


def p95(values):
    return sorted(values)[int(len(values) * 0.95)]


def costs(name, target, runs, limit_ms):
    """Two rows: the pause, and the whole of it."""
    try:
        taken = [once(target.pid) for _ in range(runs)]
    finally:
        target.stop()
    pauses, totals = [pause for pause, _ in taken], [total for _, total in taken]
    middle, whole = statistics.median(pauses), statistics.median(totals)
    yield ("inject: pause, " + name, "median 100 µs",
           "%.0f µs (p95 %.0f)" % (middle, p95(pauses)), "", middle <= 100, "")
    yield ("inject: end to end, " + name, "%d ms" % limit_ms if limit_ms else "",
           "%.1f ms (p95 %.1f)" % (whole, p95(totals)), "",
           whole <= limit_ms if limit_ms else None, "")


def script(name, *args):
    return harness.Target([sys.executable, os.path.join(harness.TARGETS, name)]
                          + [str(arg) for arg in args])


def have_torch():
    return importlib.util.find_spec("torch") is not None


def cost_rows(libraries, runs):
    yield from costs("idle process", script("simple.py"), runs, 10)
    yield from costs("1 busy thread", script("spin.py"), runs, 10)
    yield from costs("8 busy threads", script("many_busy.py", 8), runs, None)
    storm = libraries.get("malloc_storm")
    yield from costs("malloc storm", script("malloc_storm.py", storm, 4), runs, None)
    if have_torch():
        yield from costs("torch training", script("torch_train.py"), runs, 20)


class Watched(gaps.Watched):
    """tests/targets/clock_gap.py in the place of gap.py."""

    def __init__(self, library):
        handle, self.path = tempfile.mkstemp()
        os.ftruncate(handle, 4096)
        self.words = memoryview(mmap.mmap(handle, 4096)).cast("Q")
        os.close(handle)
        self.target = script("clock_gap.py", library, self.path)
        self.pid = self.target.pid


def gap_row(libraries, rounds):
    """The longest gap that a running victim sees in its own clock, agent's start included."""
    watched = Watched(libraries.get("clock_gap"))
    bare, ours = [], []
    try:
        # Not on a CPU of its own: the new thread would have to share that with its maker.
        for _ in range(rounds):
            bare.append(gaps.round_of(watched, lambda: time.sleep(0.01)))
            ours.append(gaps.round_of(watched, lambda: run(watched.pid, "inject")))
            run(watched.pid, "eject")
    finally:
        watched.stop()
    middle = statistics.median(ours)
    good = middle <= 0.15 or (None if statistics.median(bare) > 0.15 else False)
    return ("inject: longest gap of a running victim", "median 0.15 ms", gaps.show(ours), "", good,
            "bare " + gaps.show(bare))


def storm_rows(libraries, each):
    """Fresh targets of every kind; each must be well afterwards."""
    for name, command in injecting.kinds(libraries).items():
        fine, trouble = 0, ""
        for _ in range(each):
            target = injecting.begin(Python, *command)
            try:
                injecting.inject(target.pid, timeout=120)
                injecting.well(target)
                fine += 1
            except AssertionError as error:
                trouble = str(error).split("\n")[0][:60]
            finally:
                target.stop()
        yield ("inject: fresh targets, " + name, "all well", "%d of %d" % (fine, each), "",
               fine == each, trouble)


def kill_row(kills):
    """The tool is killed at random instants, on targets that sleep and that run."""
    chance, fine, later = random.Random(1), 0, 0
    targets = [script("spin.py"), script("simple.py")]
    try:
        for number in range(kills):
            target = targets[number % 2]
            tool = subprocess.Popen([measure.tool_path(), str(target.pid), "inject"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env=harness.ENV)
            time.sleep(chance.uniform(0, 0.006))
            tool.kill()
            tool.wait()
            fine += target.process.poll() is None and harness.tracer(target.pid) == 0
            later += run(target.pid, "inject").returncode == 0
            run(target.pid, "eject")
    finally:
        for target in targets:
            target.stop()
    return ("inject: tool killed at random instants", "target goes on, inject works",
            "%d and %d of %d" % (fine, later, kills), "", fine == later == kills, "")


def trained(steps, injections):
    """Digest of the weights after seeded training, with injections spread over it."""
    target, done = script("torch_seeded.py", steps), 0
    try:
        while done < injections and target.process.poll() is None:
            if run(target.pid, "inject").returncode:
                break
            run(target.pid, "eject")
            done += 1
        return target.process.stdout.readline().strip(), done
    finally:
        target.stop()


def torch_row(steps, injections):
    plain, _ = trained(steps, 0)
    poked, done = trained(steps, injections)
    return ("inject: seeded torch training, %d injections" % done, "weights bit for bit equal",
            "equal" if plain == poked else "DIFFERENT", "",
            plain == poked and len(plain) == 64, "")


def rows(quick):
    libraries = injecting.Libraries()
    try:
        yield from cost_rows(libraries, 5 if quick else 100)
        yield gap_row(libraries, 3 if quick else 100)
        yield from storm_rows(libraries, 2 if quick else 250)
        yield kill_row(10 if quick else 500)
        if have_torch():
            yield torch_row(500 if quick else 20000, 5 if quick else 400)
    finally:
        libraries.close()


if __name__ == "__main__":
    for row in rows("--quick" in sys.argv):
        print(" | ".join(str(cell) for cell in row), flush=True)
