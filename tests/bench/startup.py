"""What the installed package costs an interpreter that starts: with PROBING unset, and set."""
import compileall
import glob
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

import measure
from measure import harness

BAR_UNSET, BAR_SET = 0.2, 3.0
# A .pth file that is there anyway, as setuptools' is wherever torch is: the first one that an
# interpreter meets makes it load what it needs for any of them.
OTHER = "import sys\n"
# What a fresh interpreter spends on ours, without the noise of a whole start. Twice: in a
# virtual environment site reads each of them two times.
LINE = """
import site, sys, time
site.addpackage(sys.argv[1], "other.pth", set())
began = time.perf_counter()
site.addpackage(sys.argv[1], "probing.pth", set())
site.addpackage(sys.argv[1], "probing.pth", set())
print((time.perf_counter() - began) * 1000)
"""


class Venv:
    """A virtual environment with the package in it, whose .pth file can be taken away."""

    def __init__(self, folder):
        self.python = os.path.join(folder, "venv", "bin", "python")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip",
                        os.path.join(folder, "venv")], check=True)
        self.site, = glob.glob(os.path.join(folder, "venv", "lib", "*", "site-packages"))
        self.pth = os.path.join(self.site, "probing.pth")
        with open(os.path.join(self.site, "other.pth"), "w") as file:
            file.write(OTHER)
        with zipfile.ZipFile(make_wheel(folder)) as archive:
            for name in archive.namelist():
                if name.startswith("probing/") or name.endswith(".pth"):
                    archive.extract(name, self.site)
        compileall.compile_dir(os.path.join(self.site, "probing"), quiet=1)

    def install(self, there):
        """Two folders would differ by more than the file: by where they lie on the disk."""
        names = [self.pth, self.pth + ".off"]
        if os.path.exists(self.pth) != there:
            os.rename(*(reversed(names) if there else names))

    def line(self):
        """Milliseconds that a fresh interpreter spends on the .pth file."""
        return float(subprocess.run([self.python, "-S", "-c", LINE, self.site], check=True,
                                    stdout=subprocess.PIPE, env=environment({})).stdout.decode())


def make_wheel(folder):
    tool = os.path.join(harness.ROOT, "tools", "wheel")
    run = subprocess.run([sys.executable, tool, os.path.dirname(measure.tool_path()), folder],
                         stdout=subprocess.PIPE, check=True)
    return run.stdout.decode().strip()


def environment(more):
    env = {name: value for name, value in harness.ENV.items() if not name.startswith("PROB")}
    return dict(env, **more)


def once(python, env):
    """Milliseconds of `python -c pass`: (from start to end, of processor time)."""
    actions = [(os.POSIX_SPAWN_DUP2, measure.NULL, fd) for fd in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(python, [python, "-c", "pass"], env, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise RuntimeError("python -c pass: exit status %d" % status)
    took = time.perf_counter() - began
    return took * 1000, (used.ru_utime + used.ru_stime) * 1000


def starts(venv, runs):
    """{arm: times}, each round one start of every arm."""
    arms = {"bare": (False, environment({})), "unset": (True, environment({})),
            "set": (True, environment({"PROBING": "1"}))}
    times = {name: [] for name in arms}
    for number in range(runs + 2):
        names = list(arms) if number % 2 else list(reversed(list(arms)))
        for name in names:
            venv.install(arms[name][0])
            took = once(venv.python, arms[name][1])
            if number >= 2:
                times[name].append(took)
    return times


def extra(times, arm, clock):
    """Median of the differences to a bare start, and how far that median may be off."""
    found = [one[clock] - other[clock] for one, other in zip(times[arm], times["bare"])]
    middle = statistics.median(found)
    spread = statistics.median(abs(value - middle) for value in found)
    return middle, 3 * 1.48 * spread / len(found) ** 0.5


def row(what, bar, times, arm):
    """By the wall clock where the machine is quiet enough for it, else by processor time."""
    wall, wall_unsure = extra(times, arm, 0)
    cpu, cpu_unsure = extra(times, arm, 1)
    quiet = wall_unsure < bar / 2
    cost, unsure = (wall, wall_unsure) if quiet else (cpu, cpu_unsure)
    note = "bare %.1f ms" % statistics.median(took for took, _ in times["bare"])
    if not quiet:
        note += "; processor time, the clock says %+.2f ± %.2f" % (wall, wall_unsure)
    good = cost <= bar
    if not good and cost - unsure <= bar:
        good, note = None, note + "; too noisy to tell"
    return (what, "+%.1f ms" % bar, "%+.2f ms (±%.2f)" % (cost, unsure), "", good, note)


def rows(quick):
    """Lines for the table: what, at most, probing, other, does it hold, note."""
    if not os.path.exists(os.path.join(os.path.dirname(measure.tool_path()), "libprobing.so")):
        yield ("interpreter start", "", "built without the agent", "", None)
        return
    with tempfile.TemporaryDirectory() as folder:
        venv = Venv(folder)
        times = starts(venv, 10 if quick else 300)
        yield row("interpreter start, PROBING unset", BAR_UNSET, times, "unset")
        yield row("interpreter start, PROBING=1", BAR_SET, times, "set")
        venv.install(True)
        line = statistics.median(venv.line() for _ in range(5 if quick else 51))
        yield ("  of it the .pth file alone", "", "%.2f ms" % line, "", None,
               "in a fresh interpreter, read twice")


if __name__ == "__main__":
    for found in rows("--quick" in sys.argv):
        print(*found, sep=" | ")
