"""probing PID eval, on every interpreter."""
import os
import signal
import time

import pytest

import harness
import patience
from agents import Probed, Wire, start_tool
from harness import TARGETS, Script, Target, backtrace, main_thread, probing

# A call that nothing but another thread can end: stuck.release().
STUCK = "import _thread; stuck = _thread.allocate_lock(); stuck.acquire(); stuck.acquire()\n"
WAIT = "import time; print('go')\nwhile True: time.sleep(0.01)"
SLEEP = "import time; print('go')\ntime.sleep(1000)"
SLEEPING = ("23", "230", "270")  # select, clock_nanosleep and pselect6, by /proc/PID/syscall


@pytest.fixture(autouse=True)
def _known_version(py):
    if py.minor < (3, 6):
        pytest.skip("the agent is for 3.6 and later")


@pytest.fixture(scope="module")
def job(py):
    target = Probed(py)
    probing(target.pid, "inject")
    yield target
    target.stop()


@pytest.fixture
def own(py, start):
    """A job of the test's own."""
    def begin(*args):
        return start(Probed, py, *args)
    return begin


def test_injects_first_and_says_so(own):
    target = own()
    answer = target.eval("loss")
    assert (answer.returncode, answer.stdout) == (0, "0.0234\n")
    assert answer.stderr == "probing: injected into process %d\n" % target.pid
    assert target.eval("loss").stderr == ""


def test_values_as_at_the_prompt(job):
    assert job.value("1 + 1") == "2\n"
    assert job.value("'text'") == "'text'\n"
    assert job.value("None") == ""
    assert job.value("x = 5") == "" and job.value("x") == "5\n"
    assert job.value("import gc; gc.collect(); print('Cleanup complete')") == "Cleanup complete\n"
    assert job.value("[print(i) for i in range(2)]") == "0\n1\n"
    assert job.value("[None for i in range(2)]") == "[None, None]\n"
    assert job.value("\n  y = 3\n  y * 2\n") == "6\n"
    assert job.value("'_' in globals(), hasattr(__import__('builtins'), '_')") == "(False, False)\n"


def test_threads_of_a_job_that_never_imported_threading(own):
    target = own()
    code = "import threading; [(t.name, t.is_alive(), t.daemon) for t in threading.enumerate()]"
    assert target.value(code) == "[('MainThread', True, False)]\n"
    assert target.value("threading.main_thread().ident == threading.get_ident()") == "False\n"
    assert target.value("threading.current_thread() and None") == ""
    assert target.value("len(threading.enumerate())") == "1\n"
    assert target.end() == (0, "bye\n", "")


def test_threads_by_name(own):
    code = "import threading; [print(f'{t.name}: {t.is_alive()}') for t in threading.enumerate()]"
    assert own("chatter").value(code) == "MainThread: True\nchatter: True\n"


def test_exception(job):
    answer = job.eval("1/0")
    assert answer.returncode == 1 and answer.stdout == ""
    lines = answer.stderr.splitlines()
    assert lines[:2] == ["Traceback (most recent call last):",
                         '  File "<eval>", line 1, in <module>']
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "probing" not in answer.stderr


def test_syntax_error(job):
    answer = job.eval("1 +")
    assert answer.returncode == 1
    assert answer.stderr.startswith('  File "<eval>", line 1\n')
    assert "SyntaxError: invalid syntax" in answer.stderr


def test_exit_ends_the_code_only(job):
    assert job.eval("import sys; sys.exit()").returncode == 0
    assert job.eval("sys.exit(3)").returncode == 1
    answer = job.eval("sys.exit('sorry')")
    assert (answer.returncode, answer.stderr) == (1, "sorry\n")
    assert job.value("loss") == "0.0234\n"


