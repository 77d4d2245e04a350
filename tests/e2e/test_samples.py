"""Samples that the node takes all the time: python.samples, python.stack_frames and their views."""
import os
import re
import time

import pytest

import harness
import nodes
import patience
import torches

harness.RESTLESS.update({"shares.py", "many_busy.py", "chains.py"})


@pytest.fixture
def node(tmp_path):
    node = nodes.Node(tmp_path, PROBING_HISTORY_DELAY="1")
    yield node
    node.stop()


def sampled(node, pid, seconds=2.0, where="true"):
    """Waits until the samples of the main thread cover that much time."""
    return patience.until(lambda: node.rows(
        "SELECT sum(weight_ms) / 1000 AS secs, sum(samples) AS samples FROM python.samples "
        "WHERE tid = pid AND %s HAVING secs > %g" % (where, seconds), pid))[0]


def watched(node, target, *options):
    answer = node(target.pid, "inject", "-P", *options)
    assert answer.returncode == 0, answer.stderr


@harness.steady
@pytest.mark.few
def test_shares(py, start, node):
    """Functions of known shares, threads at rest, states, and frames that belong together."""
    target = start(harness.Script, py, "shares.py")
    watched(node, target, "-D", "profile.rate=100")
    sampled(node, target.pid, 4)
    rows = node.rows("SELECT func, total_pct, self_pct, running_ms, total_ms FROM hot_functions",
                     target.pid)
    found = {row["func"]: row for row in rows}
    for func, part in (("half", 50), ("fifth", 20), ("rest", 30), ("turn", 100)):
        assert abs(found[func]["total_pct"] - part) < 10, (func, found)
    assert "sleeper" not in found and found["burn"]["self_pct"] > 50, found
    assert found["burn"]["running_ms"] > 0.8 * found["burn"]["total_ms"], found
    lines = node.rows("SELECT lineno FROM hot_lines WHERE func = 'half'", target.pid)
    assert [row["lineno"] for row in lines] == [target.lines["half"]]
    # One stack, from its innermost frame outwards.
    stack = node.rows("""SELECT depth, func FROM python.stack_frames WHERE stack_id = (
        SELECT any_value(stack_id) FROM python.stack_frames WHERE func = 'half') ORDER BY depth""",
                      target.pid)
    assert [row["depth"] for row in stack] == list(range(len(stack))), stack
    assert [row["func"] for row in stack][-3:] == ["turn", "main", "<module>"], stack
    states = {row["state"] for row in node.rows(
        "SELECT DISTINCT state FROM python.samples WHERE tid = pid", target.pid)}
    assert {"running", "idle"} <= states, states
    torn = node.rows("SELECT sum(samples) AS n FROM python.samples WHERE torn", target.pid)
    assert (torn[0]["n"] or 0) <= 2, torn
    # The thread that sleeps for ever has rows of one, two, four, … seconds.
    rest = node.rows("SELECT thread, count(*) AS n FROM python.samples WHERE tid <> pid GROUP BY 1",
                     target.pid)
    assert all(row["n"] <= 6 for row in rest), rest


def test_numbers_of_stacks_are_the_same_everywhere(any_py, start, node):
    """Two processes of one program, and a node that was started anew: history can be joined."""
    targets = [start(harness.Script, any_py, "shares.py") for _ in range(2)]
    sql = """SELECT DISTINCT stack_id FROM python.stack_frames
             WHERE func = 'rest' AND depth = 0 ORDER BY 1"""
    for target in targets:
        watched(node, target)
    first = patience.until(lambda: node.rows(sql, targets[0].pid))
    assert patience.until(lambda: node.rows(sql, targets[1].pid)) == first
    node.stop()
    before = node.rows("SELECT max(timestamp) AS at FROM python.samples", targets[0].pid)[0]["at"]
    later = ("SELECT 1 AS x FROM python.samples WHERE timestamp > TIMESTAMPTZ '%s' "
             "+ INTERVAL 1 SECOND LIMIT 1" % before)
    patience.until(lambda: node.rows(later, targets[0].pid))
    assert node.rows(sql, targets[0].pid) == first
    doubled = node.rows("""SELECT count(*) AS n FROM python.stack_frames
        WHERE func = 'rest' AND depth = 0""", targets[0].pid)[0]["n"]
    assert doubled <= 2, "a stack is written once by each node, not for each sample"


def test_what_it_did_before_it_died(any_py, start, node):
    target = start(harness.Script, any_py, "shares.py")
    watched(node, target)
    sampled(node, target.pid, 2)
    target.stop()
    lines = patience.until(lambda: node.rows("SELECT func FROM hot_lines LIMIT 1", target.pid))
    assert lines == [{"func": "burn"}]
    node.stop()  # all of it is in files now
    assert node.rows("SELECT func FROM hot_lines LIMIT 1", target.pid) == lines


