"""Two users on one machine: neither sees nor reaches the other's processes or data; root does."""
import json
import os
import pty
import select
import shutil
import socket
import subprocess

import pytest

import agents
import harness
import patience
import querying
import strangers
from strangers import become
from ranks import free_port

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become two users")
# Nobody's, and of this run alone.
FIRST = 61000 + os.getpid() % 2000 * 2
SECOND = FIRST + 1


class User:
    """Somebody with a folder, a probed process and a node."""

    def __init__(self, uid, python, folder):
        self.uid, self.folder, self.python = uid, str(folder), python
        os.chown(self.folder, uid, uid)
        self.env = dict(harness.ENV, HOME=self.folder, PROBING_HOME=self.folder + "/data",
                        XDG_CONFIG_HOME=self.folder + "/config", USER="user%d" % uid)
        script = os.path.join(harness.TARGETS, "probed.py")
        self.process = subprocess.Popen([python, script], stdout=subprocess.PIPE,
                                        env=self.env, preexec_fn=become(uid), cwd="/")
        self.pid = int(self.process.stdout.readline().split()[1])

    def run(self, *words, env=None):
        return subprocess.run([harness.BIN] + [str(word) for word in words],
                              env=dict(self.env, **(env or {})),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60,
                              stderr=subprocess.PIPE, preexec_fn=become(self.uid), cwd="/",
                              encoding="utf-8", check=False)

    def rows(self, sql, *target):
        answer = self.run(*target, "query", "-f", "json", sql)
        assert answer.returncode == 0, answer
        return json.loads(answer.stdout)

    def socket_path(self):
        """The node's door."""
        home = "/dev/shm/probing-%d" % self.uid
        return [os.path.join(home, name) for name in os.listdir(home) if name.startswith("node-")]

    def stop(self):
        self.run("serve", "--stop")
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree("/dev/shm/probing-%d" % self.uid, ignore_errors=True)


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("user") for _ in range(2)]
    for folder in folders:
        for part in (folder, folder.parent, folder.parent.parent):
            os.chmod(part, os.stat(part).st_mode | 0o011)
    python = strangers.python()
    both = [User(uid, python, folder) for uid, folder in zip((FIRST, SECOND), folders)]
    try:
        for user in both:
            assert user.run(user.pid, "inject").returncode == 0
            patience.until(lambda: user.rows("SELECT count(*) AS n FROM python.memory",
                                          user.pid)[0]["n"] > 0)
        yield both
    finally:
        for user in both:
            user.stop()


def test_each_sees_their_own(users):
    for user in users:
        for name in ("python.memory", "python.backtrace", "probing.agents", "system.cpu",
                     "system.process"):
            rows = user.rows("SELECT DISTINCT pid FROM %s WHERE pid IS NOT NULL" % name)
            other = [u.pid for u in users if u is not user][0]
            assert other not in [row["pid"] for row in rows], name
        rows = user.rows("SELECT DISTINCT pid FROM python.memory")
        assert rows == [{"pid": user.pid}]


def test_the_other_is_out_of_reach(users):
    one, two = users
    for words in (["query", "SELECT * FROM python.memory"], ["eval", "loss"], ["backtrace"],
                  ["inject"], ["config", "eval.timeout=3"]):
        answer = one.run(two.pid, *words)
        assert answer.returncode in (3, 4), (words, answer)
        assert answer.stdout == "" and answer.stderr.count("\n") >= 1
    assert one.run("list", "--dead", "-f", "json").stdout in ("[]\n", "[\n]\n")
    answer = one.run("--store", "/dev/shm/probing-%d" % SECOND, "query",
                     "SELECT count(*) FROM python.memory")
    assert answer.returncode != 0, answer