def test_streams_are_apart(job):
    answer = job.eval("import sys; print('out'); print('err', file=sys.stderr); "
                      "sys.stdout.buffer.write(b'raw\\xff\\n') and None".replace("\\xff", ""))
    assert (answer.stdout, answer.stderr) == ("out\nraw\n", "err\n")
    assert job.value("print('\\ud800\\u00e9')") == "\\ud800\u00e9\n"
    assert job.eval("input()").stderr.endswith("EOFError: EOF when reading a line\n")


def test_output_comes_while_it_runs(job, tmp_path):
    code = "import os, time; print('first')\nwhile not os.path.exists(%r): time.sleep(0.01)"
    tool = start_tool(job.pid, "eval", code % str(tmp_path / "go"))
    try:
        assert tool.stdout.readline() == b"first\n"
        assert tool.poll() is None
    finally:
        (tmp_path / "go").write_text("")
        assert tool.communicate(timeout=60)[0] == b""


def test_other_threads_keep_their_output(own):
    target = own("chatter")
    code = ("import sys, time\nbefore = sys.stderr\n"
            "for i in range(200): print('mine', file=sys.stderr); time.sleep(0.001)")
    answer = target.eval(code)
    lines = answer.stderr.splitlines()
    assert lines[0].startswith("probing: injected") and set(lines[1:]) == {"mine"}
    assert target.value("sys.stderr is sys.__stderr__, sys.stdout is sys.__stdout__") \
        == "(False, False)\n"
    code, out, err = target.end()
    assert (code, out) == (0, "bye\n") and set(err.splitlines()) == {"noise"}


def test_streams_are_put_back(own):
    target = own()
    keep = ("import sys, _thread, time\n"
            "seen = None\n"
            "def look():\n    time.sleep(0.5)\n    global seen\n"
            "    seen = sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__\n"
            "_thread.start_new_thread(look, ()) and None")
    assert target.value(keep) == ""
    time.sleep(0.5)
    patience.until(lambda: target.value("seen") != "")
    assert target.value("seen") == "(True, True)\n"
    assert target.value("import io; mine = sys.stdout = io.StringIO(); print('kept')") == ""
    assert target.value("mine.getvalue()") == "'kept\\n'\n"
    assert target.value("sys.stdout.real is mine") == "True\n"


def test_script_on_stdin(job):
    script = "import subprocess\nfor i in range(3):\n    print(i)\n'end'\n"
    import subprocess

    import harness
    run = subprocess.run([harness.BIN, str(job.pid), "eval", "-"], input=script.encode(),
                         stdout=subprocess.PIPE, env=harness.ENV, timeout=30)
    assert run.stdout == b"0\n1\n2\n'end'\n"


WITHOUT_GIL = ("probing: eval: without a GIL nobody but its own thread may read a frame; "
               "backtrace -l shows variables\n")


def test_frame(py, job):
    if py.free_threaded:
        answer = job.eval("--frame", "0", "secret")
        assert (answer.returncode, answer.stderr) == (1, WITHOUT_GIL)
        return
    assert job.value("--frame", "0", "secret, number") == "(42, 21)\n"
    assert job.value("--frame", "0", "[secret + i for i in range(2)]") == "[42, 43]\n"
    assert job.value("--frame", "1", "mode") == "'idle'\n"
    assert job.value("--frame", "0", "--tid", job.pid, "secret") == "42\n"
    answer = job.eval("--frame", "99", "1")
    assert (answer.returncode, answer.stderr) == (1, "probing: eval: frame 99 does not exist\n")
    assert job.eval("--frame", "0", "--tid", "1", "1").returncode == 4
    assert job.eval("--frame", "0", "--main", "1").returncode == 2
    assert job.eval("--frame", "100001", "1").returncode == 2
    assert job.eval("--frame", "", "1").returncode == 2


