"""Modules and steps of PyTorch: every column against what the loop itself has written down."""
import time

import pytest

import harness
import patience
import rings
import torches
from harness import probing
from torches import TRACE, Loop, check_order, close, near, of

SCRIPT = "torch_kinds.py"
PARTS = ("data", "forward", "backward", "optimizer")


pytestmark = pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")


@pytest.fixture(scope="module", params=torches.pythons())
def loop(request):
    target = torches.injected(SCRIPT, interpreter=request.param)
    yield target
    target.stop()


def check_logs(book, logs):
    """Numbers are exactly those of the loop, times nearly."""
    assert [row["step"] for row in logs] == list(range(len(book)))
    for own, row in zip(book, logs):
        assert close(own["loss"], row["loss"]) and close(own["lr"], row["lr"]), (own, row)
        assert row["epoch"] == own["epoch"] and row["comm_ms"] == 0
    for name in ("forward", "backward", "optimizer", "data"):
        assert near([row[name + "_ms"] for row in logs[1:]], [own[name] for own in book[1:]]), name
    whole = [(b["at"] - a["at"]) * 1000 for a, b in zip(book, book[1:])]
    assert near([row["step_ms"] for row in logs[1:]], whole)
    for row in logs[1:]:
        assert close(sum(row[part + "_ms"] for part in PARTS + ("other",)), row["step_ms"])


def check_trace(book, trace, first=1):
    """All modules of every step but the one that was under way when tracing began."""
    steps = range(first, len(book))
    assert {row["step"] for row in trace} == set(steps)
    for name, kind in (("Net", "Net"), ("blocks.0", "Block"), ("blocks.1.lin", "Linear"),
                       ("pause", "Pause"), ("head", "Linear"), ("Identity", "Identity")):
        assert [(row["step"], row["module_type"]) for row in of(trace, name)] == [
            (step, kind) for step in steps], name
        assert {row["operation_name"] for row in of(trace, name)} == {name + ".forward"}
    # In two places, under its first name.
    assert len(of(trace, "blocks.0.act")) == 2 * len(steps)
    assert len(of(trace, "Net", "backward")) == len(of(trace, "AdamW", "optimizer")) == len(steps)
    assert near([row["duration_ms"] for row in of(trace, "pause")],
                [own["pause"] for own in book[first:]], 0.2)
    for step in steps:
        rows = [row for row in trace if row["step"] == step]
        assert [row["seq"] for row in rows] == list(range(len(rows)))
        whole = [row for row in rows if row["module"] == "Net" and row["stage"] == "forward"][0]
        inner = sum(row["duration_ms"] for row in of(rows, "blocks.0") + of(rows, "blocks.1") +
                    of(rows, "pause") + of(rows, "head"))
        assert inner <= whole["duration_ms"]
        assert all(row["allocated"] > 10 and row["max_allocated"] >= row["allocated"]
                   and row["gpu_ms"] is None for row in rows)


@harness.steady
def test_plain_loop(loop):
    book, trace, logs = loop.anew("plain")
    check_logs(book, logs)
    check_trace(book, trace)
    check_order(trace, logs)
    assert all(row["batch_size"] == 4 and row["grad_norm"] is None for row in logs)
    assert all(close(row["samples_per_s"], 4000 / row["step_ms"]) for row in logs[1:])
    assert all(row["allocated_delta"] is not None for row in trace)


@harness.steady
def test_workers_that_are_forked(loop):
    book, trace, logs = loop.anew("workers")
    # Forking may take so long that nothing seems to train: then tracing begins within step 0.
    check_trace(book, [row for row in trace if row["step"] > 0])
    assert [row["step"] for row in logs] == list(range(len(book)))
    assert [row["epoch"] for row in logs] == [own["epoch"] for own in book]
    assert near([row["data_ms"] for row in logs[1:]], [own["data"] for own in book[1:]], 2)


@harness.steady
def test_accumulation(loop):
    book, trace, logs = loop.anew("accumulate")
    assert [row["step"] for row in logs] == list(range(len(book)))
    assert all(row["batch_size"] == 16 for row in logs)
    # Gradients were those of the sum of four losses.
    assert all(close(own["total"], row["loss"]) for own, row in zip(book, logs))
    assert near([row["forward_ms"] for row in logs[1:]], [own["forward"] for own in book[1:]], 4)
    assert [row["step"] for row in of(trace, "head")] == [
        step for step in range(1, len(book)) for _ in range(4)]


@harness.steady
def test_norms_and_scaled_losses(loop):
    book, _, logs = loop.anew("clip")
    if not loop.sees_norms():
        assert not any(row["grad_norm"] for row in logs)
        assert "before Python 3.8" in rings.lines(loop.home(), "status")["collector.torch"]
        return
    assert all(close(own["norm"], row["grad_norm"]) for own, row in zip(book, logs))
    book, _, logs = loop.anew("scaled")
    assert (book is None) == (loop.value("hasattr(torch.amp, 'GradScaler')") == "False\n")
    if book is not None:  # it came with torch 2.3
        check_logs(book, logs)


def test_closures(loop):
    book, trace, logs = loop.anew("closure")
    assert [row["step"] for row in logs] == list(range(len(book)))
    assert all(close(own["losses"][-1], row["loss"]) for own, row in zip(book, logs))
    for step in range(1, len(book)):
        rows = [row for row in trace if row["step"] == step]
        assert len(of(rows, "Net")) == len(of(rows, "Net", "backward")) == len(
            book[step]["losses"])
        assert logs[step]["optimizer_ms"] < logs[step]["step_ms"] - logs[step]["forward_ms"]


