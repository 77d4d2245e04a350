"""Backward of single modules, and memory that cannot be had: against what the loop wrote down."""
import json
import os
import statistics
import time

import pytest

import harness
import patience
import rings
import torches
from agents import Probed
from harness import probing
from nodes import node  # noqa: F401

TRACE, FULL = "python.torch_trace", "python.out_of_memory"
STEPS = range(1, 12)  # the first one is under way when tracing begins
KEEP = 1

pytestmark = pytest.mark.skipif(not torches.python(), reason="no interpreter with torch")


class Loop(Probed):
    """tests/targets/torch_backward.py; the main thread runs the job that it is told."""

    def __init__(self):
        script = os.path.join(harness.TARGETS, "torch_backward.py")
        harness.Target.__init__(self, [torches.python(), script])

    def status(self):
        return rings.lines(self.home(), "status")["collector.torch_grad"]

    def turn(self, on, what="torch.collect"):
        assert probing(self.pid, "config", "%s=%s" % (what, "on" if on else "off")).returncode == 0
        if what == "torch.collect":
            code = "torch.autograd.Variable._execution_engine is engine"
            patience.until(lambda: self.value(code) == "%s\n" % (not on))
        else:
            patience.until(lambda: self.status().split(":")[0] == ("on" if on else "off"))

    def run(self, job, table=TRACE):
        """The job's own book, and the rows of its time. Steps are counted anew."""
        self.turn(False)
        self.turn(True)
        began = time.time_ns()
        self.value("job = %r" % job)
        patience.until(lambda: self.value("job is None") == "True\n")
        book = json.loads(self.value("import json; print(json.dumps(books[%r]))" % job))
        return book, [row for row in rings.rows(self.home(), table) if row["timestamp"] > began]


