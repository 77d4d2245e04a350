"""
Runs the end-to-end tests, several files at a time: each file has processes, network, /dev/shm and
/tmp of its own (namespaces, which need root), so that what one test starts no other sees, and
nothing of it is left. Without the rights, one file at a time. Tests marked `alone` measure time:
they run at the end, while nothing else does. So do, once more, tests that failed, where
second_look.py lets them. PROBING_TEST_STRICT=1: no test runs twice.
usage: run.py [--flaky FILE] [FILE...]; PROBING_TEST_WORKERS says how many at a time. All that
pytest said is in build/e2e. --flaky: what unit/run.py found flaky, named at the end as well.
"""
import ctypes
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(1, os.path.dirname(HERE))
import second_look  # noqa: E402

LOGS = os.path.join(ROOT, "build", "e2e")
FACTS = os.path.join(LOGS, "facts.json")
DURATIONS = os.path.join(HERE, "durations.txt")
LIMIT = 1800  # seconds for one file, on a machine that has much else to do
MEMORY = 3 << 30  # for the tests of one file: ranks with torch, a browser
PR_SET_PDEATHSIG = 1
COUNTED = ("passed", "failed", "skipped")

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--ipc",
           "--net", "--propagation", "private"]
# The first process of a namespace is a shell, as it is no Python process that a test might find;
# it waits for those that nobody else waits for. $1: what is to be /tmp; then what is to be seen
# there though it lies in the other one, up to "--"; then the command.
INSIDE = """
set -e
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ip link set lo up
tmp=$1
shift
while [ "$1" != -- ]; do
    mkdir -p "$tmp/${1#/tmp/}"
    mount --bind "$1" "$tmp/${1#/tmp/}"
    shift
done
shift
mount --rbind "$tmp" /tmp
cd "$0"
set +e
"$@"
exit $?
"""


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def needed_in_tmp():
    """Folders below /tmp that the tests read: the tree may lie there, and interpreters."""
    paths = [ROOT, os.path.join(os.path.dirname(ROOT), "shared")]
    for name in ("PROBING_TEST_PYTHONS", "PROBING_TEST_TORCH", "PROBING_BIN"):
        paths += [os.path.dirname(os.path.dirname(path))
                  for path in os.environ.get(name, "").split(":")]
    found = []
    for path in sorted(paths):
        if path.startswith("/tmp/") and os.path.isdir(path) and not any(
                (path + "/").startswith(other + "/") for other in found):
            found.append(path)
    return found


def isolated(folder, command):
    """The command with namespaces of its own, /tmp being this folder."""
    return UNSHARE + ["sh", "-c", INSIDE, ROOT, folder] + needed_in_tmp() + ["--"] + command


