"""python.training_logs of loops as trainers make them, against what the loops count themselves."""
import pytest

import harness
import torches
from torches import check_order, close, near, of

SCRIPT = "torch_loops.py"
PARTS = ("data", "forward", "backward", "optimizer", "other")

pytestmark = pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")


@pytest.fixture(scope="module", params=torches.pythons())
def loop(request):
    target = torches.injected(SCRIPT, interpreter=request.param)
    yield target
    target.stop()


def check(book, trace, logs):
    """Numbers are exactly those of the loop, times nearly. Steps and epochs go on from before."""
    first = logs[0]
    assert [row["step"] - first["step"] for row in logs] == list(range(len(book)))
    for own, row in zip(book, logs):
        assert row["epoch"] - first["epoch"] == own["epoch"], (own, row)
        assert row["batch_size"] == (own["samples"] or None), (own, row)
        assert close(own["loss"], row["loss"]) and close(own["lr"], row["lr"]), (own, row)
        assert row["grad_norm"] is None if own["norm"] is None else close(own["norm"],
                                                                          row["grad_norm"])
    for name in ("forward", "backward", "data", "step"):
        assert near([row[name + "_ms"] for row in logs[1:]], [own[name] for own in book[1:]]), name
    for row in logs[1:]:
        assert close(sum(row[part + "_ms"] for part in PARTS), row["step_ms"])
        if row["batch_size"]:
            assert close(row["samples_per_s"], 1000 * row["batch_size"] / row["step_ms"])
    check_order(trace, logs)


@pytest.mark.parametrize("job", ["ahead", "closures", "closures accumulate", "closures limited",
                                 "together", "adversaries"])
@harness.steady
def test_loops(loop, job):
    book, trace, logs = loop.run(job)
    if job == "adversaries":  # parts of the other one's step are in the row, too
        others = [row for row in logs if row["optimizer"] == "Adam#2"]
        assert len(others) >= len(book) - 1 and all(row["step_ms"] is None for row in others)
        logs = [row for row in logs if row["optimizer"] == "Adam"]
        for own, row in zip(book, logs):
            own.update({name: row[name + "_ms"] for name in ("forward", "backward", "data")})
    if not loop.sees_norms():
        book = [dict(own, norm=None) for own in book]
    check(book, trace, logs)


@pytest.mark.parametrize("job", ["scaled", "scaled fused"])
@harness.steady
def test_scaled_losses(loop, job):
    """A step that was left out is none; its samples are those of the next one."""
    book, trace, logs = loop.run(job)
    if book is None:
        pytest.skip("no GradScaler for CPUs")
    for own, row in zip(book, logs):
        own.update({name: row[name + "_ms"] for name in ("forward", "backward", "data")})
    check(book, trace, logs)


@harness.steady
def test_a_teacher(loop):
    book, trace, logs = loop.run("taught")
    for own, row in zip(book, logs):  # the loss is not the one that the forward's time is of
        own["forward"] = row["forward_ms"]
        assert row["forward_ms"] > 3
    check(book, trace, logs)


def test_steps_that_fail(loop):
    book, _, logs = loop.run("failing")
    assert len(logs) == len(book)
    assert all(close(own["loss"], row["loss"]) for own, row in zip(book, logs))


def test_an_evaluation_first(loop):
    """Its forwards count until training begins, and then no more."""
    loop.turn(False)
    loop.turn(True)
    book, trace, logs = loop.run("closures")
    assert [row["step"] for row in logs] == list(range(len(book)))
    assert [row["batch_size"] for row in logs] == [own["samples"] for own in book]
    # When the first step began is not known.
    assert [row["step_ms"] is None for row in logs] == [True] + [False] * (len(book) - 1)
    begun = [row["step"] for row in trace].index(0, 1 + [row["step"] for row in trace].index(2))
    check_order(trace[begun:], logs)
    assert len(of(trace[begun:], "SGD", "optimizer")) == len(book)


@harness.steady
def test_compiled(loop):
    """The compiler has nothing to do when the agent comes, and makes the same of what is new."""
    loop.turn(False)
    before = loop.run("compiled")[0]
    if before is None:
        pytest.skip("no torch.compile")
    assert loop.run("compiled")[0] == before
    loop.turn(True)
    assert loop.run("compiled")[0] == before
    assert loop.run("compiled anew")[0] == before
    book, _, logs = loop.run("compiled steps")
    assert len(logs) == len(book)
    assert all(close(own["loss"], row["loss"]) and close(own["lr"], row["lr"])
               for own, row in zip(book, logs))
    assert near([row["step_ms"] for row in logs[1:]], [own["step"] for own in book[1:]])
