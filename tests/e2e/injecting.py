"""What the tests of injection share: targets under stress, and how to tell that they are well."""
import glob
import os
import shutil
import subprocess
import tempfile
import time

import harness
import patience
from harness import BIN, TARGETS, Target, probing

SUCCESS = "Successfully injected probes into process %d\n"


def threads(pid):
    return len(os.listdir("/proc/%d/task" % pid))


def threads_become(pid, count, seconds=patience.SECONDS):
    """A thread that has had its say takes a moment to end. True when the number is as expected."""
    end = time.monotonic() + seconds
    while threads(pid) != count:
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def traces(target):
    """What an agent of this process has in shared memory or /tmp, as the process sees them."""
    root = "/proc/%d/root" % target.pid
    root = root if os.path.exists(root + "/proc") else ""
    return [path for folder in ("/dev/shm", "/tmp")
            for path in glob.glob("%s%s/probing-*/%d-%s" % (root, folder, target.pid,
                                                             target.start))]


def ticks(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def moves_on(pid, seconds=patience.SECONDS):
    """Does the process use its CPU?"""
    before, end = ticks(pid), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        if ticks(pid) > before:
            return True
    return False


def inject(pid, *options, **how):
    answer = probing(pid, "inject", *options, **how)
    assert answer.returncode == 0, (answer.returncode, answer.stderr)
    assert answer.stdout == SUCCESS % pid
    return answer


def eject(pid):
    answer = probing(pid, "eject")
    assert (answer.returncode, answer.stdout) == (0, "Removed probes from process %d\n" % pid), \
        answer.stderr


class Libraries:
    """The targets' own C libraries, built when first asked for."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        os.chmod(self.folder, 0o755)

    def get(self, name):
        path = os.path.join(self.folder, name + ".so")
        if not os.path.exists(path):
            source = os.path.join(TARGETS, name + ".c")
            subprocess.run(["cc", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC",
                            source, "-o", path], check=True)
        return path

    def close(self):
        shutil.rmtree(self.folder)


def kinds(libraries):
    """Name, script, arguments of each kind of stress; all use a CPU without end."""
    storm, vector = libraries.get("malloc_storm"), libraries.get("vector_sum")
    return {
        "one busy thread": ("spin.py",),
        "eight busy threads": ("many_busy.py", 8),
        "malloc storm, 1 thread": ("malloc_storm.py", storm, 1),
        "malloc storm, 4 threads": ("malloc_storm.py", storm, 4),
        "fork storm": ("fork_storm.py",),
        "signal storm": ("signal_storm.py",),
        "vector sums": ("vector_sum.py", vector),
        "mid-import": ("mid_import.py",),
    }


def begin(interpreter, script, *args):
    """A stressed target; it is in the middle of things when this returns."""
    path = os.path.join(TARGETS, script)
    target = Target([interpreter.command, path] + [str(arg) for arg in args])
    time.sleep(0.02)
    return target


def well(target):
    """Alive, moving on, and nothing wrong so far."""
    assert target.process.poll() is None, (target.process.returncode,
                                           target.process.stderr.read().decode())
    assert moves_on(target.pid), harness.states(target.pid)
    assert target.process.poll() is None, target.process.stderr.read().decode()


__all__ = ["BIN", "Libraries", "SUCCESS", "begin", "eject", "inject", "kinds",
           "moves_on", "threads", "threads_become", "ticks", "traces", "well"]
