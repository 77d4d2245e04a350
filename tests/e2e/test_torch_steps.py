"""Steps without an optimizer, of several models, with modules in the data: against the program."""
import json
import statistics
import time

import pytest

import harness
import patience
import rings
import torches
from harness import probing
from nodes import node  # noqa: F401: a fixture
from torches import check_order, close, near, of

SCRIPT = "torch_steps.py"
PARTS = ("data", "forward", "backward", "optimizer", "other")

pytestmark = pytest.mark.skipif(not torches.pythons(), reason="no interpreter with torch")


@pytest.fixture(scope="module", params=torches.pythons())
def loop(request):
    target = torches.injected(SCRIPT, interpreter=request.param)
    yield target
    target.stop()


def check_sums(logs):
    """The parts of a step are the step, and none of them is in another."""
    for row in logs[1:]:
        assert close(sum(row[part + "_ms"] or 0 for part in PARTS), row["step_ms"]), row
        assert all(row[part + "_ms"] is None or row[part + "_ms"] >= 0 for part in PARTS)


def check(book, logs, parts):
    assert [row["step"] - logs[0]["step"] for row in logs] == list(range(len(logs)))
    pairs = list(zip(book, logs))
    # Without a model there is no telling whether the first step is seen from its beginning.
    assert all(close(own["loss"], row["loss"]) for own, row in pairs[logs[0]["loss"] is None:])
    for name in parts:
        assert near([row[name + "_ms"] for row in logs[1:]],
                    [own.get(name, 0) for own in book[1:len(logs)]], 0.5), name
    check_sums(logs)


@pytest.mark.parametrize("job, name", [
    ("by hand", "Net"), ("by hand zero", "Net"), ("by hand before", "Net"),
    ("by hand between", "Net"), ("by hand accumulate", "Net"), ("by hand layer", "Linear"),
    ("by hand module loss", "Net"), ("no modules", None)])
@harness.steady
def test_by_hand(loop, job, name):
    """A step ends with its last backward. The last one is seen when there is another after it."""
    book, trace, logs = loop.anew(job)
    assert len(logs) == len(book) - 1
    check(book, logs, ("forward", "backward", "step"))
    assert (logs[0]["loss"] is None) == (name is None)
    assert all(row["lr"] is None and row["data_ms"] is None for row in logs)
    passes = [row for row in trace if row["operation_name"] == "backward"]
    assert {row["module"] for row in passes} == ({name} if name else set())
    check_order(trace, logs)
    if name:
        each = 3 if job == "by hand accumulate" else 1
        # The step that tracing began in is one; what is behind the last backward is another.
        assert len({row["step"] for row in of(trace, name)}) >= len(book) - 2
        per_step = [len([row for row in passes if row["step"] == step])
                    for step in range(2, len(book) - 1)]
        assert per_step == [each] * len(per_step)


@harness.steady
def test_modules_within_the_data(loop):
    """What makes a sample is time of the data, and of nothing else."""
    book, trace, logs = loop.anew("transforms")
    assert len(logs) == len(book)
    check(book, logs, ("data", "forward", "backward", "optimizer", "step"))
    assert [row["epoch"] for row in logs] == [own["epoch"] for own in book]
    assert statistics.median(row["data_ms"] - row["forward_ms"] for row in logs[1:]) > 0
    assert {row["module"] for row in trace if row["operation_name"] == "backward"} == {"Net"}


@pytest.mark.parametrize("job, kind", [("closures", "SGD"), ("closures again", "LBFGS")])
@harness.steady
def test_an_optimizer_has_its_own_time(loop, job, kind):
    """Whatever a closure does is not the optimizer's, in both tables."""
    book, trace, logs = loop.anew(job)
    assert len(logs) == len(book)
    check(book, logs, ("forward", "backward", "optimizer", "step") +
          (("data",) if kind == "SGD" else ()))
    rows = of(trace, kind, "optimizer")
    assert near([row["duration_ms"] for row in rows],
                [own["optimizer"] for own in book[-len(rows):]], 0.5)
    assert statistics.median(row["duration_ms"] for row in rows) < statistics.median(
        row["step_ms"] for row in logs[1:]) / 2


@harness.steady
def test_optimizers_within_backward(loop):
    """However many there are: a step for each pass, which ends with it."""
    book, _, logs = loop.anew("in backward")
    if book is None:
        pytest.skip("this torch has no hook behind a gradient")
    assert len(logs) == len(book)
    check(book, logs, ("forward", "backward", "optimizer", "step"))
    assert len({row["optimizer"] for row in logs}) == 1
    assert all(close(row["lr"], 0.001) for row in logs)
    assert {row["step_source"] for row in logs} == {"optimizer"}


