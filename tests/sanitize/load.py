"""
A node under a sanitizer and under load: queries of every kind, history at work, HTTP in and out of
order, targets and askers that are killed. Any report fails it.

usage: PROBING_BIN=BUILD/probing python load.py [SECONDS]

A test of `make tsan` and `make asan`; alone: ctest --preset tsan -L sanitize. The tool is built
with the sanitizer; the agents that it injects are not (agent.py has one that is), and the SQL
engine is a library as it comes (is_engines and tsan.supp say what that hides).
"""
import glob
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import harness  # noqa: E402
import interpreters  # noqa: E402
from nodes import Node  # noqa: E402
from numbering import Numbers  # noqa: E402

QUESTIONS = [
    "SELECT count(*), count(DISTINCT n) FROM python.numbers",
    "SELECT word, avg(value), max(noise) FROM python.numbers GROUP BY word ORDER BY word",
    "SELECT * FROM python.numbers ORDER BY n DESC LIMIT 100",
    "SELECT * FROM python.stacks",
    "SELECT * FROM python.threads",
    "SELECT * FROM python.envs",
    "SELECT * FROM system.process",
    "SELECT pid, max(rss_mb) FROM system.cpu GROUP BY pid",
    "SELECT * FROM memory_usage",
    "SELECT * FROM probing.agents",
    "SELECT * FROM probing.tables",
    "SELECT * FROM probing.cost",
    "SELECT a.n FROM python.numbers a JOIN python.numbers b USING (n) LIMIT 10",
    "SELECT nothing FROM nowhere",
    "SELECT count(*) FROM range(100000000)",
]