def test_frame_by_name(py, own):
    if py.free_threaded:
        pytest.skip("frames of other threads are not read without a GIL")
    target = own("chatter")
    assert target.value("--frame", "work", "secret, number") == "(42, 21)\n"
    assert target.value("--frame", "main", "mode") == "'chatter'\n"
    assert target.value("--frame", "<module>", "__name__, loss") == "('__main__', 0.0234)\n"
    # Not on the main thread, but on one other.
    assert target.value("--frame", "chatter", "noise") == "'noise\\n'\n"
    assert target.value("--frame", "Thread.run", "self.name") == "'chatter'\n"
    answer = target.eval("--frame", "wrok", "1")
    assert (answer.returncode, answer.stderr) == (
        1, "probing: eval: no function wrok is running\n")
    answer = target.eval("--frame", "chatter", "--tid", target.pid, "1")
    assert answer.stderr == "probing: eval: no function chatter is running there\n"
    more = "import threading; threading.Thread(target=chatter, daemon=True).start()"
    assert target.value(more) == ""
    answer = target.eval("--frame", "chatter", "1")
    assert answer.returncode == 1 and "say which with --tid" in answer.stderr


def test_name_of_another_function(py, job):
    """A name that only a running function knows: where it is to be had is said."""
    for code in ("secret", "[secret for _ in range(2)]", "print(mode)"):
        answer = job.eval(code)
        name = "mode" if "mode" in code else "secret"
        function = "main" if name == "mode" else "work"
        said = "NameError: name '%s' is not defined\n" % name
        if not py.free_threaded:
            said += "%s is a variable of %s: --frame %s\n" % (name, function, function)
        assert answer.returncode == 1 and answer.stderr.endswith(said), answer.stderr
    assert job.eval("nowhere").stderr.endswith("NameError: name 'nowhere' is not defined\n")


def test_the_programs_function_comes_first(py, start, tmp_path):
    """Functions of a library that run have a variable of this name as well."""
    if py.free_threaded:
        pytest.skip("frames of other threads are not read without a GIL")
    script = tmp_path / "waits.py"
    script.write_text("import os, queue, threading\nthreading.Thread(target=int).start()\n"
                      "def work(timeout):\n    print('ready', os.getpid(), flush=True)\n"
                      "    queue.Queue().get(timeout=timeout)\nwork(1000)\n")
    target = start(Target, [py.command, str(script)])
    stack = patience.once(lambda: harness.stack_of(target.pid), lambda it: it[0][0] != "work")
    assert stack[0][0] != "work", stack
    answer = probing(target.pid, "eval", "timeout")
    assert answer.stderr.endswith("timeout is a variable of work: --frame work\n"), answer


def test_modules_need_no_import(py, own):
    target = own()
    assert target.value("isinstance(gc.collect(), int), sys.byteorder") == "(True, 'little')\n"
    assert target.value("[gc.isenabled() for _ in range(2)]") == "[True, True]\n"
    assert target.value("def count(): return len(threading.enumerate())\ncount()") == "1\n"
    assert target.value("tracemalloc.is_tracing()") == "False\n"
    assert target.value("'gc' in globals(), 'tracemalloc' in globals()") == "(False, False)\n"
    # What the code means itself comes first, and what is no module stays an error.
    assert target.value("gc = 5\ngc") == "5\n" and target.value("gc") == "5\n"
    assert target.value("(lambda queue: queue)(3)") == "3\n"
    for code in ("nosuchthing", "this", "torch"):
        answer = target.eval(code)
        assert answer.returncode == 1
        assert "NameError: name '%s' is not defined" % code in answer.stderr
    if not py.free_threaded:
        assert target.value("--frame", "work", "os.getpid() == %d, gc" % target.pid) \
            == "(True, 5)\n"


