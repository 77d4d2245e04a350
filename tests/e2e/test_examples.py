"""The examples, injected while they run: what docs/pytorch.md says of them."""
import importlib.util
import os
import sys
import time

import pytest

import harness
from nodes import Node

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")

SCRIPTS = {
    "imagenet": ["imagenet.py", "-a", "resnet18", "--dummy", "-b", "1"],
    "leak": ["leak.py", "--device", "cpu", "--sleep", "0.01"],
    "inference": ["inference.py"],
}


class Example(harness.Target):
    def __init__(self, *args):
        super().__init__([sys.executable, os.path.join(harness.ROOT, "examples", args[0])] +
                         list(args[1:]), env={"OMP_NUM_THREADS": "1"})

    def read_ready(self, seconds):
        """"process 4242: training resnet18"."""
        return super().read_ready(max(seconds, 60)).replace(":", " ").split(" training")[0]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """All at once, each for some seconds."""
    node = Node(tmp_path_factory.mktemp("examples"))
    targets = {}
    try:
        for name, args in SCRIPTS.items():
            targets[name] = Example(*args)
        for target in targets.values():
            assert node(target.pid, "inject").returncode == 0
        yield node, {name: target.pid for name, target in targets.items()}
    finally:
        for target in targets.values():
            target.stop()
        node.stop()


def rows(running, name, sql, seconds=30):
    """Of a view, once there are any."""
    node, pids = running
    end = time.monotonic() + seconds
    while True:
        found = node.rows(sql, pids[name])
        if found or time.monotonic() > end:
            assert found, sql
            return found
        time.sleep(0.3)


def test_leak_grows_from_step_to_step(running):
    found = rows(running, "leak", "SELECT * FROM memory_growth WHERE steps > 60")
    # 64 rows of 256 + 2 x 512 + 2 x 512 + 10 floats, kept at every step
    assert all(0.2 < row["total_mb_per_step"] < 2 for row in found), found
    assert found[0]["growth_mb"] > 10


def test_parts_of_a_step(running):
    found = rows(running, "leak", "SELECT * FROM step_breakdown WHERE step > 5 LIMIT 20")
    for row in found:
        assert row["data_ms"] is None  # there is no loader
        parts = sum(row[part + "_ms"] for part in ("forward", "backward", "optimizer", "comm",
                                                   "other"))
        assert parts == pytest.approx(row["step_ms"], rel=0.01)
        assert row["other_ms"] >= 10  # the loop sleeps


def test_what_it_costs_the_program(running):
    found, = rows(running, "leak", "SELECT cpu_ms FROM probing.cost WHERE what = 'torch'")
    steps, = rows(running, "leak", "SELECT count(*) AS n, sum(step_ms) AS ms FROM "
                                   "python.training_logs")
    assert 0 < found["cpu_ms"] < 0.2 * steps["ms"]
    assert found["cpu_ms"] / steps["n"] < 5


def test_imagenet(running):
    """The slowest at the outermost level are the whole network and its backward."""
    found = rows(running, "imagenet", "SELECT * FROM slowest_modules WHERE stage = 'forward' AND "
                                      "module = 'ResNet'")
    assert found[0]["module_type"] == "ResNet" and 0 < found[0]["step_pct"] < 100
    found = rows(running, "imagenet", "SELECT operation_name, avg(duration_ms) AS ms, count(*) "
                                      "FROM profiling_data GROUP BY operation_name")
    assert {"ResNet.forward", "SGD.step"} <= {row["operation_name"] for row in found}
    found = rows(running, "imagenet", "SELECT epoch, batch_size, loss, lr FROM training_logs "
                                      "WHERE step > 0")
    assert {(row["epoch"], row["batch_size"], row["lr"]) for row in found} == {(0, 1, 0.1)}
    assert all(0 < row["loss"] < 100 for row in found)


def test_inference_counts_answers(running):
    """No optimizer: each call of the whole model is a step."""
    found = rows(running, "inference", "SELECT step, count(*) AS calls FROM python.torch_trace "
                                       "WHERE stage = 'forward' GROUP BY step HAVING step BETWEEN "
                                       "4 AND (SELECT max(step) - 1 FROM python.torch_trace) "
                                       "ORDER BY step LIMIT 5")
    # Each in full where it is traced: the brake may leave some out.
    assert len(found) > 1 and len({row["calls"] for row in found}) == 1, found


def test_views_answer_without_rows(running):
    """For a process that has nothing to do with it."""
    node, pids = running
    for view in ("hung_collectives", "slow_ranks", "comm_metrics"):
        assert node.rows("SELECT * FROM " + view, pids["leak"]) == []
    assert node("query", "SELECT * FROM data_stalls").returncode == 0