class Load:
    """A node in the foreground, targets that come and go, and threads that ask."""

    def __init__(self, folder, reports):
        options = "log_path=%s:exitcode=66:handle_segv=0:" % os.path.join(reports, "report")
        self.node = Node(folder, PROBING_HISTORY_DELAY="0.2", PROBING_SAMPLE_INTERVAL="0.2",
                         TSAN_OPTIONS=options + "suppressions=" + os.path.join(HERE, "tsan.supp"),
                         ASAN_OPTIONS=options + "detect_leaks=1",
                         LSAN_OPTIONS="suppressions=" + os.path.join(HERE, "lsan.supp"),
                         UBSAN_OPTIONS=options + "print_stacktrace=1")
        self.folder, self.reports = folder, reports
        self.python = interpreters.newest()
        self.ending = threading.Event()
        self.lock = threading.Lock()  # of targets
        self.targets, self.asked, self.failed = [], 0, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.server = self.node.start("serve", "--foreground", "--listen",
                                      "127.0.0.1:%d" % self.port, "--no-token")
        end = time.time() + 60
        while self.node("serve", "--status").returncode or not self.is_open():
            assert time.time() < end and self.server.poll() is None, self.server.poll()
            time.sleep(0.1)

    def is_open(self):
        """The supervisor has the Unix socket at once, the server opens its port a little later."""
        with socket.socket() as link:
            return link.connect_ex(("127.0.0.1", self.port)) == 0

    def target(self):
        with self.lock:
            return random.choice(self.targets).pid if self.targets else None

    def ask(self, path, body, read=True):
        """By TCP; what goes wrong there is not our question, only that the node survives it."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        began, limit = time.time(), (body or {}).get("timeout", 1000)
        try:
            link.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                         {"Content-Type": "application/json"} if body else {})
            if read:
                link.getresponse().read()
            self.asked += 1
        except (OSError, http.client.HTTPException) as error:
            # An answer that has begun is broken off when its time is up.
            late = time.time() - began >= limit and isinstance(
                error, (ConnectionResetError, http.client.IncompleteRead))
            if not self.ending.is_set() and not late:
                self.failed.append("%s: %r" % (path, error))
        finally:
            link.close()

    def query(self):
        body = {"sql": random.choice(QUESTIONS), "timeout": random.choice([0.05, 1, 10])}
        if random.random() < 0.4 and self.target():
            body["target"] = str(self.target())
        body["format"] = random.choice(["json", "ndjson", "csv"])
        # Somebody who goes away in the middle cancels it.
        self.ask("/api/query", body, read=random.random() < 0.8)

    def look(self):
        pid = self.target()
        self.ask(*random.choice([("/api/processes", None), ("/health", None),
                                 ("/api/config", None), ("/api/backtrace?pid=%s" % pid, None),
                                 ("/api/eval", {"pid": pid, "code": "1 + 1"}),
                                 ("/nowhere", None)]))

    def annoy(self):
        """Half-open, slow and broken clients."""
        words = [b"GET", b"POST /api/query HTTP/1.1\r\nContent-Length: 99\r\n\r\n{",
                 b"\x00\xff" * 50, b"GET / HTTP/9.9\r\n\r\n", b""]
        with socket.socket() as rude:
            rude.settimeout(5)
            rude.connect(("127.0.0.1", self.port))
            rude.sendall(random.choice(words))
            time.sleep(random.uniform(0, 0.3))

    def command(self):
        """The tool itself, over the node's Unix socket; killed half the time."""
        file = os.path.join(self.folder, "export-%d.csv" % random.getrandbits(30))
        words = random.choice([("query", QUESTIONS[0]), ("list", "--dead"), ("tables",),
                               ("export", "-T", "python.numbers", "-o", file)])
        tool = self.node.start(*words)
        try:
            tool.communicate(timeout=random.choice([0.3, 60]))
        except subprocess.TimeoutExpired:
            tool.kill()
            tool.communicate()

    def churn(self):
        """A target is killed, another starts."""
        new = Numbers(self.python, self.node, self.folder, rate=3000, rows=4096)
        with self.lock:
            self.targets.append(new)
            old = self.targets.pop(0) if len(self.targets) > 3 else None
        if old:
            os.kill(old.pid, random.choice([signal.SIGKILL, signal.SIGTERM]))
            old.process.wait()
            old.stop()
        time.sleep(1)

    def repeat(self, act):
        while not self.ending.is_set():
            try:
                act()
            except OSError as error:
                if not self.ending.is_set():
                    self.failed.append("%s: %r" % (act.__name__, error))
            except Exception as error:  # pylint: disable=broad-except
                self.failed.append("%s: %r" % (act.__name__, error))
                time.sleep(0.5)

    def run(self, seconds):
        acts = [self.query, self.query, self.query, self.look, self.annoy, self.command, self.churn]
        threads = [threading.Thread(target=self.repeat, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        end = time.time() + seconds
        while time.time() < end and self.server.poll() is None:
            time.sleep(0.2)
        alive = self.server.poll() is None and self.restarts() == 0
        self.ending.set()
        for thread in threads:
            thread.join(120)
        return alive

    def restarts(self):
        """How often the server died and was started again."""
        with urllib.request.urlopen("http://127.0.0.1:%d/health" % self.port, timeout=60) as answer:
            return json.load(answer)["restarts"]

    def stop(self):
        """How the node ended."""
        if self.server.poll() is None:
            self.node.stop()
        try:
            self.server.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.communicate()
        for target in self.targets:
            target.stop()
            for left in glob.glob("/dev/shm/probing-%d/%s" % (os.getuid(), target.id)):
                shutil.rmtree(left, ignore_errors=True)
        return self.server.returncode


RUNTIME = re.compile(r"\((libtsan|libasan|libubsan|libc|libstdc\+\+|libpthread)\.so")


def is_engines(report):
    """
    A data race between two accesses that the engine made itself: it is not instrumented, and what
    it does in between to order them is unseen. With an access of ours it counts.
    """
    if "ThreadSanitizer: data race" not in report:
        return False
    makers = []
    for part in re.split(r"\n(?=  \S)", report):
        frames = re.findall(r"\n    #\d+ (.*)", part)
        if re.match(r"  .* of size \d+ at ", part):
            makers.append(next((frame for frame in frames if not RUNTIME.search(frame)), ""))
    return all("(libduckdb.so" in maker or not maker for maker in makers)


def read(path):
    """The reports in a file that are worth reading."""
    with open(path, errors="replace") as file:
        return [part for part in re.split(r"\n?={18}\n", file.read())
                if re.search(r"WARNING:|ERROR:|runtime error|FATAL", part)
                and not is_engines(part)]


def main(seconds):
    reports = tempfile.mkdtemp(prefix="probing-sanitize-")
    with tempfile.TemporaryDirectory() as folder:
        load = Load(folder, reports)
        try:
            alive = load.run(seconds)
        finally:
            code = load.stop()
            harness.remove_stores()
    found = [report for path in sorted(glob.glob(os.path.join(reports, "report*")))
             for report in read(path)]
    print("%s: %d answers in %d s, the node ended with %s, %d reports" % (
        harness.BIN, load.asked, seconds, code, len(found)))
    for line in load.failed[:10] + found[:5]:
        print(line[:8000])
    # 66 without one worth reading: there were others.
    if found or not alive or code not in (0, 66) or load.asked < seconds or load.failed:
        print("all of it is in " + reports)
        return 1
    shutil.rmtree(reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 30))