@harness.steady
def test_many_optimizers(loop):
    """Those of the first one are the steps, however many there are beside it."""
    book, _, logs = loop.anew("many")
    assert len(logs) == len(book)
    check(book, logs, ("forward", "backward", "step"))
    assert len({row["optimizer"] for row in logs}) == 1


def test_two_trainings(loop):
    """In threads beside each other: a row has the loss of its own training, or none."""
    book, _, logs = loop.anew("beside")
    for row in logs[1:]:
        mine = [own["loss"] for own in book if close(own["lr"], row["lr"])]
        assert row["loss"] is None or any(close(row["loss"], loss) for loss in mine), row
    assert len([row for row in logs if row["loss"] is not None]) > 5


@harness.steady
def test_a_reference(loop):
    """A model that is called without gradients gives no backward pass its name."""
    book, trace, logs = loop.anew("reference")
    check(book, logs, ("backward", "step"))
    assert {row["module"] for row in trace if row["operation_name"] == "backward"} == {"Net"}


@harness.steady
def test_no_loader(loop):
    """No loader: no time that was waited for one and no passes over its data, not 0."""
    book, _, logs = loop.anew("evaluated")
    check(book, logs, ("forward", "backward", "optimizer", "step"))
    assert all(row[name] is None for row in logs for name in ("data_ms", "epoch", "epoch_source"))
    for own, row in zip(book[1:], logs[1:]):
        assert row["other_ms"] > own.get("evaluation", 0) * 0.9


def come_into(loop, job):
    """The agent comes while the job waits in its second step."""
    loop.turn(False)
    loop.value("job = %r" % job)
    patience.until(lambda: loop.value("waiting") == "True\n")
    began = time.time_ns()
    loop.turn(True)
    loop.value("waiting = False")
    patience.until(lambda: loop.value("job is None") == "True\n")
    book = json.loads(loop.value("import json; print(json.dumps(books[%r]))" % job))[1:]
    return book, [row for row in rings.rows(loop.home(), torches.LOGS) if row["timestamp"] > began]


def test_a_model_that_was_being_called(loop):
    """One that is not known yet has no name, rather than that of a part or of another model."""
    book, logs = come_into(loop, "entered")
    for optimizer, model in (("Adam", "Judge"), ("Adam#2", "Net")):
        found = [row["model"] for row in logs if row["optimizer"] == optimizer]
        assert len(found) >= len(book) - 1
        assert found[0] in (None, model) and set(found[1:]) == {model}, (optimizer, found)


def test_a_step_that_was_under_way(loop):
    """Of the step that the agent comes into neither times nor the sum of the losses are known."""
    book, logs = come_into(loop, "held")
    assert len(logs) == len(book)
    assert all(logs[0][name] is None for name in ("step_ms", "loss", "forward_ms", "backward_ms",
                                                  "backwards"))
    assert {row["backwards"] for row in logs[1:]} == {4}
    assert all(close(own["loss"], row["loss"]) for own, row in zip(book[1:], logs[1:]))
    check_sums(logs)


def test_within_an_optimizer_that_was_stepping(loop):
    """What is left of the step that the agent comes into is no step, and not made by hand."""
    book, logs = come_into(loop, "inside")
    assert {row["optimizer"] for row in logs} == {"LBFGS"}
    assert len(logs) == len(book) - 1
    assert all(close(own["loss"], row["loss"]) for own, row in zip(book[1:], logs))
    assert all(row["step_ms"] for row in logs[1:])


def test_two_models_of_a_class(loop):
    """Each has a name, as each optimizer has; no loss is nowhere."""
    book, trace, logs = loop.anew("gan")
    judge = [row for row in logs if row["optimizer"] == "Adam"]
    maker = [row for row in logs if row["optimizer"] == "Adam#2"]
    assert len(judge) == len(book) and len(maker) >= len(book) - 1
    assert all(close(sum(own["judge"]), row["loss"]) for own, row in zip(book, judge))
    assert all(close(own["maker"], row["loss"]) for own, row in zip(book, maker))
    assert {row["backwards"] for row in judge} == {2}
    assert {row["backwards"] for row in maker} == {1}
    assert {row["model"] for row in judge} == {"Net"}
    assert {row["model"] for row in maker} == {"Net#2"}
    assert all(close(row["lr"], 0.002) for row in judge)
    assert all(close(row["lr"], 0.001) for row in maker)
    check_sums(judge)
    assert all(row["step_source"] == "optimizer" for row in logs)
    for root, calls in (("Net", 3), ("Net#2", 1)):
        rows = [row for row in of(trace, "Net") if row["root"] == root and row["step"] == 4]
        assert len(rows) == calls
        assert len([row for row in of(trace, "one") if row["root"] == root and
                    row["step"] == 4]) == calls


