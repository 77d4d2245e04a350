"""probing PID config."""
import re

from agents import Probed
from harness import probing


def test_defaults_without_a_target():
    answer = probing("config")
    assert answer.returncode == 0
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert lines[0][:3] == ["setting", "value", "default"]
    assert ["eval.timeout", "30", "30"] in [line[:3] for line in lines]


def test_listing_does_not_inject(any_py, start):
    target = start(Probed, any_py)
    answer = probing(target.pid, "config")
    assert answer.returncode == 0 and target.threads() == 1
    assert answer.stderr == ("probing: no probes in process %d: these are the defaults\n"
                             % target.pid)


def test_set_and_read(any_py, start):
    target = start(Probed, any_py)
    answer = probing(target.pid, "config", "eval.timeout=0.5")
    assert answer.returncode == 0 and "injected into process" in answer.stderr
    assert probing(target.pid, "cfg", "eval.timeout").stdout == "0.5\n"
    assert probing(target.pid, "c", "probing.eval.timeout").stdout == "0.5\n"
    assert re.search(r"^eval\.timeout +0\.5 +30 ", probing(target.pid, "config").stdout, re.M)
    answer = probing(target.pid, "config", "agent.follow_forks=off", "eval.output_limit=7",
                     "agent.follow_forks")
    assert answer.stdout == "off\n"
    answer = target.eval("while True: pass")
    assert answer.returncode == 5 and "after 0.5 s" in answer.stderr


def test_wrong_key_and_value(any_py, start):
    target = start(Probed, any_py)
    answer = probing(target.pid, "config", "eval.timeot=5")
    assert answer.returncode == 2
    assert answer.stderr.startswith("probing: no setting 'eval.timeot'; nearest: eval.timeout\n")
    answer = probing(target.pid, "config", "eval.timeout=-1")
    assert answer.returncode == 2
    assert "'-1' is not a number from 0.05 to 86400" in answer.stderr
    answer = probing(target.pid, "config", "agent.follow_forks=maybe")
    assert "'maybe' is neither on nor off" in answer.stderr
    assert target.threads() == 1


def test_nothing_is_set_when_one_is_wrong(any_py, start):
    target = start(Probed, any_py)
    assert probing(target.pid, "config", "eval.timeout=9", "eval.output_limit=0").returncode == 2
    assert probing(target.pid, "config", "eval.timeout").stdout == "30\n"


def test_environment(any_py, start):
    target = start(Probed, any_py, env={"PROBING_EVAL_TIMEOUT": "12.5",
                                        "PROBING_EVAL_OUTPUT_LIMIT": "lots"})
    probing(target.pid, "inject")
    assert probing(target.pid, "config", "eval.timeout").stdout == "12.5\n"
    assert probing(target.pid, "config", "eval.output_limit").stdout == "64\n"