def test_two_optimizers(loop):
    """The steps of the first one count; each has its own losses and its own model."""
    book, trace, logs = loop.anew("two")
    for number, name in ((0, ""), (1, "#2")):
        rows = [row for row in logs if row["optimizer"] == "SGD" + name]
        assert len(rows) >= 7 + (not number)
        assert all(close(own["lr"], row["lr"]) and close(own["loss"], row["loss"])
                   for own, row in zip(book[number::2], rows))
        assert {row["model"] for row in rows} == {"Net" + name}
    logs = [row for row in logs if row["optimizer"] == "SGD"]
    assert [row["step"] for row in logs] == list(range(8))
    assert {row["root"] for row in of(trace, "SGD", "optimizer")} == {"SGD", "SGD#2"}
    assert len(of(trace, "SGD", "optimizer")) == 15


@harness.steady
def test_inference(loop):
    book, trace, logs = loop.anew("inference")
    assert not logs
    paused = of(trace, "pause")
    assert [row["step"] for row in paused] == list(range(1, len(book)))
    assert near([row["duration_ms"] for row in paused], [own["pause"] for own in book[1:]], 0.2)


def test_attached_within_a_forward(loop):
    """What is below the modules that come next has its name from the whole, once that is seen."""
    loop.turn(False)
    began = time.time_ns()
    loop.value("job = 'slow'")
    loop.turn(True)
    patience.until(lambda: loop.value("job is None") == "True\n")
    names = {row["module"] for row in rings.rows(loop.home(), TRACE) if row["timestamp"] > began}
    assert names >= {"Net", "tail", "tail.lin", "blocks.0.act"} and not names & {"lin", "act"}


def test_what_others_reset_is_put_back(loop):
    """torch.fx and torch.export put a function into nn.Module for a while: all slots are anew."""
    loop.anew("plain")
    loop.value("nn.Module.__call__ = nn.Module.__call__")
    patience.until(lambda: loop.value("surroundings()['slots'] == bare['surroundings']['slots']") ==
                       "False\n")
    assert of(loop.run("plain")[1], "Net")


def test_errors_pass_through(loop):
    book, trace, logs = loop.anew("failing")
    assert book == ["", "", "call 3", "", "", "call 6", "", "", "call 9"]
    assert len(logs) == 6 and len(of(trace, "Broken")) == 8


def test_checkpoints(loop):
    """What is computed again in backward is called again."""
    book, trace, logs = loop.anew("checkpointed")
    assert all(close(own["loss"], row["loss"]) for own, row in zip(book, logs))
    assert [row["step"] for row in of(trace, "head")] == [
        step for step in range(1, len(book)) for _ in range(2)]


def test_as_it_was(loop):
    assert loop.value("surroundings() == bare['surroundings']") == "False\n"
    # Programs have such functions in dictionaries.
    assert loop.value("surroundings()['hashes'] == bare['surroundings']['hashes']") == "True\n"
    loop.turn(False)
    assert loop.value("surroundings() == bare['surroundings']") == "True\n"
    loop.turn(True)
    assert loop.value("surroundings() == bare['surroundings']") == "False\n"


def test_the_same_bits(loop):
    """Switched off and on all the time, training comes to the same result."""
    loop.turn(True)
    loop.value("job = 'slow digest'")
    for number in range(100):
        part = ("collect", "backward", "comm")[number // 2 % 3]
        probing(loop.pid, "config", "torch.%s=%s" % (part, ("off", "on")[number % 2]))
    assert loop.value("job") == "'slow digest'\n"
    patience.until(lambda: loop.value("job is None") == "True\n")
    assert loop.value("books['slow digest'] == bare['digest']") == "True\n"
    loop.turn(True)
    digest, trace, logs = loop.run("digest")
    assert digest == loop.value("print(bare['digest'])").strip()
    # Everything was seen meanwhile.
    assert len(logs) == 200 and all(row["comm_ms"] for row in logs)
    assert all(row["grad_norm"] for row in logs) or not loop.sees_norms()
    assert {row["operation_name"] for row in trace} >= {
        "backward", "Adam.step", "module.0.backward", "module.4.forward"}
    # Time between ranks that is part of no other: that of the loop's own all_reduce.
    for row in logs[1:]:
        parts = sum(row[part + "_ms"] for part in PARTS)
        assert 0 < row["step_ms"] - parts - row["other_ms"] < row["comm_ms"]
    assert len(rings.rows(loop.home(), "python.comm")) > 400
    probing(loop.pid, "eject")
    assert probing(loop.pid, "inject", "-D", "torch.collect=off").returncode == 0
    assert loop.value("surroundings() == bare['surroundings']") == "True\n"


@pytest.mark.parametrize("interpreter", torches.pythons())
def test_from_the_start(start, tmp_path, interpreter):
    """The agent is there before torch is."""
    env = {"XDG_CACHE_HOME": str(tmp_path), "PROBING_TORCH_BUDGET": "100",
           "PROBING_SAMPLE_RATE": "0.5"}
    target = start(Loop, SCRIPT, prefix=[harness.BIN, "run"], env=env,
                   interpreter=interpreter)
    target.await_collector()
    time.sleep(0.5)  # the optimizer that the script had at its start has had its last step
    book, trace, logs = target.run("plain")
    traced = {row["step"] for row in trace}
    # It may have begun with the steps that the script makes at its start.
    offset = logs[0]["step"]
    assert [row["step"] - offset for row in logs] == list(range(len(book)))
    assert all(close(own["loss"], row["loss"]) for own, row in zip(book, logs[-len(book):]))
    assert traced and all(step % 2 == 0 for step in traced)
    assert len(traced) in (len(book) // 2 - 1, len(book) // 2)