@pytest.fixture(scope="module")
def loop():
    target = Loop()
    # Every step is to be there, however slow this machine is at the moment.
    assert probing(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
    patience.until(lambda: target.status()[:2] == "on" or "waiting" in target.status())
    target.value("job = 'plain'")
    patience.until(lambda: target.status() == "on")
    patience.until(lambda: target.value("job is None") == "True\n")
    yield target
    target.stop()


def of(rows, module, stage="backward"):
    return [row for row in rows if row["module"] == module and row["stage"] == stage]


def ms(rows, module):
    return [row["duration_ms"] for row in of(rows, module)]


def near(ours, theirs, slack=0.5):
    """Two clocks around the same thing; a thread may lose its processor between them."""
    assert len(ours) == len(theirs)
    return statistics.median(abs(a - b) for a, b in zip(ours, theirs)) < slack


def check_sleep(book, rows, calls=1):
    """What a module slept in its backward, and that of the linear layer inside of it."""
    for name in ("first", "pair.quick", "pair.slow"):
        slept = [took for step in STEPS for took in book[step][name]]
        assert [row["step"] for row in of(rows, name)] == [s for s in STEPS for _ in range(calls)]
        alone = [a - b for a, b in zip(ms(rows, name), ms(rows, name + ".lin"))]
        assert near(alone, slept), (name, alone, slept)


@harness.steady
def test_modules_of_every_step(loop):
    book, rows = loop.run("plain")
    check_sleep(book, rows)
    assert {row["operation_name"] for row in of(rows, "pair.slow")} == {"pair.slow.backward"}
    assert {row["module_type"] for row in of(rows, "pair")} == {"Pair"}
    # The pass as a whole goes by the name of the model; what has no gradient has no backward.
    assert len(of(rows, "Net")) == len(of(rows, "Loss")) == len(STEPS)
    assert not of(rows, "frozen") and of(rows, "frozen", "forward")
    for step in STEPS:
        took = {row["module"]: row for row in rows
                if row["step"] == step and row["stage"] == "backward"}
        parts = [took[name]["duration_ms"] for name in ("Loss", "pair", "first")]
        assert 0.6 * took["Net"]["duration_ms"] < sum(parts) <= took["Net"]["duration_ms"]
        inner = [took[name]["duration_ms"] for name in ("pair.quick", "pair.slow")]
        assert sum(inner) <= took["pair"]["duration_ms"] + 0.001
        order = sorted(took.values(), key=lambda row: row["timestamp"])
        names = [row["module"] for row in order if row["module"] in ("Loss", "pair", "first")]
        assert names == ["Loss", "pair", "first"]
        seqs = [row["seq"] for row in rows if row["step"] == step]
        assert seqs == list(range(len(seqs)))


@harness.steady
def test_several_passes_in_a_step(loop):
    book, rows = loop.run("twice")
    check_sleep(book, rows, 2)
    book, rows = loop.run("accumulate")
    check_sleep(book, rows, 3)


@harness.steady
def test_what_is_computed_again_is_not_backward(loop):
    book, rows = loop.run("checkpoint")
    assert len(of(rows, "Net")) == len(STEPS)
    for name in ("pair.slow", "pair.quick"):
        slept = [book[step][name][0] for step in STEPS]
        assert near(ms(rows, name), slept, 1.5)
    # Forward sleeps for 2 ms, and does so again: that is in the whole alone.
    both = [book[step]["pair.slow"][0] + book[step]["pair.quick"][0] for step in STEPS]
    assert near(ms(rows, "pair"), both, 1.8)
    assert statistics.median(ms(rows, "Net")) > statistics.median(both) + 2 + 2


def test_gradients_of_gradients(loop):
    _, rows = loop.run("penalty")
    for step in STEPS:
        took = {row["module"]: row["duration_ms"] for row in rows
                if row["step"] == step and row["stage"] == "backward"}
        assert took["0"] + took["1"] + took["2"] <= took["Sequential"]


def test_rather_none_than_wrong(loop):
    for job, why in (("older checkpoint", "inside of another"), ("spread", "several threads")):
        _, rows = loop.run(job)
        assert {row["module"] for row in rows if row["stage"] == "backward"} == {"Net"}, job
        assert loop.status().startswith("on: ") and why in loop.status()
    # A busy machine may keep the two apart now and then: such a pass is told apart as ever.
    _, rows = loop.run("two at once")
    assert len(of(rows, "Net")) > 3 * len(of(rows, "first"))
    assert all(took >= 4 for took in ms(rows, "pair.slow"))
    loop.run("plain")
    assert loop.status() == "on"


def test_errors_pass_through(loop):
    book, rows = loop.run("failing")
    assert book == ["sleep length must be non-negative"] * 4
    good = [step for step in STEPS if step % 3 != 2]
    assert [row["step"] for row in of(rows, "Net")] == good
    assert [row["step"] for row in of(rows, "first")] == good


def test_out_of_memory(loop):
    """In forward and in backward; the exception is what it was, and the loop goes on."""
    book, rows = loop.run("too much", FULL)
    assert [(number, where, bare) for number, _, where, bare in book] == [
        (2, "forward", True), (3, "ask", True), (4, "backward", True)]
    events = sorted({row["timestamp"] for row in rows})
    assert len(events) == 2
    for at, number, wanted, stage, inside in ((events[0], 3, 5 << 30, "forward", "inner.0"),
                                              (events[1], 4, 3 << 30, "backward", None)):
        found = [row for row in rows if row["timestamp"] == at]
        assert [row["place"] for row in found] == [1, 2, 3]
        assert [row["module"] for row in found] == ["big", "small", "inner.1"]
        for row in found:
            assert row["message"] == book[number - 2][1] and row["step"] == number
            assert row["wanted"] == wanted and row["device"] == "cpu"
            assert row["stage"] == stage and row["inside"] == inside and row["allocated"] > 1
        assert found[0]["parameters"] == found[0]["gradients"] == 1001000 * 4 / (1 << 20)
        assert found[0]["module_type"] == "Linear"
    # For whoever comes when it is over.
    assert rings.rings(loop.home(), FULL)[-1].flags & KEEP


def test_growth_by_module(start, node):
    """The outputs of 64 x 512 floats that a graph holds, and inputs that belong to no module."""
    target = start(Loop)
    assert node(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
    patience.until(lambda: "waiting" in target.status())
    target.value("job = 'leaking'")
    patience.until(lambda: target.value("job is None") == "True\n")
    found = {row["module"]: row for row in node.rows("SELECT * FROM memory_growth", target.pid)}
    kept = {name: row["mb_per_step"] for name, row in found.items()}
    assert set(kept) == {"0", "1", "2", None}, kept
    assert all(0.12 < kept[name] < 0.135 for name in "012"), kept
    # Three such outputs, and half of one for the inputs.
    assert 0.05 < kept[None] < 0.075
    assert all(0.40 < row["total_mb_per_step"] < 0.48 for row in found.values()), found
    assert found["0"]["growth_mb"] > 30


def test_the_same_bits(loop):
    loop.value("job = 'digest'")
    for number in range(10):
        probing(loop.pid, "config", "torch.backward=" + ("off", "on")[number % 2])
    patience.until(lambda: loop.value("job is None") == "True\n")
    assert loop.value("books['digest'] == bare['digest']") == "True\n"
    assert loop.run("digest")[0] == loop.value("print(bare['digest'])").strip()


def test_the_switch(loop):
    loop.turn(False, "torch.backward")
    _, rows = loop.run("plain")
    assert {row["module"] for row in rows if row["stage"] == "backward"} == {"Net"}
    loop.turn(True, "torch.backward")
    _, rows = loop.run("plain")
    assert of(rows, "first")
