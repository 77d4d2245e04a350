"""The tool is killed at random instants of an injection; the target does not mind."""
import random
import signal
import subprocess
import time

import pytest

from harness import BIN, ENV, Script, probing, states, tracer
from injecting import SUCCESS, moves_on, threads, threads_become

KILLS = 60


def blocked_signals(pid):
    with open("/proc/%d/status" % pid) as file:
        return [line.split()[1] for line in file if line.startswith("SigBlk")][0]


@pytest.mark.parametrize("script", ["spin.py", "simple.py"])
def test_killed_at_random_instants(start, any_py, script):
    target = start(Script, any_py, script)
    chance, before = random.Random(11), threads(target.pid)
    signals = blocked_signals(target.pid)
    for _ in range(KILLS):
        tool = subprocess.Popen([BIN, str(target.pid), "inject"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=ENV)
        time.sleep(chance.uniform(0, 0.008))
        tool.kill()
        tool.wait()
        assert target.process.poll() is None
        assert tracer(target.pid) == 0
        probing(target.pid, "eject")
    answer = probing(target.pid, "inject")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout in (SUCCESS % target.pid,
                             "Probes are already in process %d\n" % target.pid)
    # Loading threads that nobody feeds end by themselves.
    assert threads_become(target.pid, before + 1)
    assert blocked_signals(target.pid) == signals
    assert not set(states(target.pid)) & set("tT")
    if script == "spin.py":
        assert moves_on(target.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_a_signal(start, any_py, number):
    target = start(Script, any_py, "spin.py")
    chance = random.Random(5)
    for _ in range(10):
        tool = subprocess.Popen([BIN, str(target.pid), "inject"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, env=ENV)
        time.sleep(chance.uniform(0, 0.006))
        tool.send_signal(number)
        _out, error = tool.communicate(timeout=60)
        assert error == b""
    assert not set(states(target.pid)) & set("tT")
    assert moves_on(target.pid)
