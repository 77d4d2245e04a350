"""Fresh targets in every kind of trouble: none dies, hangs or computes a wrong sum."""
import random

import pytest

import injecting
from harness import Script, probing
from injecting import begin, has_agent, inject, threads, traces, well

pytestmark = pytest.mark.skipif(not has_agent(), reason="built without the agent")

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


def test_processes_that_end_meanwhile(any_py):
    """Whatever the tool says, the process ends as it would have."""
    chance = random.Random(3)
    said = set()
    for _ in range(LIVES):
        target = begin(any_py, "mid_exit.py", "%.4f" % chance.uniform(0, 0.03))
        try:
            answer = probing(target.pid, "inject", timeout=60)
            assert target.process.wait(10) == 0, target.process.stderr.read().decode()
            assert target.process.stderr.read() == b""
            if answer.returncode:
                assert answer.returncode in (1, 4, 5), answer.stderr
                assert answer.stderr.count("\n") == 1, answer.stderr
            said.add(answer.returncode)
            assert traces(target) == []
        finally:
            target.stop()
    assert said


def test_gil_held_in_c(any_py, start):
    for _ in range(FRESH):
        target = start(Script, any_py, "gil_hold.py")
        inject(target.pid)
        assert target.process.poll() is None
        assert threads(target.pid) >= 3
