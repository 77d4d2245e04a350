"""probing PID repl: at a terminal, and with piped input."""
import os
import pty
import select
import signal
import subprocess
import time

import pytest

import harness
from agents import Probed
from harness import BIN, ENV, probing
from injecting import has_agent

pytestmark = pytest.mark.skipif(not has_agent(), reason="built without the agent")


@pytest.fixture(autouse=True)
def _known_version(request):
    if "py" in request.fixturenames and request.getfixturevalue("py").minor < (3, 6):
        pytest.skip("the agent is for 3.6 and later")


@pytest.fixture
def job(any_py, start):
    target = start(Probed, any_py)
    probing(target.pid, "inject")
    return target


def pipe(pid, text, *options):
    return subprocess.run([BIN, str(pid), "repl"] + list(options), input=text.encode(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, timeout=60)


class Terminal:
    """The tool at a pseudo terminal."""

    def __init__(self, pid, home, *options):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BIN, [BIN, str(pid), "repl"] + list(options),
                      dict(ENV, TERM="xterm", XDG_STATE_HOME=str(home)))
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())
        return self

    def until(self, text, seconds=30):
        """Reads until text appears; what came before it."""
        end = time.time() + seconds
        while text not in self.seen:
            assert select.select([self.fd], [], [], max(0, end - time.time()))[0], self.seen
            try:
                piece = os.read(self.fd, 4096)
            except OSError:
                piece = b""
            assert piece, self.seen
            self.seen += piece.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def code(self):
        """Exit code, once it ended."""
        end = time.time() + 30
        while time.time() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 4096)
                except OSError:
                    pass
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                os.close(self.fd)
                return os.WEXITSTATUS(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("did not end")


SCRIPT = """loss
x = 5
x + 1
_ * 2
def f(a):

    # a comment
    if a:
        return 1

    else:
        return 2
f(0)
for i in range(2):
    print(i)
y = (1,
2)
y
class C:
    @staticmethod
    def g():
        return "g"

C.g()
if x:
    print("yes")
else:
    print("no")
s = '''a
b'''
s
"""


def test_piped_input_is_a_script(py, start):
    target = start(Probed, py)
    answer = pipe(target.pid, SCRIPT)
    assert answer.stdout.decode().splitlines() == [
        "0.0234", "6", "12", "2", "0", "1", "(1, 2)", "'g'", "yes", "'a\\nb'"]
    assert answer.returncode == 0
    assert answer.stderr.decode() == "probing: injected into process %d\n" % target.pid
    assert target.value("'_' in globals(), hasattr(__import__('builtins'), '_')") \
        == "(False, False)\n"


def test_script_ends_at_the_first_exception(job):
    answer = pipe(job.pid, "1\n1/0\n2\n")
    assert (answer.returncode, answer.stdout) == (1, b"1\n")
    assert answer.stderr.endswith(b"ZeroDivisionError: division by zero\n")
    assert pipe(job.pid, "x = (1,\n").returncode == 1
    assert pipe(job.pid, "3\nexit\n4\n").stdout == b"3\n"
    assert pipe(job.pid, "raise SystemExit\n4\n").stdout == b""
    assert pipe(job.pid, "for i in range(2):\n  print(i)").stdout == b"0\n1\n"


def test_magics(job):
    answer = pipe(job.pid, "%who\n%threads\n%bt\n%help\n%whoo\n5\n")
    out = answer.stdout.decode()
    assert "loss                 float" in out and "MainThread" in out
    assert "work" in out and "%threads" in out and out.endswith("\n5\n")
    assert answer.stderr.decode().endswith("no command %whoo; nearest: %who\n")


def test_underscore_does_not_keep_things_alive(job):
    assert job.value("import weakref\nclass Big: pass\nr = None") == ""
    answer = pipe(job.pid, "b = Big(); r = weakref.ref(b)\nb\ndel b\nr() is None\nr()\n")
    shown = answer.stdout.decode().splitlines()
    assert "Big object" in shown[0] and shown[1] == "False"
    harness.once(lambda: job.value("r() is None"), lambda text: text == "True\n")
    assert job.value("r() is None") == "True\n"


def test_prompt_in_a_frame(py, start):
    """The frame is held: the function may return meanwhile, and its variables are still there."""
    if py.free_threaded:
        pytest.skip("frames of other threads are not read without a GIL")
    target = start(Probed, py)
    script = ("secret, number\nmine = secret + 1\nmine, [mine for _ in range(1)]\n"
              "gc.isenabled()\n'mine' in globals()\n")
    answer = pipe(target.pid, script, "--frame", "work")
    assert answer.stdout.decode().splitlines() == ["(42, 21)", "(43, [43])", "True", "True"]
    assert target.value("'mine' in globals(), 'gc' in globals()") == "(False, False)\n"
    assert target.value("def brief():\n    local = 5\n    time.sleep(1)\n"
                        "todo.append(brief)") == ""
    harness.once(lambda: target.eval("--frame", "brief", "local").stdout,
                 lambda text: text == "5\n")
    answer = pipe(target.pid, "local\ntime.sleep(1.5)\nlocal\n", "--frame", "brief")
    assert answer.stdout == b"5\n5\n"
    answer = pipe(target.pid, "1\n", "--frame", "nothing")
    assert (answer.returncode, answer.stdout) == (1, b"")
    assert answer.stderr == b"probing: repl: no function nothing is running\n"
    assert pipe(target.pid, "1\n", "--frame", "work", "--main").returncode == 2


def test_prompt(job, tmp_path):
    term = Terminal(job.pid, tmp_path)
    term.until(">>> ")
    term.type("loss\r").until("0.0234\r\n")
    term.type("for i in range(2):\r").until("... ")
    term.type("    print('n', i)\r").until("... ")
    term.type("\r").until("n 0\r\nn 1\r\n")
    term.type("\x04")
    assert term.code() == 0
    history = (tmp_path / "probing" / "history").read_text()
    assert history == "loss\nfor i in range(2):\n    print('n', i)\n"
    assert (tmp_path / "probing" / "history").stat().st_mode & 0o777 == 0o600


def test_editing_and_history(job, tmp_path):
    term = Terminal(job.pid, tmp_path)
    term.until(">>> ")
    # 1 + 9, cursor left, 9 replaced by 41: arrows, delete, home, end.
    term.type("+ 9\x1b[D\x1b[3~\x1b[H1 \x1b[F41\r").until("42")
    term.until("\r>>> ")
    term.type("\x1b[A\r").until("42")
    term.until("\r>>> ")
    term.type("'abc def'\x17\x17'x\x15\"\u00e9\u00e9\"\x1b[D\x7f\r").until("'\u00e9'")
    term.type("exit\r")
    assert term.code() == 0


def test_completion(job, tmp_path):
    term = Terminal(job.pid, tmp_path)
    term.until(">>> ")
    term.type("fini\t").until("finish")
    term.type("\r").until("False")
    term.type("import os\r").until("\r>>> ")
    term.type("os.getpi\t").until("os.getpid")
    term.type("()\r").until(job.value("__import__('os').getpid()").strip())
    shown = term.type("os.path.is\t\t").until("isfile")
    assert "isdir" in shown or "isdir" in term.seen
    term.type("\x03").until("\r>>> ")
    term.type("%thr\t\r").until("MainThread")
    term.type("\x04")
    assert term.code() == 0


def test_control_c(job, tmp_path):
    term = Terminal(job.pid, tmp_path)
    term.until(">>> ")
    term.type("half a line\x03").until("^C")
    term.until("\r>>> ")
    term.type("print('go'); exec('while True: pass')\r").until("go\r\n")
    time.sleep(0.2)
    term.type("\x03").until("KeyboardInterrupt")
    term.until("\r>>> ")
    term.type("loss\r").until("0.0234")
    term.type("quit()\r")
    assert term.code() == 0


def test_the_process_ends_meanwhile(job, tmp_path):
    term = Terminal(job.pid, tmp_path)
    term.until(">>> ")
    job.stop()
    term.type("1\r").until("%d: the agent closed the connection" % job.pid)
    assert term.code() == 1
