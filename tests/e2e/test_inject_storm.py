"""Fresh targets in every kind of trouble: none dies, hangs or computes a wrong sum."""
import random
import signal
import subprocess
import time

import pytest

import injecting
import patience
from harness import BIN, ENV, Script, probing, states
from injecting import begin, inject, threads, traces, well

FRESH = 8     # targets of each kind
REPEATED = 6  # injections into one target of each kind
LIVES = 24    # processes that end meanwhile


@pytest.fixture(scope="module")
def kinds():
    libraries = injecting.Libraries()
    yield injecting.kinds(libraries)
    libraries.close()


NAMES = ["one busy thread", "eight busy threads", "malloc storm, 1 thread",
         "malloc storm, 4 threads", "fork storm", "signal storm", "vector sums", "mid-import"]


def test_names(kinds):
    assert sorted(kinds) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_fresh_targets(any_py, kinds, name):
    for _ in range(FRESH):
        target = begin(any_py, *kinds[name])
        try:
            inject(target.pid, timeout=60)
            well(target)
        finally:
            target.stop()


@pytest.mark.parametrize("name", NAMES)
def test_one_target_again_and_again(any_py, kinds, name):
    target = begin(any_py, *kinds[name])
    try:
        for _ in range(REPEATED):
            inject(target.pid, timeout=60)
            injecting.eject(target.pid)
        well(target)
        assert traces(target) == []
    finally:
        target.stop()


@pytest.mark.parametrize("name", NAMES)
def test_while_a_flame_graph_is_taken(any_py, kinds, name, tmp_path):
    """Who samples holds threads for their registers, and who injects stops the same threads."""
    target = begin(any_py, *kinds[name])
    path = tmp_path / "storm.collapsed"
    sampler = subprocess.Popen([BIN, str(target.pid), "flamegraph", "-n", "-s", "-i", "-r", "1000",
                                "-d", "300", "-o", str(path)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
    try:
        for _ in range(REPEATED):
            inject(target.pid, timeout=60)
            injecting.eject(target.pid)
        well(target)
        sampler.send_signal(signal.SIGINT)
        said, wrong = sampler.communicate(timeout=60)
        assert sampler.returncode == 0, (said, wrong)
        assert "stops: " in said.decode() and path.stat().st_size > 0, said
        well(target)
        assert traces(target) == []
    finally:
        sampler.kill()
        sampler.wait()
        target.stop()


def inject_and_end(python, life):
    """Injects into a process that lives so long; the tool's answer. It ends as it would have."""
    target = begin(python, "mid_exit.py", "%.4f" % life)
    try:
        answer = probing(target.pid, "inject", timeout=60)
        assert target.process.wait(60) == 0, target.process.stderr.read().decode()
        assert target.process.stderr.read() == b""
        assert traces(target) == []
        return answer
    finally:
        target.stop()


def child_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return file.read().split()


@pytest.mark.few
def test_forks_while_a_thread_of_ours_is_added(py, start):
    """Up to 3.12 the child of such a fork found the lock of the list of threads taken, for ever."""
    libraries = injecting.Libraries()
    target = start(Script, py, "fork_storm.py", env={"LD_PRELOAD": libraries.get("slow_post")})
    inject(target.pid)
    for number in range(20):
        answer = probing(target.pid, "eval", "%d + 1" % number)
        assert answer.stdout == "%d\n" % (number + 1), answer.stderr
    first, end = child_of(target.pid), time.monotonic() + patience.SECONDS
    while child_of(target.pid) in (first, []):
        assert time.monotonic() < end, probing(target.pid, "backtrace", "-n", "-s").stdout
        time.sleep(0.01)
    libraries.close()


def test_processes_that_end_meanwhile(any_py):
    """It gets in, or says in one line why not."""
    chance = random.Random(3)
    for _ in range(LIVES):
        answer = inject_and_end(any_py, chance.uniform(0, 0.03))
        if answer.returncode:
            assert answer.returncode in (1, 4, 5), answer.stderr
            assert answer.stderr.startswith("probing: ") and answer.stderr.count("\n") == 1
        else:
            assert answer.stdout.startswith("Successfully injected"), answer


def test_process_that_lives_and_one_that_has_ended(any_py):
    answer = inject_and_end(any_py, 3)
    assert answer.returncode == 0, answer.stderr
    target = begin(any_py, "mid_exit.py", "0")
    try:
        while states(target.pid) != ["Z"]:
            time.sleep(0.001)
        assert probing(target.pid, "inject").returncode == 4
    finally:
        target.stop()


def test_gil_held_in_c(any_py, start):
    for _ in range(FRESH):
        target = start(Script, any_py, "gil_hold.py")
        inject(target.pid)
        assert target.process.poll() is None
        assert threads(target.pid) >= 3
