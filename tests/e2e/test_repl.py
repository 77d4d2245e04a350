"""probing PID repl: at a terminal, and with piped input."""
import os
import pty
import select
import signal
import subprocess
import time

import pyte
import pytest

import patience
from agents import Probed
from harness import BIN, ENV, probing


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
    """The tool at a pseudo terminal, and what its screen shows."""

    def __init__(self, pid, home, *options, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {"TERM": "xterm", "XDG_STATE_HOME": str(home), "HOME": str(home), **env}
            os.execve(BIN, [BIN, str(pid), "repl"] + list(options), {**ENV, **env})
        self.screen = pyte.HistoryScreen(80, 24)
        self.stream = pyte.ByteStream(self.screen)

    def type(self, text):
        os.write(self.fd, text.encode())
        return self

    def lines(self):
        """Rows of the screen down to the last one with text on it."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def until(self, *wanted, seconds=30):
        """Reads until the last rows are these: up to the cursor, blanks at the end aside."""
        end = time.monotonic() + seconds
        while self.lines()[-len(wanted):] != [row.rstrip() for row in wanted]:
            assert select.select([self.fd], [], [], max(0, end - time.monotonic()))[0], self.lines()
            try:
                piece = os.read(self.fd, 4096)
            except OSError:
                piece = b""
            assert piece, self.lines()
            self.stream.feed(piece)
        return self

    def code(self):
        """Exit code, once it ended."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
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
    patience.once(lambda: job.value("r() is None"), lambda text: text == "True\n")
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
    patience.once(lambda: target.eval("--frame", "brief", "local").stdout,
                  lambda text: text == "5\n")
    answer = pipe(target.pid, "local\ntime.sleep(1.5)\nlocal\n", "--frame", "brief")
    assert answer.stdout == b"5\n5\n"
    answer = pipe(target.pid, "1\n", "--frame", "nothing")
    assert (answer.returncode, answer.stdout) == (1, b"")
    assert answer.stderr == b"probing: repl: no function nothing is running\n"
    assert pipe(target.pid, "1\n", "--frame", "work", "--main").returncode == 2


@pytest.fixture
def term(job, tmp_path):
    return Terminal(job.pid, tmp_path).until(">>>")


def test_prompt(term, tmp_path):
    term.type("loss\r").until(">>> loss", "0.0234", ">>>")
    term.type("for i in range(2):\r").until("...")
    term.type("    print('n', i)\r").until("...     print('n', i)", "...")
    term.type("\r").until("n 0", "n 1", ">>>")
    term.type("\x04")
    assert term.code() == 0
    history = (tmp_path / "probing" / "history").read_text()
    assert history == "loss\nfor i in range(2):\n    print('n', i)\n"
    assert (tmp_path / "probing" / "history").stat().st_mode & 0o777 == 0o600


def test_typed_ahead(term):
    """Keys that come while a statement runs are those of the next line, and seen once."""
    term.type("import time; time.sleep(0.5)\r1 + 1\r").until(">>> 1 + 1", "2", ">>>")
    assert [row for row in term.lines() if "1 + 1" in row] == [">>> 1 + 1"]
    term.type("time.sleep(0.3)\r\x04")
    assert term.code() == 0


def test_editing_and_history(term):
    # 1 + 9, cursor left, 9 replaced by 41: arrows, delete, home, end.
    term.type("+ 9\x1b[D\x1b[3~\x1b[H1 \x1b[F41\r").until(">>> 1 + 41", "42", ">>>")
    term.type("\x1b[A\r").until(">>> 1 + 41", "42", ">>> 1 + 41", "42", ">>>")
    term.type("'abc def'\x17\x17'x\x15\"\u00e9\u00e9\"\x1b[D\x7f\r")
    term.until('>>> "\u00e9"', "'\u00e9'", ">>>")
    # A search in the history, backwards; undo.
    term.type("loss\r").until("0.0234", ">>>")
    term.type("\x12+ 4").until(">>> 1 + 41", "bck:+ 4")
    term.type("\x05\r").until(">>> 1 + 41", "42", ">>>")
    term.type("12345\x17").until(">>>").type("\x1f").until(">>> 12345")
    term.type("\x15exit\r")
    assert term.code() == 0


def test_vi_keys_by_the_users_own_file(job, tmp_path):
    (tmp_path / ".editrc").write_text("bind -v\n")
    term = Terminal(job.pid, tmp_path).until(">>>")
    term.type("loss + 9").until(">>> loss + 9")
    time.sleep(0.1)  # Escape alone: not the beginning of another key
    term.type("\x1bx").until(">>> loss +")
    term.type("a1 * 0\r").until(">>> loss + 1 * 0", "0.0234", ">>>")
    term.type("fini\t").until(">>> finish")
    term.type("\x03").until(">>> finish^C", ">>>")
    term.type("\x04")
    assert term.code() == 0


@pytest.mark.parametrize("env", [{"TERM": "nobody-knows-it"}, {"TERM": ""},
                                 {"TERM": "xterm", "TERMINFO": "/nowhere", "LC_ALL": "C"}])
def test_terminals_that_nobody_describes(job, tmp_path, env):
    """Where there is no description of the terminal it is taken for one like all others."""
    term = Terminal(job.pid, tmp_path, **env).until(">>>")
    assert not any("entry" in row or "erminal" in row for row in term.lines()), term.lines()
    term.type("1 + 9\x1b[D\x7f4\r").until(">>> 1 +49", "50", ">>>")
    term.type("\x1b[A\x7f\x7f+ 1" + "1" * 78 + "\x15loss").until(">>> loss")
    term.type("\r").until(">>> loss", "0.0234", ">>>")
    term.type("\x04")
    assert term.code() == 0


def test_completion(job, term):
    term.type("fini\t").until(">>> finish")
    term.type("\r").until(">>> finish", "False", ">>>")
    term.type("import os\r").until(">>> import os", ">>>")
    term.type("os.getpi\t").until(">>> os.getpid")
    term.type("()\r").until(job.value("__import__('os').getpid()").strip(), ">>>")
    names = job.value("print(*(n for n in dir(__import__('os').path) if n.startswith('split')))")
    shown = "  ".join(name.ljust(max(map(len, names.split()))) for name in names.split())
    term.type("os.path.spl\t").until(">>> os.path.split")
    term.type("\t").until(">>> os.path.split", shown.rstrip(), ">>> os.path.split")
    term.type("\x03").until(">>> os.path.split^C", ">>>")
    term.type("%thr\t").until(">>> %threads").type("\r")
    term.type("\x04")
    assert term.code() == 0


def test_control_c(term):
    term.type("half a line").until(">>> half a line").type("\x03")
    term.until(">>> half a line^C", ">>>")
    term.type("print('go'); exec('while True: pass')\r").until("go")
    time.sleep(0.2)
    term.type("\x03").until("KeyboardInterrupt", ">>>")
    term.type("loss\r").until("0.0234", ">>>")
    term.type("quit()\r")
    assert term.code() == 0


def test_the_process_ends_meanwhile(job, term):
    job.stop()
    term.type("1\r").until("probing: %d: the agent closed the connection" % job.pid)
    assert term.code() == 1
