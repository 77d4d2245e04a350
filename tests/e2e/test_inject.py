"""Loading the agent into a live process, on every interpreter, and taking it out again."""
import os
import re
import subprocess
import time

import pytest

import patience
from harness import BIN, ENV, Script, probing, stack_of, states
from injecting import eject, inject, moves_on, threads, threads_become, traces

SIMPLE = 2  # threads of simple.py

@pytest.fixture(autouse=True)
def _known_version(request):
    if "py" in request.fixturenames and request.getfixturevalue("py").minor < (3, 6):
        pytest.skip("the agent is for 3.6 and later")


def test_sleeping_process(start, py):
    target = start(Script, py, "simple.py")
    before = threads(target.pid)
    inject(target.pid)
    assert threads_become(target.pid, before + 1)
    assert stack_of(target.pid)[0] == target.at("leaf", "leaf")
    eject(target.pid)
    assert threads_become(target.pid, before)
    assert traces(target) == []
    target.settle()


def test_running_process(start, py):
    target = start(Script, py, "spin.py")
    for _ in range(5):
        inject(target.pid)
        eject(target.pid)
    assert threads_become(target.pid, 1)
    assert moves_on(target.pid)


@pytest.mark.parametrize("command", ["gil_hold.py", "aio.py await", "threads.py", "deadlock.py"])
def test_other_targets(start, py, command):
    if py.free_threaded and command == "gil_hold.py":
        pytest.skip("no GIL in this build")
    target = start(Script, py, *command.split())
    before = threads(target.pid)
    inject(target.pid)
    # The agent's own thread; where the GIL is held, another one may wait for it.
    assert threads_become(target.pid, before + 1, 0.5) or threads(target.pid) == before + 2
    assert traces(target)
    assert target.process.poll() is None


def test_hundred_threads(start, py):
    target = start(Script, py, "many.py", "100")
    inject(target.pid)
    assert threads_become(target.pid, 102)
    eject(target.pid)
    assert threads_become(target.pid, 101)


def test_twice(start, any_py):
    target = start(Script, any_py, "simple.py")
    inject(target.pid)
    again = probing(target.pid, "inject")
    assert (again.returncode, again.stdout) == (
        0, "Probes are already in process %d\n" % target.pid)
    applied = probing(target.pid, "inject", "-D", "eval.timeout=7")
    assert (applied.returncode, applied.stdout) == (
        0, "Probes are already in process %d; options applied\n" % target.pid), applied.stderr
    assert threads_become(target.pid, SIMPLE + 1)


@pytest.mark.parametrize("alias", ["in", "i"])
def test_aliases(start, any_py, alias):
    target = start(Script, any_py, "simple.py")
    answer = probing(target.pid, alias)
    assert "Successfully injected probes" in answer.stdout


def test_verbose_says_how(start, any_py):
    target = start(Script, any_py, "simple.py")
    answer = inject(target.pid, "-v")
    told = re.match(r"hijacked a thread blocked in \w+: thread (\d+), held for (\d+) µs; "
                    r"\d+ attempts?, [\d.]+ ms in all\n$", answer.stderr)
    assert told, answer.stderr
    assert int(told.group(1)) != target.pid, "the main thread is the last choice"
    assert target.process.poll() is None


@pytest.mark.parametrize("options,words", [
    (["-D", "novalue"], "KEY=VALUE"),
    (["-D", "=x"], "KEY=VALUE"), (["--timeout", "0"], "between"), (["--nonsense"], "unknown"),
])
def test_wrong_usage_touches_nothing(start, any_py, options, words):
    target = start(Script, any_py, "simple.py")
    answer = probing(target.pid, "inject", *options)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert words in answer.stderr
    assert threads_become(target.pid, SIMPLE)


def test_unknown_setting_is_an_error(start, any_py):
    target = start(Script, any_py, "simple.py")
    inject(target.pid)
    answer = probing(target.pid, "inject", "-D", "no.such=1")
    assert answer.returncode != 0 and "no.such" in answer.stderr


def test_eject_without_inject(start, any_py):
    target = start(Script, any_py, "simple.py")
    answer = probing(target.pid, "eject")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "no probes" in answer.stderr and answer.stderr.count("\n") == 1


def test_thread_sanitizer_is_refused(start, any_py):
    """Its run time crashes in a thread that it has not seen begin."""
    found = subprocess.run(["cc", "-print-file-name=libtsan.so"], stdout=subprocess.PIPE,
                           encoding="utf-8").stdout.strip()
    if not os.path.exists(found):
        pytest.skip("no ThreadSanitizer")
    target = start(Script, any_py, "simple.py", env={"LD_PRELOAD": os.path.realpath(found)})
    answer = probing(target.pid, "inject")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == ("probing: %d: it runs under ThreadSanitizer, which does not survive a "
                             "thread that it has not made; start it with PROBING=1 instead\n"
                             % target.pid)
    assert target.process.poll() is None


def test_one_copy_of_the_library_for_good(start, any_py):
    """A hundred injections leave as many mappings as one."""
    target = start(Script, any_py, "simple.py")

    def mappings():
        with open("/proc/%d/maps" % target.pid) as file:
            return sum("libprobing" in line for line in file)

    inject(target.pid)
    eject(target.pid)
    first = mappings()
    assert first > 0
    for _ in range(100):
        inject(target.pid)
        eject(target.pid)
    assert mappings() == first
    assert threads_become(target.pid, SIMPLE)


def test_no_page_is_writable_and_executable(start, any_py):
    target = start(Script, any_py, "simple.py")
    inject(target.pid)
    with open("/proc/%d/maps" % target.pid) as file:
        assert not [line for line in file if "wx" in line.split()[1]]


def test_the_sleep_is_as_long_as_it_was(start, any_py, tmp_path):
    path = tmp_path / "sleep.py"
    path.write_text("import os, time\n"
                    "os.write(1, ('ready %d\\n' % os.getpid()).encode())\n"
                    "began = time.monotonic()\n"
                    "time.sleep(3)\n"
                    "os.write(1, ('%.3f\\n' % (time.monotonic() - began)).encode())\n")
    target = start(Script, any_py, "sleep.py", path=str(path))
    time.sleep(1)  # so much longer it would be if it began anew
    for _ in range(3):
        inject(target.pid)
        eject(target.pid)
    assert 2.99 < float(target.process.stdout.readline()) < 3.9
    target.process.wait(60)
    assert target.process.returncode == 0


def test_many_tools_at_once(start, any_py):
    target = start(Script, any_py, "spin.py")
    tools = [subprocess.Popen([BIN, str(target.pid), "inject"], env=ENV, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8") for _ in range(6)]
    answers = [tool.communicate(timeout=60) for tool in tools]
    assert [tool.returncode for tool in tools] == [0] * 6, [error for _, error in answers]
    assert sum("Successfully" in out for out, _ in answers) == 1, answers
    assert threads_become(target.pid, 2)
    assert not set(states(target.pid)) & set("tT")
    patience.meanwhile(0.1)
    assert moves_on(target.pid)
