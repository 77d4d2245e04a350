"""Where a training process is, while it stands still in each phase of a step: from outside."""
import os
import signal

import pytest

import patience
import torches
from nodes import node  # noqa: F401: a fixture

pytestmark = pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")


@pytest.fixture(scope="module")
def loop():
    target = torches.injected("torch_phases.py")
    yield target
    target.stop()


def where(node, pid, phase):  # noqa: F811
    """The row of the thread that makes the steps, as soon as it has come to that phase."""
    row = {}

    def is_there():
        rows = node.rows("SELECT * FROM python.progress WHERE makes_steps", pid)
        row.update(rows[0] if rows else {})
        return rows and rows[0]["phase"] == phase

    patience.until(is_there)
    return row


@pytest.mark.parametrize("phase, module", [
    ("data", None), ("forward", "inner.1"), ("backward", None), ("optimizer", None),
    ("eval", "inner.1"), ("other", None)])
def test_each_phase(node, loop, phase, module):  # noqa: F811
    loop.value("hold = %r" % phase)
    row = where(node, loop.pid, phase)
    assert row["tid"] == loop.pid and row["module"] == module
    step = int(loop.value("int(optimizer.state[next(model.parameters())]['step'])",
                          "--frame", "main"))
    # The optimizer counts the step when it is made; evaluation and the rest follow it.
    assert row["step"] == step
    assert row["steps_ended"] > 0 and row["since_step_ms"] >= 0
    assert (row["phase_ms"] is None) == (phase == "other")
    again = where(node, loop.pid, phase)
    assert again["step"] == row["step"] and again["since_step_ms"] > row["since_step_ms"]
    loop.value("hold = None")
    patience.until(lambda: where_step(node, loop.pid) > step)


def where_step(node, pid):  # noqa: F811
    rows = node.rows("SELECT step FROM python.progress WHERE makes_steps", pid)
    return rows[0]["step"] if rows else -1


def test_a_killed_process_says_where_it_ended(node, tmp_path):  # noqa: F811
    target = torches.injected("torch_phases.py")
    try:
        target.value("hold = 'backward'")
        step = where(node, target.pid, "backward")["step"]
        os.kill(target.pid, signal.SIGKILL)
        target.process.wait()
        rows = node.rows("SELECT phase, step, since_step_ms FROM python.progress WHERE makes_steps",
                         target.pid)
        assert [(row["phase"], row["step"]) for row in rows] == [("backward", step)]
        assert rows[0]["since_step_ms"] is None
    finally:
        target.stop()


def test_nothing_after_eject(node):  # noqa: F811
    """What a process did when the agent left is not where it is now."""
    target = torches.injected("torch_phases.py")
    try:
        where(node, target.pid, "other")
        assert node(target.pid, "eject").returncode == 0
        assert node.rows("SELECT * FROM python.progress", target.pid) == []
    finally:
        target.stop()