@pytest.mark.few
def test_imports_do_not_meet(py, start, tmp_path):
    """Two threads that wait for each other's modules: one of them would get an exception."""
    package = tmp_path / "slowly"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os, time\nprint('ready', os.getpid(), flush=True)\n"
        "while not os.path.exists(%r): time.sleep(0.01)\n"
        "from . import part\n" % str(tmp_path / "go"))
    (package / "part.py").write_text("import time\ntime.sleep(0.3)\nvalue = 7\n")
    code = "import slowly, time; print(slowly.part.value, flush=True); time.sleep(20)"
    target = start(Target, [py.command, "-c", code], cwd=str(tmp_path))
    answer = probing(target.pid, "eval", "import slowly.part")
    assert (answer.returncode, answer.stderr.splitlines()[-1]) == (
        1, "probing: eval: the program is importing slowly just now; try again when it has")
    tool = start_tool(target.pid, "eval", "import slowly.part; slowly.part.value")
    time.sleep(0.3)
    (tmp_path / "go").write_text("")
    assert tool.communicate(timeout=60) == (b"7\n", b"")
    assert target.process.stdout.readline() == b"7\n"


def test_main_thread(job):
    code = "import threading; threading.current_thread() is threading.main_thread()"
    assert job.value(code) == "False\n"
    assert job.value("--main", code) == "True\n"
    assert job.eval("--main", "1/0").returncode == 1


def start_waiting(py, target):
    """The tool, evaluating code that waits for a signal. The code runs as a pending call, in which
    Python before 3.8 sees a signal only where it ends a wait: there the wait has begun. It does
    so where the program can take an exception: behind its last word it goes back into its try."""
    patience.until(lambda: harness.stack_of(target.pid)[0],
                   lambda top: top == target.at("<module>", "loop"))
    tool = start_tool(target.pid, "eval", "--main", WAIT if py.minor >= (3, 8) else SLEEP)
    assert tool.stdout.readline() == b"go\n"
    if py.minor < (3, 8):
        def syscall():
            with open("/proc/%d/syscall" % target.pid) as file:
                return file.read().split()[0]
        assert patience.once(syscall, SLEEPING.__contains__) in SLEEPING
    return tool


def test_signals_are_the_programs(py, start):
    """A handler that raises while code runs on the main thread raises in the program; what the code
    itself raises does not, and what is printed later goes where it went."""
    target = start(Script, py, "signalled.py")
    probing(target.pid, "inject")
    for sign, name in ((signal.SIGUSR1, "Alarm"), (signal.SIGINT, "KeyboardInterrupt"),
                       (signal.SIGUSR1, "Alarm")):
        tool = start_waiting(py, target)
        os.kill(target.pid, sign)
        assert target.read_ready(60) == name + "\n"
        assert tool.communicate(timeout=60)[1].decode() == (
            "probing: eval: a signal came meanwhile; %s goes to the program\n" % name)
        assert tool.returncode == 1
    for code in ("raise KeyboardInterrupt", "raise Alarm"):
        answer = probing(target.pid, "eval", "--main", code)
        assert answer.returncode == 1 and "Traceback" in answer.stderr
    answer = probing(target.pid, "eval", "--main", "--timeout", "0.3", "while True: pass")
    assert answer.returncode == 5
    answer = probing(target.pid, "eval", "--main", "say('here')")
    assert (answer.stdout, answer.stderr) == ("here\n", "")
    tool = start_waiting(py, target)
    os.kill(target.pid, signal.SIGTERM)
    assert target.process.wait(60) == 3
    assert target.process.stdout.read() == b""
    tool.communicate(timeout=60)


def test_busy_job(own):
    target = own("busy")
    target.value("loss")
    began = time.monotonic()
    for _ in range(10):
        assert target.value("loss") == "0.0234\n"
    assert time.monotonic() - began < 20
    assert target.value("--main", "loss") == "0.0234\n"
    assert target.end()[0] == 0


@pytest.mark.parametrize("where", [(), ("--main",)])
def test_timeout_of_a_loop(job, where):
    began = time.monotonic()
    answer = job.eval("--timeout", "0.3", *where, "while True: pass")
    assert answer.returncode == 5 and time.monotonic() - began < 20
    assert "KeyboardInterrupt" in answer.stderr
    assert answer.stderr.endswith("probing: eval: interrupted after 0.3 s\n")
    assert job.value("loss") == "0.0234\n"


