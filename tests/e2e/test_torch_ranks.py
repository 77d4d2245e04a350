"""Ranks that the agent comes to at different moments: the same step has the same number."""
import os

import pytest

import harness
import ranks
import torches
from nodes import Node

pytestmark = pytest.mark.skipif(not torches.python(), reason="no torch")
PASS, RATE = 50, 1e-7  # as in the target


@pytest.fixture
def apart(tmp_path, request):
    """A job of that kind; the second rank is probed when the first one has made many steps."""
    node = Node(tmp_path)
    job = ranks.Job([torches.python(), os.path.join(harness.TARGETS, "ranks_apart.py"), "PORT",
                     request.param], 2, tmp_path)
    try:
        for rank in (0, 1):
            assert node(job.pids[rank], "inject").returncode == 0
            ranks.wait_for(node, "SELECT 1 FROM python.training_logs WHERE pid = %d "
                                 "AND step_ms IS NOT NULL HAVING count(*) > %d"
                           % (job.pids[rank], PASS), 180)
        yield node, job
    finally:
        job.stop()
        node.stop()


def rows_of(node, job, rank, sql="SELECT * FROM training_logs WHERE step_ms IS NOT NULL "
                                 "ORDER BY timestamp"):
    rows = node.rows(sql, job.pids[rank])
    assert len(rows) > PASS
    return rows


def true_number(row):
    return round(row["lr"] / RATE) - 1


@pytest.mark.parametrize("apart", ["sampler"], indirect=True)
def test_the_sampler_knows(apart):
    """Its epoch and how far the loader is in it: the program's own number, on each rank."""
    for rank in (0, 1):
        rows = rows_of(*apart, rank)
        # In the first epoch a sampler looks as one that nobody tells the epoch.
        known = [row for row in rows if row["step_source"] == "sampler"]
        assert len(known) >= len(rows) - PASS
        for row in rows:
            assert row["step_source"] in ("sampler", "loader")
        assert [row["step"] for row in known] == [true_number(row) for row in known]
        assert [row["epoch"] for row in known] == [true_number(row) // PASS for row in known]


@pytest.mark.parametrize("apart", ["loader"], indirect=True)
def test_the_loader_knows_its_place(apart):
    """Nobody tells the sampler the epoch: what is known is the place in the pass."""
    for rank in (0, 1):
        rows = rows_of(*apart, rank)
        assert {row["step_source"] for row in rows} == {"loader"}
        assert [row["step"] % PASS for row in rows] == [true_number(row) % PASS for row in rows]
        assert rows[0]["step"] < PASS
        assert [b["step"] - a["step"] for a, b in zip(rows, rows[1:])] == [1] * (len(rows) - 1)


@pytest.mark.parametrize("apart", ["nothing"], indirect=True)
def test_collectives_are_counted_on_each_rank(apart):
    """Without a loader steps are counted from injection on, and matched by their collectives."""
    node, job = apart
    rows = rows_of(node, job, 1)
    assert {row["step_source"] for row in rows} == {"injection"}
    ranks.wait_for(node, "SELECT 1 FROM rank_steps WHERE pid = %d AND ranks = 2 HAVING "
                         "count(*) > %d" % (job.pids[1], PASS), 180)
    numbers = {(row["pid"], row["step"]): row for row in node.rows(
        "SELECT pid, step, lr FROM python.training_logs WHERE pid IN (%d, %d)"
        % (job.pids[0], job.pids[1]))}
    matched = node.rows("SELECT step, own_step, rank, pid, comm_seq FROM rank_steps "
                        "WHERE ranks = 2 AND pid IN (%d, %d)" % (job.pids[0], job.pids[1]))
    at = {}
    for row in matched:
        own = numbers.get((row["pid"], row["own_step"]))
        if own:
            at.setdefault(row["step"], set()).add(true_number(own))
            if row["rank"] == 0:
                assert row["step"] == row["own_step"]
    assert len(at) > PASS and all(len(same) == 1 for same in at.values())
    shift = {row["step"] - row["own_step"] for row in matched if row["rank"] == 1}
    assert len(shift) == 1 and shift.pop() > 0