def test_epochs_of_a_sampler(loop):
    """What the program tells the sampler is the epoch, whenever the agent came."""
    book, _, logs = loop.anew("resumed")
    assert [row["epoch"] for row in logs] == [own["epoch"] for own in book]
    assert {row["epoch_source"] for row in logs} == {"sampler"}
    assert [row["step"] for row in logs] == [own["number"] for own in book]
    assert {row["step_source"] for row in logs} == {"sampler"}
    book, _, logs = loop.anew("forgotten")
    assert [row["epoch"] for row in logs] == [own["epoch"] for own in book]
    assert {row["epoch_source"] for row in logs} == {"injection"}
    assert [row["step"] for row in logs] == [own["number"] for own in book]
    assert {row["step_source"] for row in logs} == {"loader"}


def test_numbers_by_the_place_in_the_data(loop):
    """Several batches a step; and where steps and batches do not go together, a plain count."""
    book, _, logs = loop.anew("resumed in fours")
    assert [row["step"] for row in logs] == [own["number"] for own in book]
    assert {row["step_source"] for row in logs} == {"sampler"}
    book, _, logs = loop.anew("told by the data")
    assert [row["epoch"] for row in logs] == [own["epoch"] for own in book]
    assert {row["epoch_source"] for row in logs} == {"sampler"}
    book, _, logs = loop.anew("twice a batch")
    steps = [row["step"] for row in logs]
    assert len(steps) == len(book) and steps == list(range(steps[0], steps[0] + len(steps)))
    assert logs[-1]["step_source"] == "injection"


def test_numbers_by_an_expression(loop):
    """The program's own numbers, as the user names them; one that does not work says why."""
    def config(*pairs):
        answer = probing(loop.pid, "config", *pairs)
        assert answer.returncode == 0, answer

    def status():
        return rings.lines(loop.home(), "status")["collector.torch"]
    loop.value("trainer = None")
    config("torch.step=trainer.global_step", "torch.epoch=trainer.current_epoch")
    book, trace, logs = loop.anew("trained")
    assert [row["step"] for row in logs] == [own["number"] for own in book]
    assert [row["epoch"] for row in logs] == [own["epoch"] for own in book]
    assert {row["step_source"] for row in logs} == {"expression"} == {
        row["epoch_source"] for row in logs}
    assert {row["step"] for row in trace[-20:]} <= {own["number"] for own in book}
    assert probing(loop.pid, "config", "torch.step").stdout == "trainer.global_step\n"
    for text, why in (("trainer.global_stepp", "has no attribute"), ("1 +", "invalid syntax"),
                      ("1.5", "no whole number")):
        config("torch.step=" + text)
        _, _, logs = loop.anew("trained")
        assert [row["step"] for row in logs] == list(range(len(book)))
        assert logs[-1]["step_source"] == "injection" and logs[-1]["epoch_source"] == "expression"
        patience.until(lambda: "torch.step: " in status() and why in status())
    config("torch.step=", "torch.epoch=")
    patience.until(lambda: "torch.step" not in status())


def test_a_signal_in_an_expression(loop):
    """What its handler raises, the program gets; the expression is as good as it was."""
    assert probing(loop.pid, "config", "torch.step=trainer.global_step").returncode == 0
    caught, _, logs = loop.anew("signalled")
    assert caught == 1
    assert [row["step_source"] for row in logs].count("expression") == len(logs) - 1
    assert "torch.step" not in rings.lines(loop.home(), "status")["collector.torch"]
    assert probing(loop.pid, "config", "torch.step=").returncode == 0


@harness.steady
def test_requests_at_the_same_time(loop):
    """Each call of the model is a step of its own, with the thread that made it."""
    loop.turn(False)
    loop.turn(True)
    time.sleep(1.5)  # where nothing trains, tracing begins a little later
    book, trace, _ = loop.run("server")
    if book[0]["tid"] is not None:
        assert {row["tid"] for row in trace} == {own["tid"] for own in book}
    whole = of(trace, "Net")
    assert len(whole) == len(book) and {row["phase"] for row in trace} == {"eval"}
    steps = {}
    for row in trace:
        steps.setdefault(row["step"], []).append(row)
    assert len(steps) == len(book)
    for rows in steps.values():
        assert [row["module"] for row in rows] == ["one", "two", "Net"]
        assert [row["seq"] for row in rows] == [0, 1, 2]
        assert len({row["tid"] for row in rows}) == 1
    for tid in {row["tid"] for row in whole}:
        mine = [row["duration_ms"] for row in whole if row["tid"] == tid]
        if book[0]["tid"] is not None:
            assert near(mine, [own["took"] for own in book if own["tid"] == tid], 1)