def why_serial(folder):
    """The reason why no namespaces can be had, or None."""
    if os.getuid() != 0:
        return "namespaces need root"
    for tool in ("unshare", "mount", "ip"):
        if not shutil.which(tool):
            return "no program " + tool
    try:
        trial = subprocess.run(
            isolated(folder, ["sh", "-c", 'test -e "$0" && ! test -e /tmp/*/trial && '
                              "test $(ls -d /proc/[0-9]* | wc -l) -lt 10", __file__]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    except subprocess.TimeoutExpired:
        return "no namespaces within a minute"
    return trial.stdout.decode().strip() or "no namespaces" if trial.returncode else None


def workers():
    """How many files at a time: one a core, since some of them compare times."""
    asked = os.environ.get("PROBING_TEST_WORKERS")
    if asked:
        return max(1, int(asked))
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores, 8, memory // MEMORY))


def expected():
    """Seconds that each file takes, where that is known."""
    with open(DURATIONS) as file:
        return {name: float(seconds) for seconds, name in map(str.split, file)}


def is_marked(path):
    with open(path, encoding="utf-8") as file:
        return "pytest.mark.alone" in file.read()


def worked():
    """Processor time of what was started and has ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


class Part:
    """The tests of one file, or those of them that run alone, in a process of pytest."""

    def __init__(self, name, marked=False, only=None, tests=()):
        self.name = name
        kind = "again" if tests else "alone" if only == "alone" else ""
        self.label = name + (" (%s)" % kind if kind else "")
        self.what = [os.path.join(HERE, test) for test in tests or [name]]
        self.options = ["-m", only] if marked else []
        stem = os.path.join(LOGS, name[:-3] + ("-" + kind if kind else ""))
        self.log, self.report = stem + ".log", stem + ".json"
        self.process = self.folder = self.began = None
        self.took, self.worked = 0, 0  # in seconds; the second is processor time
        self.counts, self.trouble = dict.fromkeys(COUNTED, 0), None
        self.failures = {}  # name: the first line of why

    def start(self, serial):
        for path in (self.log, self.report):
            if os.path.exists(path):
                os.unlink(path)
        command = [sys.executable, "-m", "pytest", "-v",
                   "--durations=15"] + self.what + self.options
        env = dict(os.environ, PROBING_TEST_REPORT=self.report,
                   PROBING_TEST_FACTS=FACTS)
        if not serial:
            self.folder = tempfile.mkdtemp(prefix="probing-e2e-", dir="/tmp")
            os.chmod(self.folder, 0o1777)
            command = isolated(self.folder, command)
            env.pop("TMPDIR", None)
        self.began = time.monotonic()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True, preexec_fn=die_with_parent)

    def has_ended(self):
        self.took, before = time.monotonic() - self.began, worked()
        if self.process.poll() is None and self.took < LIMIT:
            return False
        self.worked = worked() - before
        if self.process.poll() is None:
            self.trouble = "did not end within %d s" % LIMIT
        self.stop()
        self.read()
        return True

    def stop(self):
        """Ends pytest, with all that it started where it had namespaces, and removes its /tmp."""
        if self.process and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def read(self):
        """What pytest counted; a process that did not come to count is a failure."""
        try:
            with open(self.report) as file:
                it = json.load(file)
            self.counts, self.failures = it["counts"], it["failures"]
        except (OSError, ValueError):
            self.trouble = self.trouble or "pytest ended before its time, with exit status %d" % (
                self.process.returncode)
        # 5: no tests, as all of the file's are for another turn.
        if not self.trouble and self.process.returncode not in (0, 5) and not self.counts["failed"]:
            self.trouble = "pytest's exit status is %d" % self.process.returncode
        if self.trouble:
            self.counts["failed"] += 1
            self.failures[self.label] = self.trouble

    def text(self):
        """What to show of it: one line, and all that pytest says of what failed."""
        words = ", ".join("%d %s" % (self.counts[key], key) for key in COUNTED if self.counts[key])
        out = "%6.1f s  %6.1f s of a processor  %s: %s\n" % (self.took, self.worked, self.label,
                                                            words or "no tests")
        if not self.counts["failed"]:
            return out
        with open(self.log, errors="replace") as file:
            log = file.read()
        begin = re.search(r"^=+ (ERRORS|FAILURES) =+$", log, re.M)
        return out + (log[begin.start():] if begin else log[-20000:]).rstrip("\n") + "\n"


def parts(names):
    """Those that run together, the longest first, and those that run one after the other."""
    seconds = expected()
    together, alone = [], []
    for name in sorted(names, key=lambda name: -seconds.get(name, 10)):
        marked = is_marked(os.path.join(HERE, name))
        together.append(Part(name, marked, "not alone"))
        if marked:
            alone.append(Part(name, marked, "alone"))
    return together, alone


def run(waiting, count, serial):
    """Runs them, so many at a time."""
    waiting, running = list(waiting), []
    try:
        while waiting or running:
            while waiting and len(running) < count:
                running.append(waiting.pop(0))
                running[-1].start(serial)
            time.sleep(0.05)
            for part in [part for part in running if part.has_ended()]:
                running.remove(part)
                sys.stdout.write(part.text())
                sys.stdout.flush()
    finally:
        for part in running:
            part.stop()


def again(done, before, serial):
    """Runs tests that failed once more, alone; those that pass then did not fail: {name: why}."""
    failed = {name: why for part in done for name, why in part.failures.items()}
    if any(part.trouble for part in done) or not second_look.allowed(failed, before):
        return {}
    flaky = {}
    for part in done:
        if not part.failures:
            continue
        second = Part(part.name, tests=list(part.failures))
        run([second], 1, serial)
        passed = [] if second.trouble else [it for it in part.failures if it not in second.failures]
        for name in passed:
            flaky[name] = part.failures.pop(name)
            part.counts["failed"] -= 1
            part.counts["passed"] += 1
    return flaky


def say_interpreters():
    """What there is to be tested; asked once for all files."""
    if os.path.exists(FACTS):
        os.unlink(FACTS)
    os.environ["PROBING_TEST_FACTS"] = FACTS
    sys.path.insert(0, HERE)
    import conftest
    import torches
    print("\n".join(conftest.pytest_report_header(None)))
    torches.pythons()


def report(done, flaky, began):
    """The closing lines; the exit status."""
    total = {key: sum(part.counts[key] for part in done) for key in COUNTED}
    for part in done:
        for name, why in part.failures.items():
            print("FAILED %s: %s" % (name, why))
    print("end-to-end tests: %d files in %.0f s, %.0f s of processor time" % (
        len({part.name for part in done}), time.monotonic() - began, worked()))
    print(", ".join("%d %s" % (total[key], key) for key in COUNTED))
    print("".join(line + "\n" for line in second_look.lines(flaky)), end="")
    return 1 if total["failed"] or not total["passed"] else 0


def main(names, flaky):
    os.makedirs(LOGS, exist_ok=True)
    lock = open(os.path.join(LOGS, "lock"), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("run.py: the end-to-end tests of this tree run already")
    names = [os.path.basename(name) for name in names] or [
        name for name in os.listdir(HERE) if re.fullmatch(r"test_\w+\.py", name)]
    say_interpreters()
    folder = tempfile.mkdtemp(prefix="probing-e2e-", dir="/tmp")
    reason = why_serial(folder)
    shutil.rmtree(folder, ignore_errors=True)
    count = 1 if reason else workers()
    print("%d files, %s" % (len(names), "%d at a time" % count if not reason else
                            "one at a time: " + reason), flush=True)
    began = time.monotonic()
    together, alone = parts(names)
    run(together, count, bool(reason))
    run(alone, 1, bool(reason))
    flaky.update(again(together + alone, len(flaky), bool(reason)))
    return report(together + alone, flaky, began)


def arguments(words):
    """The files, and what was flaky before: {name: why}."""
    if words[:1] != ["--flaky"]:
        return words, {}
    if not os.path.exists(words[1]):  # that run was broken off
        return words[2:], {}
    with open(words[1]) as file:
        return words[2:], json.load(file)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(*arguments(sys.argv[1:])))
