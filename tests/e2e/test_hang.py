"""A job that hangs: one statement says which rank, in what, and at which line."""
import importlib.util
import os
import sys
import time

import pytest

import harness
import ranks
from nodes import node  # noqa: F401: a fixture

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")
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
    # Each of them says itself what it is in.
    rows = node.rows("SELECT rank, collective, group_name, collective_seq FROM python.progress "
                     "WHERE collective IS NOT NULL AND pid IN (%s) ORDER BY rank"
                     % ", ".join(str(pid) for pid in job.pids.values()))
    assert [tuple(row.values()) for row in rows] == [
        (rank, "all_reduce", "default_pg", 301) for rank in (0, 1, 3)]


LOADER = os.path.join(harness.TARGETS, "loader_hang.py")


def line_in(path, text):
    with open(path) as file:
        return [number for number, line in enumerate(file, 1) if text in line][0]


def test_a_rank_that_waits_for_its_data_loader(node, tmp_path):
    """Injected when it has hung for a while: the script's line, the worker's, and since when."""
    job = ranks.Job([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                     "--master-port", "PORT", LOADER, "40"], 2, tmp_path)
    try:
        time.sleep(8)
        began = time.monotonic()
        ranks.inject(node, job)
        row, = ranks.wait_for(node, "SELECT * FROM hung_collectives WHERE problem = 'missing' AND "
                                    "job LIKE '%%:%d'" % job.port)
        assert (row["rank"], row["pid"], row["op"]) == (1, job.pids[1], "all_reduce")
        assert (row["func"], row["file"]) == ("train", LOADER)
        assert row["lineno"] == line_in(LOADER, "for batch in DataLoader")
        assert (row["worker_func"], row["worker_file"]) == ("read_shard", LOADER)
        assert row["worker_line"] == line_in(LOADER, "does not answer")
        with open("/proc/%d/stat" % row["worker"]) as file:
            assert int(file.read().rpartition(")")[2].split()[1]) == job.pids[1]
        # It began long before the agents came.
        assert row["waiting_s"] > time.monotonic() - began + 2
    finally:
        job.stop()