def slowest(node, target, where="true"):  # noqa: F811
    return node.rows("SELECT * FROM slowest_modules WHERE " + where, target.pid)


def test_shares_of_a_step(node, start):  # noqa: F811
    """By the program's own account; training and evaluation apart."""
    target = start(torches.Loop, SCRIPT)
    assert probing(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
    target.await_collector()
    book, _, _ = target.run("evaluated")
    whole = sum(own["step"] for own in book[1:])
    rows = {(row["module"], row["stage"], row["phase"]): row for row in slowest(node, target)}
    for key, part in ((("Net", "forward", "train"), "forward"),
                      (("Net", "forward", "eval"), "evaluation"),
                      (("Net", "backward", "train"), "backward"),
                      (("SGD", "optimizer", "train"), "optimizer")):
        share = 100 * sum(own.get(part, 0) for own in book[1:]) / whole
        assert abs(rows[key]["step_pct"] - share) < 5, (key, share, rows[key])
    assert sum(rows[key]["step_pct"] for key in rows if key[0] in ("Net", "SGD")) <= 100
    net = rows["Net", "forward", "train"]
    # The model's own time is that of its pause.
    assert net["median_ms"] >= net["self_ms"] > 1
    for stage, phase in (("forward", "train"), ("forward", "eval"), ("backward", "train")):
        for column in ("step_pct", "median_ms", "avg_ms", "max_ms", "total_ms"):
            whole = rows["Net", stage, phase][column]
            assert all(rows[name, stage, phase][column] <= whole for name in ("one", "two")), column


def test_a_part_is_less_than_the_whole(node, start):  # noqa: F811
    """Also where backward was told apart in a few slow steps only."""
    target = start(torches.Loop, SCRIPT)
    assert probing(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
    target.await_collector()
    turns, parts = 0, []
    while not parts and turns < 10:  # steps in which it is told apart are chosen by chance
        target.run("by hand")
        turns += 1
        parts = slowest(node, target, "module = 'two' AND stage = 'backward'")
    probing(target.pid, "config", "torch.backward=off")
    for _ in range(3 * turns):
        target.run("quick")
    rows = {(row["module"], row["stage"]): row for row in slowest(node, target, "phase = 'train'")}
    whole, part = rows["Net", "backward"], rows["two", "backward"]
    assert 0 < part["calls"] < whole["calls"] / 3
    for column in ("step_pct", "median_ms", "avg_ms", "max_ms", "total_ms"):
        assert part[column] <= whole[column], column
    places = [row["module"] for row in slowest(node, target, "stage = 'backward'")]
    assert places[0] == "Net"


@pytest.mark.parametrize("job", ["sometimes", "sometimes accumulate"])
def test_a_part_of_some_calls(node, start, job):  # noqa: F811
    """What is called in slow calls alone has a longer median than the model; its whole has not."""
    target = start(torches.Loop, SCRIPT)
    assert probing(target.pid, "inject", "-D", "torch.budget=100").returncode == 0
    target.await_collector()
    target.run(job)
    rows = {(row["module"], row["stage"]): row for row in slowest(node, target, "phase = 'train'")}
    for stage in ("forward", "backward"):
        whole, seldom = rows["Sometimes", stage], rows["seldom", stage]
        assert seldom["median_ms"] <= seldom["whole_ms"] and seldom["calls"] < whole["calls"]
        assert close(whole["median_ms"], whole["whole_ms"])
        assert seldom["step_pct"] <= whole["step_pct"]
    assert rows["seldom", "forward"]["median_ms"] > rows["Sometimes", "forward"]["median_ms"]


def test_order_of_backward(loop):
    """A module's row follows those of the modules inside of it, as in forward: rows are by end."""
    _, trace, _ = loop.anew("deep")
    apart = {row["step"] for row in trace if row["operation_name"] == "outer.inner.one.backward"}
    assert apart
    for step in apart:
        rows = [row for row in trace if row["step"] == step and row["stage"] == "backward"]
        assert [row["module"] for row in rows] == [
            "outer.inner.two", "outer.inner.one", "outer.inner", "outer.first", "outer", "Outer"]
        assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
        inside = sum(row["duration_ms"] for row in rows[:2])
        assert close(rows[2]["self_ms"], rows[2]["duration_ms"] - inside, 1e-3)
        assert close(rows[5]["self_ms"], rows[5]["duration_ms"] - rows[4]["duration_ms"], 1e-3)