def test_the_door_of_the_other_is_shut(users):
    one, two = users
    path, = two.socket_path()
    code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
            "s.sendall(b'GET /api/processes HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\nprint(s.recv(99))")
    run = subprocess.run(["python3", "-c", code, path], preexec_fn=become(one.uid), cwd="/",
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert run.returncode != 0 and b"PermissionError" in run.stderr
    for folder in (two.folder + "/data", "/dev/shm/probing-%d" % SECOND):
        run = subprocess.run(["ls", folder], preexec_fn=become(one.uid), cwd="/",
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert run.returncode != 0 and b"denied" in run.stderr


def test_root_sees_both(users, tmp_path):
    root = querying.Node(tmp_path)
    try:
        pids = {row["pid"] for row in root.rows("SELECT DISTINCT pid FROM python.memory")}
        assert {user.pid for user in users} <= pids
        for user in users:
            assert root.rows("SELECT DISTINCT pid FROM python.backtrace", user.pid) == [
                {"pid": user.pid}]
            assert harness.probing(user.pid, "eval", "loss").stdout == "0.0234\n"
            with socket.socket(socket.AF_UNIX) as door:
                door.settimeout(5)
                door.connect(user.socket_path()[0])
                door.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert door.recv(12) == b"HTTP/1.1 200"
    finally:
        root.stop()


def at_terminal(*words, env=None):
    """(exit status, bytes) of the tool, as root, with a terminal as its output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(harness.BIN, [harness.BIN] + [str(word) for word in words],
                  dict(harness.ENV, TERM="xterm", **(env or {})))
    said = b""
    while select.select([terminal], [], [], 30)[0]:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(terminal)
    return os.waitpid(pid, 0)[1] >> 8, said


def test_terminal_of_root(users, any_py, start):
    """What another user's process prints is shown to root, but does not drive the terminal."""
    nasty = r"\x1b]0;title\x07\x9b31m\u202eabc\r"
    show = "import sys; sys.stdout.write('%s' + chr(10)); sys.stderr.write('%s' + chr(10))" % (
        nasty, nasty)
    for code in (show, "print('%s')" % nasty, "raise ValueError('%s')" % nasty):
        _, said = at_terminal(users[0].pid, "eval", code)
        assert b"abc" in said
        assert b"\x1b" not in said and b"\x07" not in said and b"\xc2\x9b" not in said, said
        assert "\u202e".encode() not in said and b"\r" not in said.replace(b"\r\n", b""), said
    code, said = at_terminal(users[0].pid, "eval", "print('a\\tb\\nc')")
    # The kernel's own terminal may write the tab as blanks.
    assert code == 0 and said.replace(b"\t", b"       ") == b"a       b\r\nc\r\n"
    # Into a pipe it goes as it is, and so does our own process's output.
    assert harness.probing(users[0].pid, "eval", "print('\\x1b[1m')").stdout == "\x1b[1m\n"
    job = start(agents.Probed, any_py)
    assert b"\x1b[1mbold" in at_terminal(job.pid, "eval", "print('\\x1b[1mbold')")[1]


def test_screens_of_root(users, tmp_path):
    """Values of another user's process in every format, on a terminal."""
    root = querying.Node(tmp_path)
    pid = users[0].pid
    users[0].run(pid, "eval", "import threading, time\n"
                 "def nasty(x): time.sleep(60)\n"
                 "threading.Thread(target=nasty, args=('\\x1b]0;t\\x07\\x9b1m\\u202eabc',), "
                 "name='\\x1b[2Jabc', daemon=True).start()")
    try:
        sql = "SELECT thread, locals FROM python.stacks WHERE func = 'nasty'"
        for words in ([["backtrace", "-a", "-l"], ["backtrace", "-a", "-l", "-f", "json"]]
                      + [["query", "-f", form, sql] for form in ("table", "csv", "json", "ndjson",
                                                                 "markdown")]):
            _, said = at_terminal(pid, *words, env=dict(root.env, NO_COLOR="1"))
            assert b"abc" in said, (words, said)
            assert b"\x1b" not in said and b"\x07" not in said and b"\xc2\x9b" not in said, words
            assert "\u202e".encode() not in said, words
    finally:
        root.stop()


def test_command_line_of_another(users):
    """A process may write into its own command line what it likes."""
    one = users[0]
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    job = subprocess.Popen([one.python, "-c", code, "\x9b31m\u202eabc\x1b[2J".encode()],
                           env=one.env, stdout=subprocess.PIPE, preexec_fn=become(one.uid), cwd="/")
    try:
        job.stdout.readline()
        for words in ([], ["-f", "csv"], ["-f", "json"]):
            _, said = at_terminal("list", *words, env={"NO_COLOR": "1", "COLUMNS": "400"})
            assert b"abc" in said, (words, said)
            assert b"\x1b" not in said and b"\xc2\x9b" not in said, words
            assert "\u202e".encode() not in said, words
    finally:
        job.kill()
        job.communicate()


def test_tokens_of_the_other(users):
    """Neither readable nor good for anything."""
    one, two = users
    port = free_port()
    assert one.run("serve", "--listen", "127.0.0.1:%d" % port).returncode == 0
    mine, theirs = (user.run("token").stdout.strip() for user in (one, two))
    assert len(mine) == len(theirs) == 64 and mine != theirs
    at = "127.0.0.1:%d" % port
    for secret, code in ((mine, 0), (theirs, 3)):
        answer = two.run(at, "query", "SELECT 1 AS n", env={"PROBING_TOKEN": secret})
        assert answer.returncode == code, answer
    run = subprocess.run(["cat", one.folder + "/config/probing/token"], check=False, cwd="/",
                         preexec_fn=become(two.uid), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.returncode != 0 and b"denied" in run.stderr
    # What others can read is no secret: such a file opens nothing.
    os.chmod(one.folder + "/config/probing/token", 0o644)
    answer = two.run(at, "query", "SELECT 1", env={"PROBING_TOKEN": mine})
    assert answer.returncode == 3
    os.chmod(one.folder + "/config/probing/token", 0o600)
    assert two.run(at, "query", "SELECT 1", env={"PROBING_TOKEN": mine}).returncode == 0


def test_a_job_is_one_user_s(users):
    """Two users may run scripts of one name; root is asked which one is meant."""
    for user in users:
        answer = user.run("job:probed.py", "backtrace", "--json")
        assert answer.returncode == 0, answer.stderr
        assert [one["pid"] for one in json.loads(answer.stdout)] == [user.pid]
    answer = harness.probing("job:probed.py", "inject")
    assert answer.returncode == 2
    assert answer.stderr.startswith("probing: 'probed.py' is a job of several users; give pids\n")
    for user in users:
        assert str(user.pid) in answer.stderr
