"""What libraries of torch send, much of it from C++, against torch's own flight recorder."""
import importlib.util
import json
import math
import re
import sys

import pytest

import ranks

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")
TYPES = {"Float": ("float32", 4), "Double": ("float64", 8), "Long": ("int64", 8),
         "Int": ("int32", 4), "Byte": ("uint8", 1)}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = ranks.Pair(sys.executable, "comm_kinds.py", tmp_path_factory.mktemp("kinds"))
    if not made.books[0]:
        made.stop()
        pytest.skip("this torch has no flight recorder for gloo")
    yield made
    made.stop()


def noted(entry):
    """An entry in the words of python.comm; gloo reduces everything before it scatters that."""
    group = entry["process_group"][0]
    types = [TYPES[name] for name in entry["input_dtypes"]]
    return {"op": entry["profiling_name"].partition(":")[2],
            "group_name": "default_pg" if group == "0" else group,
            "seq": entry["collective_seq_id"],
            "bytes": sum(math.prod(size) * bytes_of
                         for size, (_, bytes_of) in zip(entry["input_sizes"], types)),
            "dtype": types[0][0] if types else None}


def simple(row):
    """A row in the words of gloo."""
    op = re.sub("_(into_tensor|single|coalesced|tensor)", "", row["op"])
    row["op"] = "all_reduce" if op.startswith("reduce_scatter") else op
    return row


@pytest.mark.parametrize("rank", [0, 1])
def test_every_operation_has_its_group_number_size_and_type(pair, rank):
    rows = pair.rows("SELECT op, group_name, seq, bytes, dtype FROM comm_metrics WHERE op NOT IN "
                     "('send', 'recv', 'monitored_barrier') ORDER BY group_name, seq", rank)
    book = sorted(map(noted, pair.books[rank]), key=lambda row: (row["group_name"], row["seq"]))
    for row in book + rows:
        if row["op"] == "scatter":
            row["bytes"] = row["dtype"] = "what comes to this rank, or what it gives"
    assert [simple(row) for row in rows] == book
    groups = {row["group_name"] for row in book}
    assert len(book) > 50 and len(groups) >= 2


@pytest.mark.parametrize("rank", [0, 1])
def test_all_of_them_are_done(pair, rank):
    rows = pair.rows("SELECT op, state, latency_ms, src_rank FROM comm_metrics", rank)
    assert {row["state"] for row in rows} == {"done"}, rows
    assert all(0 < row["latency_ms"] < 20000 for row in rows)


def test_batches_of_messages_and_a_monitored_barrier(pair):
    rows = pair.rows("SELECT op, bytes, src_rank, dst_rank, seq FROM comm_metrics WHERE op IN "
                     "('send', 'recv', 'monitored_barrier') ORDER BY op", 0)
    assert [tuple(row.values()) for row in rows] == [
        ("monitored_barrier", 0, 0, None, rows[0]["seq"]), ("recv", 20, 1, 0, 1),
        ("send", 20, 0, 1, 1)]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_flight_recorder_is_a_table(pair, rank):
    rows = pair.rows("SELECT op, group_name, seq, state, sizes, dtype, record, rank, epoch_ns("
                     "timestamp) AS at FROM python.flight_recorder ORDER BY record", rank)
    book = pair.books[rank]
    rows = [row for row in rows if row["record"] >= book[0]["record_id"]]
    assert [(row["op"], row["group_name"], row["seq"]) for row in rows] == [
        (entry["profiling_name"], entry["process_group"][0], entry["collective_seq_id"])
        for entry in book]
    assert json.loads(rows[0]["sizes"]) == book[0]["input_sizes"]
    assert {row["rank"] for row in rows} == {rank}
    assert all(abs(row["at"] - entry["time_created_ns"]) < 1000 for row, entry in zip(rows, book))


def test_comm_ms_is_what_was_in_the_step(pair):
    """Time with anything under way is never more than there was; and some had something."""
    rows = pair.rows("SELECT step_ms, comm_ms FROM python.training_logs WHERE step_ms > 0", 0)
    assert rows and all(row["comm_ms"] <= row["step_ms"] + 0.01 for row in rows), rows
    assert any(row["comm_ms"] > 0 for row in rows)


@pytest.mark.parametrize("rank", [0, 1])
def test_norms_of_gradients_that_are_spread_over_ranks(pair, rank):
    norms, = re.findall(r"^norms %d (.*)$" % rank, pair.job.text(), re.M)
    rows = pair.rows("SELECT grad_norm FROM python.training_logs WHERE grad_norm IS NOT NULL "
                     "ORDER BY step", rank)
    assert [row["grad_norm"] for row in rows] == pytest.approx(json.loads(norms), rel=1e-6)
    assert len(rows) == 4
