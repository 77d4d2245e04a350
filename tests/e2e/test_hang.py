"""A job that hangs: one statement says which rank, in what, and at which line."""
import importlib.util
import os

import pytest

import harness
import ranks
from injecting import has_agent
from nodes import node  # noqa: F401: a fixture

pytestmark = [pytest.mark.skipif(not has_agent(), reason="built without the agent"),
              pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")]
SCRIPT = os.path.join(harness.ROOT, "examples", "hang.py")


def line_of(text):
    with open(SCRIPT) as file:
        return [number for number, line in enumerate(file, 1) if text in line][0]


@pytest.fixture
def job(tmp_path):
    made = ranks.Job(ranks.torchrun("hang.py", 4, "--rank", 2, "--step", 300), 4, tmp_path)
    yield made
    made.stop()


def test_the_stuck_rank_its_collective_and_its_line(node, job):
    ranks.inject(node, job)
    found = ranks.wait_for(node, "SELECT * FROM hung_collectives WHERE problem = 'missing' AND "
                                 "job LIKE '%%:%d'" % job.port)
    assert len(found) == 1, found
    row = found[0]
    assert (row["rank"], row["pid"]) == (2, job.pids[2])
    assert (row["op"], row["group_name"]) == ("all_reduce", "default_pg")
    assert (row["seq"], row["last_seq"]) == (301, 300)
    assert (row["func"], row["lineno"]) == ("wait_for_storage", line_of("time.sleep(1)"))
    assert row["file"] == SCRIPT and row["waiting_s"] > 3
    # The others wait for it, in the same operation.
    waiting = node.rows("SELECT * FROM hung_collectives WHERE problem = 'waiting' AND "
                        "job LIKE '%%:%d' ORDER BY rank" % job.port)
    assert [(row["rank"], row["seq"], row["func"]) for row in waiting] == [
        (rank, 301, "main") for rank in (0, 1, 3)]
    assert {row["lineno"] for row in waiting} == {line_of("dist.all_reduce")}
    # Ranks that were there all the time have begun it and not ended it.
    rows = node.rows("SELECT rank, state, latency_ms, bytes, dtype FROM comm_metrics "
                     "WHERE seq = 301 AND job LIKE '%%:%d' ORDER BY rank" % job.port)
    assert [row["rank"] for row in rows] == [0, 1, 3]
    assert {(row["state"], row["latency_ms"], row["bytes"], row["dtype"]) for row in rows} == {
        ("started", None, 4096, "float32")}
