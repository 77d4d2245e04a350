"""Targets that cannot be read: one line that says why, and the right exit code."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

import interpreters
from harness import (BIN, ENV, TARGETS, Script, Target, die_with_parent, probing, stack_of, states,
                     tracer)


def refused(answer, code, *words):
    assert answer.returncode == code, (answer.returncode, answer.stdout, answer.stderr)
    assert answer.stdout == ""
    assert answer.stderr.startswith("probing: ") and answer.stderr.count("\n") == 1
    for word in words:
        assert word in answer.stderr.lower(), answer.stderr


def quick(*args, **how):
    began = time.monotonic()
    answer = probing(*args, **how)
    assert time.monotonic() - began < 20
    return answer


def test_no_such_process():
    with open("/proc/sys/kernel/pid_max") as file:
        unused = int(file.read()) - 1
    refused(quick(unused, "backtrace"), 4, "no such process")


def test_zombie(start, any_py):
    target = start(Script, any_py, "forks.py")
    zombie = target.extra[2]
    assert states(zombie) == ["Z"]
    refused(quick(zombie, "backtrace"), 4, "zombie")


def test_not_python():
    process = subprocess.Popen(["sleep", "1000"], preexec_fn=die_with_parent)
    try:
        refused(quick(process.pid, "backtrace"), 1, "python")
    finally:
        process.kill()
        process.wait()


def test_kernel_thread():
    if not os.path.exists("/proc/2/task") or os.path.exists("/proc/2/exe"):
        pytest.skip("no kernel threads to be seen")
    try:
        os.readlink("/proc/2/exe")
    except FileNotFoundError:
        refused(quick(2, "backtrace"), 1, "kernel")
    except PermissionError:
        pytest.skip("cannot tell")


def test_stopped_process_is_read_and_stays_stopped(start, any_py):
    target = start(Script, any_py, "simple.py")
    os.kill(target.pid, signal.SIGSTOP)
    while set(states(target.pid)) != {"T"}:
        time.sleep(0.001)
    for options in ((), ("-a", "-n"), ("--pause",)):
        answer = quick(target.pid, "backtrace", "-f", "json", *options)
        assert answer.returncode == 0, answer.stderr
        assert '"leaf"' in answer.stdout
        assert set(states(target.pid)) == {"T"}
    os.kill(target.pid, signal.SIGCONT)
    target.settle()
    assert stack_of(target.pid)[0] == target.at("leaf", "leaf")


@pytest.mark.parametrize("options", [(), ("-a", "-n", "-l"), ("--pause", "-a"), ("--no-pause",)])
def test_process_that_exits_halfway(start, any_py, options):
    target = start(Script, any_py, "brief.py", "0.6")
    codes = set()
    while target.process.poll() is None:
        answer = quick(target.pid, "backtrace", *options)
        codes.add(answer.returncode)
        if answer.returncode:
            assert answer.stderr.count("\n") == 1, answer.stderr
    assert codes <= {0, 1, 4} and 0 in codes
    assert quick(target.pid, "backtrace").returncode == 4


class Nobody:
    """Another user, with a copy of the tool and an interpreter that this user may run."""

    def __init__(self, folder, python):
        self.prefix = PREFIX
        self.folder = folder
        self.python = python
        self.tool = shutil.copy(BIN, os.path.join(folder, "probing"))

    def script(self, *first_lines):
        path = os.path.join(self.folder, "script.py")
        body = ["import os, sys, time"] + list(first_lines)
        body += ["print('ready', os.getpid())", "sys.stdout.flush()",
                 "time.sleep(100000)  # LINE:module"]
        with open(path, "w") as file:
            file.write("\n".join(body) + "\n")
        os.chmod(path, 0o644)
        return path

    def probing(self, *args):
        return subprocess.run(self.prefix + [self.tool] + [str(arg) for arg in args], env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


PREFIX = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def may_run(python):
    return subprocess.run(PREFIX + [python.command, "-c", ""], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, cwd="/").returncode == 0


@pytest.fixture
def nobody():
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    usable = [item for item in interpreters.readable() if not item.wrapped and may_run(item)]
    if not usable:
        pytest.skip("no interpreter that another user may run")
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    yield Nobody(folder, usable[-1])
    shutil.rmtree(folder)


def as_nobody(start, nobody, *first_lines):
    path = nobody.script(*first_lines)
    return start(Script, nobody.python, path, path=path,
                 command=nobody.prefix + [nobody.python.command])


def test_another_users_process(start, any_py, nobody):
    target = start(Script, any_py, "simple.py")
    refused(nobody.probing(target.pid, "backtrace"), 3, "not permitted", "owned by root", "sudo")


def test_not_dumpable_process(start, nobody):
    target = as_nobody(start, nobody, "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)")
    refused(nobody.probing(target.pid, "backtrace"), 3, "not permitted")
    assert stack_of(target.pid) == [target.at("<module>", "module")]


def test_root_reads_another_users_process(start, nobody):
    target = as_nobody(start, nobody)
    assert stack_of(target.pid) == [target.at("<module>", "module")]


def test_user_reads_own_process(start, nobody):
    if yama_scope() > 0:
        pytest.skip("Yama allows children only")
    target = as_nobody(start, nobody)
    for options in ((), ("-a", "-n"), ("--pause",)):
        answer = nobody.probing(target.pid, "backtrace", *options)
        assert answer.returncode == 0, answer.stderr
        assert "<module>" in answer.stdout


def yama_scope():
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            return int(file.read())
    except OSError:
        return 0


def test_debug_build_before_3_13(start):
    old = [item for item in interpreters.found() if item not in interpreters.readable()]
    if not old:
        pytest.skip("no debug build of 3.12 or older here")
    for item in old:
        target = start(Script, item, "simple.py")
        refused(quick(target.pid, "backtrace"), 1, "debug")


@pytest.mark.long
def test_traced_by_another(start, any_py):
    """A debugger holds it: what needs no stop still works, the rest says why."""
    target = start(Script, any_py, "simple.py")
    code = ("import ctypes, sys, time\n"
            "assert ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0) == 0\n"
            "time.sleep(1000)\n")
    debugger = subprocess.Popen([sys.executable, "-c", code, str(target.pid)],
                                preexec_fn=die_with_parent)
    try:
        end = time.monotonic() + 30
        while set(states(target.pid)) != {"t"} and time.monotonic() < end:
            time.sleep(0.01)
        assert tracer(target.pid) == debugger.pid
        answer = quick(target.pid, "backtrace", "-f", "json")
        assert answer.returncode == 0 and '"leaf"' in answer.stdout, answer
        answer = quick(target.pid, "backtrace", "--pause")
        assert answer.returncode == 0 and "  leaf  " in answer.stdout, answer
    finally:
        debugger.kill()
        debugger.wait()


@pytest.mark.parametrize("version, words", [
    ("3.5.9", ["does not run in python 3.5.9", "backtrace"]),
    ("3.16.0", ["python 3.16.0 is not known", "3.15", "--force"]),
    ("2.7.18", ["python 2.7.18 is not known"]),
])
def test_versions_that_the_probe_does_not_know(start, tmp_path, version, words):
    program = str(tmp_path / ("python" + version.rpartition(".")[0]))
    source = os.path.join(TARGETS, "pretend.c")
    if version < "3":  # which has a type that Python 3 does not have
        with open(source) as file:
            text = file.read() + "void PyString_FromString(void) {}\n"
        source = str(tmp_path / "pretend.c")
        with open(source, "w") as file:
            file.write(text)
    subprocess.run([shutil.which("cc"), "-rdynamic", '-DPRETEND="%s"' % version, "-o", program,
                    source], check=True)
    target = start(Target, [program])
    refused(quick(target.pid, "inject"), 1, *words)