def test_timeout_where_no_thread_was_before(py, start):
    """Up to 3.6 such a program has no GIL for whoever interrupts the code to take."""
    target = start(Script, py, "signalled.py")
    probing(target.pid, "inject")
    answer = probing(target.pid, "eval", "--main", "--timeout", "0.3", "while True: pass")
    assert answer.returncode == 5
    assert probing(target.pid, "eval", "--main", "say('here')").stdout == "here\n"


@pytest.mark.few
def test_timeout_of_a_call_that_cannot_be_interrupted(job):
    answer = job.eval("--timeout", "0.2", STUCK + "print('late')")
    assert answer.returncode == 5
    assert "cannot be interrupted" in answer.stderr and answer.stdout == ""
    try:
        assert job.value("loss") == "0.0234\n"
        patience.until(lambda: job.threads() == 3)
    finally:
        assert job.value("stuck.release()") == ""
    patience.until(lambda: job.threads() == 2)


def test_control_c_interrupts_the_code(job):
    tool = start_tool(job.pid, "eval", "print('go')\nwhile True: pass")
    assert tool.stdout.readline() == b"go\n"
    tool.send_signal(signal.SIGINT)
    _out, err = tool.communicate(timeout=60)
    assert tool.returncode == 1 and err.endswith(b"KeyboardInterrupt\n")
    assert job.value("loss") == "0.0234\n"


@pytest.mark.few
def test_second_control_c_ends_the_tool(job):
    tool = start_tool(job.pid, "eval", "print('go')\n" + STUCK)
    assert tool.stdout.readline() == b"go\n"
    tool.send_signal(signal.SIGINT)
    time.sleep(0.2)
    tool.send_signal(signal.SIGINT)
    tool.communicate(timeout=60)
    assert tool.returncode == 130
    assert job.value("stuck.release()") == ""
    patience.until(lambda: job.threads() == 2)


@pytest.mark.few
def test_a_killed_tool_takes_its_code_along(job):
    tool = start_tool(job.pid, "eval", "print('go')\nwhile True: pass")
    assert tool.stdout.readline() == b"go\n"
    tool.kill()
    tool.communicate(timeout=60)
    patience.until(lambda: job.threads() == 2)


def test_two_at_once_do_not_mix(job):
    code = "import time\nfor i in range(50):\n    print(%r)\n    time.sleep(0.002)"
    tools = [start_tool(job.pid, "eval", code % name) for name in "abcd"]
    for name, tool in zip("abcd", tools):
        out, err = tool.communicate(timeout=60)
        assert (tool.returncode, err) == (0, b"")
        assert out == name.encode() + b"\n" + (name.encode() + b"\n") * 49


def test_a_long_one_does_not_block_a_short_one(job):
    code = "import time; gate = []; print('waits')\nwhile not gate: time.sleep(0.01)\n'slow'"
    tool = start_tool(job.pid, "eval", code)
    assert tool.stdout.readline() == b"waits\n"
    assert job.value("gate.append(1)") == ""
    assert tool.communicate(timeout=60)[0] == b"'slow'\n"


@pytest.mark.few
def test_large_output_and_its_limit(job):
    assert len(job.value("print('x' * 79 + '\\n', end='') or print('y' * 3000000)")) == 3000081
    probing(job.pid, "config", "eval.output_limit=1")
    try:
        answer = job.eval("for i in range(40000): print('z' * 79)")
        assert len(answer.stdout) < 1200000
        assert "the output limit is reached" in answer.stderr and answer.returncode == 0
    finally:
        probing(job.pid, "config", "eval.output_limit=64")


def test_deep_recursion(job):
    answer = job.eval("def f(): return f()\nf()")
    assert answer.returncode == 1 and "RecursionError" in answer.stderr
    assert job.value("loss") == "0.0234\n"


