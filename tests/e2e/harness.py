"""Starting targets, running the tool, reading its answers."""
import ctypes
import functools
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import patience

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = os.path.join(ROOT, "tests", "targets")
BIN = os.environ.get("PROBING_BIN") or os.path.join(ROOT, "build", "dev", "probing")
ENV = dict(os.environ, LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1", NO_COLOR="")
for name in ("NO_COLOR", "PROBING_TARGET", "ENDPOINT", "PYTHONHOME", "PYTHONPATH",
             "PYTHONUNBUFFERED",  # which ends a line by a write of its own
             "PROBING_TEST_FACTS", "PROBING_TEST_REPORT"):
    ENV.pop(name, None)
PR_SET_PDEATHSIG = 1
RESTLESS = {"spin.py", "chains.py", "brief.py", "recursing.py", "passing.py"}
STARTED = set()  # pids of all targets


def die_with_parent():
    """No target outlives the test run, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_time(pid):
    """As in the name of its folder: a number is given to process after process. "*": who knows."""
    if not os.path.exists("/proc/%d/stat" % pid):
        return "*"  # its number is one that only its container knows
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rpartition(")")[2].split()[19]


class Target:
    """A process to look at: started, and in position when the constructor returns."""

    def __init__(self, command, env=None, cwd=None):
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(ENV, **(env or {})), cwd=cwd, start_new_session=True,
            preexec_fn=die_with_parent)
        try:
            words = ["["]
            while words[0].startswith("["):  # torch's libraries speak up in some versions
                words = self.read_ready(patience.SECONDS).split()
        except BaseException:
            self.stop()
            raise
        self.pid = int(words[1])
        self.start = start_time(self.pid)
        STARTED.add(self.pid)
        self.extra = [int(word) for word in words[2:]]

    def read_ready(self, seconds):
        out, line, end = self.process.stdout, b"", time.monotonic() + seconds
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise AssertionError("target not ready: %r" % (self.process.args,))
            piece = os.read(out.fileno(), 1)
            if not piece:
                error = self.process.stderr.read().decode(errors="replace")
                raise AssertionError("target ended: %r\n%s" % (self.process.args, error))
            line += piece
        return line.decode()

    def settle(self, seconds=patience.SECONDS):
        """Waits until every thread sleeps, twice in a row."""
        calm, end = 0, time.monotonic() + seconds
        while calm < 2 and time.monotonic() < end:
            calm = calm + 1 if all(state in "SD" for state in states(self.pid)) else 0
            time.sleep(0.005)
        assert calm == 2, "threads did not come to rest"
        return self

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def remove_stores():
    """What killed targets and their children left in shared memory; for the end of a run."""
    for folder in glob.glob("/dev/shm/probing-%d/*-*" % os.getuid()):
        pid = os.path.basename(folder).partition("-")[0]
        try:
            with open(os.path.join(folder, "meta")) as file:
                meta = dict(line.rstrip("\n").split("=", 1) for line in file)
        except (OSError, ValueError):
            meta = {}
        started = STARTED & {int(pid) if pid.isdigit() else 0, int(meta.get("ppid", 0))}
        # A node with its data in a temporary folder was a test's, too.
        node = meta.get("data", "").startswith(tempfile.gettempdir() + os.sep)
        if (started or node) and not os.path.exists("/proc/" + pid):
            shutil.rmtree(folder, ignore_errors=True)


class Script(Target):
    """One of tests/targets/*.py under an interpreter, come to rest if it ever does."""

    def __init__(self, interpreter, name, *args, path=None, env=None, command=None, cwd=None):
        self.path = path or os.path.join(TARGETS, name)
        self.lines = markers(self.path)
        start = command or [interpreter.command]
        super().__init__(start + [self.path] + [str(arg) for arg in args], env=env, cwd=cwd)
        if name in RESTLESS:
            time.sleep(0.05)
        elif os.path.exists("/proc/%d" % self.pid):
            self.settle()

    def at(self, func, marker):
        """A frame of this script as frames() gives it."""
        return (func, self.path, self.lines[marker])


def markers(path):
    """Line numbers by the name after `# LINE:`."""
    with open(path, encoding="utf-8") as file:
        return {line.split("# LINE:")[1].strip(): number
                for number, line in enumerate(file, 1) if "# LINE:" in line}


def states(pid):
    """State letter of each thread of a process."""
    out = []
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/stat" % (pid, tid)) as file:
                out.append(file.read().rpartition(")")[2].split()[0])
        except OSError:
            pass
    return out


def tracer(pid):
    with open("/proc/%d/status" % pid) as file:
        return int([line for line in file if line.startswith("TracerPid")][0].split()[1])


def probing(*args, timeout=patience.SECONDS, env=None, prefix=()):
    """Runs the tool; text in and out."""
    return subprocess.run(list(prefix) + [BIN] + [str(arg) for arg in args], timeout=timeout,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(ENV, **(env or {})),
                          encoding="utf-8", errors="strict")


def backtrace(pid, *options, **how):
    """`probing PID backtrace -f json`, parsed."""
    answer = probing(pid, "backtrace", "-f", "json", *options, **how)
    assert answer.returncode == 0, (answer.returncode, answer.stderr)
    return json.loads(answer.stdout)


def main_thread(snapshot):
    found = [thread for thread in snapshot["threads"] if thread["is_main"]]
    assert len(found) == 1, snapshot
    return found[0]


def thread_named(snapshot, name):
    found = [thread for thread in snapshot["threads"] if thread["name"] == name]
    assert len(found) == 1, [thread["name"] for thread in snapshot["threads"]]
    return found[0]


def frames(thread, path=None):
    """(func, file, line) of the Python frames, innermost first; only those of path if given."""
    return [(frame["func"], frame["file"], frame["lineno"]) for frame in thread["frames"]
            if frame["frame_type"] == "python" and path in (None, frame["file"])]


def natives(thread):
    return [frame["func"] for frame in thread["frames"] if frame["frame_type"] == "native"]


def order(thread):
    """Function names of all frames, native ones in brackets, innermost first."""
    return [frame["func"] if frame["frame_type"] == "python" else "[%s]" % frame["func"]
            for frame in thread["frames"]]


def steady(test):
    """
    For tests that compare times: a thread that loses its processor in between spoils a run, on a
    machine with much else to do; hardly three in a row, as a wrong measurement does.
    """
    @functools.wraps(test)
    def patient(**fixtures):
        for tries_left in (2, 1, 0):
            try:
                return test(**fixtures)
            except AssertionError:
                if not tries_left:
                    raise
                for target in getattr(fixtures.get("start"), "running", []):
                    target.stop()
        return None
    return patient


def stack_of(pid, *options, **how):
    """The main thread's Python frames."""
    return frames(main_thread(backtrace(pid, *options, **how)))