def test_on_by_default_and_off(any_py, start, node):
    probed = start(harness.Script, any_py, "shares.py")
    quiet = start(harness.Script, any_py, "shares.py")
    assert node(probed.pid, "inject").returncode == 0
    assert node(quiet.pid, "inject", env={"PROBING_PROFILE_RATE": "0"}).returncode == 0
    sampled(node, probed.pid, 0.5)
    assert not node.rows("SELECT * FROM python.samples", quiet.pid)
    said = {row["pid"]: row for row in node.rows(
        "SELECT pid, state, reason FROM probing.agents WHERE collector = 'python.samples'")}
    assert said[probed.pid]["state"] == "on", said
    assert (said[quiet.pid]["state"], said[quiet.pid]["reason"]) == ("off", "profile.rate is 0")
    assert node(quiet.pid, "config", "profile.rate=50").returncode == 0
    sampled(node, quiet.pid, 0.5)
    assert node(probed.pid, "config", "profile.rate=0").returncode == 0
    states = "SELECT 1 AS x FROM probing.agents WHERE collector = 'python.samples' AND "
    patience.until(lambda: node.rows(states + "state = 'off'", probed.pid))
    assert node("query", "SET probing.profile.budget = 0").returncode == 0
    patience.until(lambda: node.rows(states + "reason = 'profile.budget is 0'", quiet.pid))


@pytest.mark.long
def test_the_budget_holds(any_py, start, node):
    """Many busy threads at 1 kHz: fewer samples, the same time."""
    target = start(harness.Script, any_py, "many_busy.py", 40)
    assert node("query", "SET probing.profile.budget = 1").returncode == 0
    watched(node, target, "-D", "profile.rate=1000")
    sampled(node, target.pid, 3)
    began = time.monotonic()
    before = node.rows("SELECT cpu_ms FROM probing.cost WHERE what = 'python.samples'", target.pid)
    time.sleep(3)
    after = node.rows("SELECT cpu_ms FROM probing.cost WHERE what = 'python.samples'", target.pid)
    spent = after[0]["cpu_ms"] - before[0]["cpu_ms"]
    assert spent < 0.03 * 1000 * (time.monotonic() - began), (before, after)
    said = patience.until(lambda: node.rows("SELECT reason FROM probing.agents WHERE reason LIKE "
                                            "'%of 1000 samples a second'", target.pid))
    assert said, said


def test_waiting_for_the_gil(any_py, start, node, tmp_path):
    script = tmp_path / "gil.py"
    script.write_text("import os, threading\n"
                      "def work():\n"
                      "    while True:\n"
                      "        sum(i for i in range(1000))\n"
                      "for n in range(3):\n"
                      "    threading.Thread(target=work, name='w%d' % n, daemon=True).start()\n"
                      "print('ready', os.getpid(), flush=True)\n"
                      "work()\n")
    target = start(harness.Target, [any_py.command, str(script)])
    watched(node, target, "-D", "profile.rate=100")
    sampled(node, target.pid, 2)
    rows = node.rows("SELECT thread, wait_pct, hold_pct, waits_file FROM gil_waits", target.pid)
    assert {row["thread"] for row in rows} >= {"MainThread", "w0", "w1", "w2"}, rows
    if not any_py.free_threaded:
        for row in rows:
            assert row["wait_pct"] > 10 and row["hold_pct"] < 60, rows  # or ready, without a CPU
            assert row["waits_file"] == str(script), rows


def test_the_target_is_never_stopped(any_py, start, node):
    """Threads that do little but call are read without holding them; what cannot be is marked."""
    program = os.path.join(node.home, "program.py")
    os.makedirs(node.home, exist_ok=True)
    target = start(harness.Script, any_py, "chains.py", program)
    watched(node, target, "-D", "profile.rate=100")
    sampled(node, target.pid, 1, "tid = pid")
    counted = node.rows("SELECT sum(samples) AS n, sum(samples) FILTER (torn) AS torn "
                        "FROM python.samples", target.pid)[0]
    assert (counted["torn"] or 0) < 0.2 * counted["n"], counted
    names = node.rows("""SELECT DISTINCT func FROM python.samples JOIN python.stack_frames
        USING (stack_id) WHERE torn""", target.pid)
    assert all(row["func"].startswith("<torn") for row in names), names
    rest = node.rows("SELECT count(*) AS n FROM hot_functions WHERE func LIKE '<torn%'", target.pid)
    assert rest[0]["n"] == len(names), rest
    assert harness.tracer(target.pid) == 0


@pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")
def test_phase_step_and_module(node):
    """Where a training loop is held up: the hottest line of the phase, of what other_ms is too."""
    target = torches.injected("torch_phases.py", env=node.env)
    try:
        for phase, module in (("other", None), ("forward", "inner.1"), ("data", None)):
            target.value("hold = %r" % phase)
            patience.until(lambda: node.rows(
                "SELECT step, module FROM python.samples WHERE tid = pid AND phase = '%s' "
                "AND weight_ms > 500 AND step > 0 AND module IS NOT DISTINCT FROM %s"
                % (phase, "'%s'" % module if module else "NULL"), target.pid))
            lines = node.rows("SELECT func, file, pct FROM phase_lines WHERE phase = '%s' "
                              "AND place = 1" % phase, target.pid)
            assert lines[0]["func"] == "pause" and lines[0]["pct"] > 50, (phase, lines)
            assert lines[0]["file"].endswith("torch_phases.py"), lines
        times = node.rows("SELECT phase, sum(pct) AS pct FROM phase_times GROUP BY 1", target.pid)
        assert {"other", "forward", "data"} <= {row["phase"] for row in times}, times
        assert abs(sum(row["pct"] for row in times) - 100) < 0.1, times
        patience.until(lambda: node.rows("SELECT 1 FROM step_breakdown", target.pid))
        lines = {row["other_line"] for row in node.rows("SELECT other_line FROM step_breakdown",
                                                        target.pid)}
        assert len(lines) == 1 and re.match(r"pause /.*torch_phases\.py:\d+$", lines.pop())
    finally:
        target.stop()