@pytest.mark.few
def test_no_gil_names_the_holder(py, start):
    if py.free_threaded:
        pytest.skip("no GIL in this build")
    target = start(Script, py, "gil_hold.py")
    probing(target.pid, "inject")
    began = time.monotonic()
    answer = probing(target.pid, "eval", "--timeout", "1", "1 + 1")
    assert answer.returncode == 5 and time.monotonic() - began < 20
    lines = answer.stderr.splitlines()
    first = [line for line in lines if "no GIL" in line][0]
    assert first == ("probing: eval: no GIL after 1 s: held by thread %d \"MainThread\""
                     % target.pid)
    assert any(" hold " in line and "gil_hold.py" in line for line in lines)
    assert lines[-1] == "try: probing %d backtrace -a -n" % target.pid


def test_main_without_a_safe_point(py, start):
    target = start(Script, py, "simple.py")
    answer = probing(target.pid, "eval", "--main", "--timeout", "0.5", "1")
    assert answer.returncode == 5
    assert "no safe point after 0.5 s: main thread %d" % target.pid in answer.stderr


def test_a_3_6_that_never_had_threads(py, start):
    """It has no GIL to take, and its main thread sleeps: an honest answer, in time."""
    if py.minor > (3, 6):
        pytest.skip("there is always a GIL")
    code = ("import os, select, sys; print('ready', os.getpid()); sys.stdout.flush(); "
            "select.poll().poll(99000)")
    target = start(Target, [py.command, "-c", code])
    answer = probing(target.pid, "eval", "--timeout", "0.5", "1")
    assert answer.returncode == 5
    assert "no GIL before its first thread" in answer.stderr


def test_the_stack_stays_as_it_was(job):
    before = main_thread(backtrace(job.pid))
    assert job.value("loss") == "0.0234\n"
    after = main_thread(backtrace(job.pid))
    assert before["frames"][-1] == after["frames"][-1]
    assert TARGETS in after["frames"][-1]["file"]


# Code that takes and gives back locks which the program needs, too, as its libraries do.
LOCKS = {
    "import": ("import _frozen_importlib as b, _imp", "while True: b._get_module_lock('other')",
               "not _imp.lock_held()"),
    "log": ("import logging; handler = logging.Handler(); handler.emit = len",
            "while True: handler.handle('')",
            "repr(handler.lock).startswith('<unlocked')"),
    "with": ("import _thread; guard = _thread.RLock()\n"
             "source = 'def turn():\\n while True:\\n  with guard: pass\\n'\n"
             "exec(compile(source, 'program.py', 'exec'))", "turn()",
             "repr(guard).startswith('<unlocked')"),
}


@pytest.mark.few
@pytest.mark.parametrize("kind", sorted(LOCKS))
def test_interrupted_code_leaves_no_lock_taken(py, own, kind):
    """Nor does code that an eject, or the end of its client, interrupts."""
    target = own()
    prepare, code, is_free = LOCKS[kind]
    target.value(prepare)
    for turn in range(40):
        wire = Wire(target.home())
        wire.eval(code, timeout_ms=20)
        if turn % 2:
            time.sleep(0.02)
            wire.close()
        else:
            assert wire.answer()[0] in (3, 4, 5)  # 3: it had no turn in time
        patience.until(lambda: target.threads() == 2)
        assert target.value(is_free, "--timeout", "5") == "True\n", turn
        wire.close()


def test_interrupted_code_leaves_no_stream_behind(job):
    """It had no chance to put back what it had put in place of the program's."""
    answer = job.eval("--timeout", "0.5", "import io, sys; sys.stdout = io.StringIO()\n"
                                          "while True: pass")
    assert answer.returncode == 5, answer
    patience.until(lambda: job.value("import sys; type(sys.__dict__['stdout']).__name__") ==
                       "'TextIOWrapper'\n")
    assert job.value("'StringIO' in repr(sys.__dict__['stdout'])") == "False\n"
