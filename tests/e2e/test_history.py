"""Rows go from shared memory to Parquet files, and one name covers both."""
import csv
import glob
import json
import os
import shutil
import struct
import time

import pytest

import harness
import patience
import plain_engine
from nodes import Node
from numbering import TABLE, Numbers, assert_whole, census

DELAY = {"PROBING_HISTORY_DELAY": "0.2"}


@pytest.fixture(scope="module")
def kept(any_py, tmp_path_factory):
    """A node with history: a process wrote more than its ring holds, then stopped writing."""
    folder = tmp_path_factory.mktemp("history")
    node = Node(folder, **DELAY)
    node("serve")
    target = Numbers(any_py, node, folder, rate=4000, rows=8192)
    target.wait_for(13000)
    node.target, node.written = target, target.halt()
    patience.until(lambda: target.sealed(node) >= node.written)
    patience.until(lambda: settled(node, target))
    yield node
    target.stop()
    node.stop()


def settled(node, target):
    """Nothing is merged any more: that is looked for once a second."""
    before = target.parts(node)
    time.sleep(1.5)
    return target.parts(node) == before


def test_more_rows_than_the_ring_holds(kept):
    assert kept.written >= 13000 > 8192
    assert_whole(kept, kept.target.pid, kept.written)
    row, = kept.rows("SELECT rows, files FROM probing.tables WHERE name = 'python.numbers'")
    assert row["rows"] >= kept.written and row["files"] >= 1
    row, = kept.rows("SELECT count(*) AS c, min(pid) AS p, count(DISTINCT word) AS w, "
                     "count(timestamp) AS t FROM python.numbers", target=kept.target.pid)
    assert row == {"c": kept.written, "p": kept.target.pid, "w": 7, "t": kept.written}


def test_views_follow_rows_into_the_first_file(any_py, start, tmp_path):
    """A short name whose table is never named itself loses nothing when that gets files."""
    node = Node(tmp_path, PROBING_HISTORY_DELAY="1")
    try:
        target = start(harness.Script, any_py, "simple.py")
        assert node(target.pid, "inject", "-D", "memory.interval=0.1").returncode == 0
        before, files = 0, None
        while not files or before <= 5:
            row, = node.rows("SELECT count(*) AS n FROM memory_usage", target.pid)
            assert row["n"] >= before, "rows went"
            before = row["n"]
            files = glob.glob(os.path.join(node.home, "lake", "python.memory", "*", "*", "*", "p*"))
        row, = node.rows("SELECT count(*) AS n FROM memory_usage", target.pid)
        assert row["n"] >= before, (row, before)
    finally:
        node.stop()


def test_files_are_plain_parquet_in_folders_of_a_lake(kept):
    found = kept.target.parts(kept)
    assert found
    for path in found:
        with open(path, "rb") as file:
            data = file.read()
        assert data[:4] == data[-4:] == b"PAR1"
        assert struct.unpack("<I", data[-8:-4])[0] < len(data)
        names = [part.partition("=") for part in path.split(os.sep)[-4:-1]]
        assert [name for name, _, _ in names] == ["date", "host", "process"]
        assert names[2][2] == kept.target.id
    # Nothing half done lies about.
    assert not glob.glob(os.path.join(os.path.dirname(found[0]), ".*"))


def test_another_reader(kept):
    """Any tool that reads Parquet reads the folder, partitions and all, and so does pyarrow."""
    folder = os.path.join(kept.home, TABLE)
    row = plain_engine.first_row(
        "SELECT count(*), count(DISTINCT n), min(n), max(n), count(timestamp), "
        "count(DISTINCT word) FROM read_parquet('%s/*/*/*/part-*.parquet', "
        "hive_partitioning = true) WHERE process = '%s'" % (folder, kept.target.id))
    assert row == [kept.written, kept.written, 0, kept.written - 1, kept.written, 7]
    try:
        import pyarrow.dataset as dataset
    except ImportError:
        return
    rows = dataset.dataset(folder, partitioning="hive").to_table(
        columns=["n", "process"], filter=dataset.field("process") == kept.target.id)
    assert sorted(rows["n"].to_pylist()) == list(range(kept.written))


def test_a_fresh_engine_reads_the_files_alone(kept, tmp_path):
    """Another node, on a copy of the folder; parts that are being written are not there yet."""
    other = Node(tmp_path)
    shutil.copytree(kept.home, other.home, ignore=lambda _dir, names: [
        name for name in names if name.startswith((".lock", ".part-", "node."))])
    try:
        rows, different, lowest, highest = census(other, kept.target.id)
        assert (rows, different, lowest, highest) == (kept.written, kept.written, 0,
                                                      kept.written - 1)
    finally:
        other.stop()


def test_copied_data_folder_without_a_node(kept, tmp_path):
    """--store on a data folder reads its history, and changes nothing in it."""
    before = sorted(kept.target.parts(kept))
    answer = kept("--store", kept.home, "query", "-f", "csv",
                  "SELECT count(*), max(n) FROM python.numbers WHERE pid = %d" % kept.target.pid)
    assert answer.returncode == 0, answer
    assert answer.stdout.split("\n")[1] == "%d,%d" % (kept.written, kept.written - 1)
    assert sorted(kept.target.parts(kept)) == before


def test_rows_of_a_time_range(kept):
    row, = kept.rows("SELECT count(*) AS c FROM python.numbers WHERE timestamp > now() - interval "
                     "'1 hour' AND timestamp <= now()", target=kept.target.pid)
    assert row["c"] == kept.written
    row, = kept.rows("SELECT count(*) AS c FROM python.numbers WHERE timestamp < now() - interval "
                     "'1 hour'", target=kept.target.pid)
    assert row["c"] == 0


def test_state_of_the_archive(kept):
    row, = kept.rows("SELECT state, reason FROM probing.agents WHERE collector = 'archive'")
    assert row["state"] == "on", row
    row, = kept.rows("SELECT rows, bytes FROM probing.cost WHERE what = 'archive'")
    assert row["rows"] >= kept.written and row["bytes"] > 0


@pytest.mark.parametrize("kind", ["csv", "json", "ndjson", "parquet"])
def test_export_a_table(kept, tmp_path, kind):
    path = tmp_path / ("rows." + kind)
    answer = kept(kept.target.pid, "export", "--table", "python.numbers", "-o", path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("%s  " % path) and answer.stdout.endswith("B\n")
    if kind == "parquet":
        assert path.read_bytes()[-4:] == b"PAR1"
        return
    with open(path) as file:
        if kind == "csv":
            numbers = [int(row["n"]) for row in csv.DictReader(file)]
        elif kind == "json":
            numbers = [row["n"] for row in json.load(file)]
        else:
            numbers = [json.loads(line)["n"] for line in file]
    assert sorted(numbers) == list(range(kept.written))


def test_export_refuses_to_overwrite(kept, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("mine")
    answer = kept("export", "SELECT 1 AS one", "-o", path)
    assert answer.returncode == 2 and "--force" in answer.stderr
    assert path.read_text() == "mine"
    assert kept("export", "SELECT 1 AS one", "-o", path, "--force").returncode == 0
    assert path.read_text().split() == ["one", "1"]
    # What fails leaves what was there, and nothing else.
    assert kept("export", "SELECT nothing", "-o", path, "--force").returncode == 1
    assert path.read_text().split() == ["one", "1"]
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_export_everything_since(kept, tmp_path):
    folder = tmp_path / "all"
    answer = kept(kept.target.pid, "export", "--since", "1h", "-f", "ndjson", "-o", folder)
    assert answer.returncode == 0, answer
    names = sorted(os.listdir(folder))
    assert "python.numbers.ndjson" in names and len(names) > 1
    with open(folder / "python.numbers.ndjson") as file:
        assert len(file.readlines()) == kept.written
    answer = kept("export", "-f", "csv", "-o", folder)
    assert answer.returncode == 2 and "--force" in answer.stderr
    answer = kept("export", "--since", "yesterday", "-o", tmp_path / "x")
    assert answer.returncode == 2 and "is no time" in answer.stderr
    answer = kept("export", "SELECT 1")
    assert answer.returncode == 2 and "-o FILE" in answer.stderr


def test_retention(kept, tmp_path):
    """A day of long ago goes when a node comes."""
    node = Node(tmp_path, PROBING_RETENTION_DAYS="3")
    source = kept.target.parts(kept)[0]
    for date in ("2020-02-02", None):
        path = os.path.join(node.home, os.path.relpath(source, kept.home))
        if date:
            path = path.replace(path.split("date=")[1][:10], date).replace("part-", "part-1")
        os.makedirs(os.path.dirname(path))
        os.link(source, path)
    try:
        node("serve")
        table = os.path.join(node.home, TABLE)
        assert patience.until(lambda: "date=2020-02-02" not in os.listdir(table))
        assert kept.target.parts(node)
    finally:
        node.stop()


def test_every_answer_is_whole_while_rows_move(any_py, tmp_path):
    """Rows go from ring to file between and during queries; none is missing or there twice."""
    node = Node(tmp_path, PROBING_HISTORY_DELAY="0.1")
    node("serve")
    target = Numbers(any_py, node, tmp_path, rate=8000)
    try:
        target.wait_for(1)
        last, end = 0, time.monotonic() + 30
        while len(target.parts(node)) < 5 and time.monotonic() < end:
            before = target.written()
            rows, different, lowest, highest = census(node, target.pid)
            assert rows == different == highest - lowest + 1 and lowest == 0
            assert rows >= before  # which is written behind a batch: a query may have seen more
            assert rows >= last
            last = rows
        assert time.monotonic() < end
    finally:
        target.stop()
        node.stop()


def test_full_disk(any_py, tmp_path):
    """History that cannot be written says so; the rows stay in the ring."""
    node = Node(tmp_path, PROBING_HOME=os.path.join(str(tmp_path), "home"), **DELAY)
    lake = os.path.join(node.home, "lake")
    os.makedirs(lake)
    with open(os.path.join(lake, "python.numbers"), "w") as file:
        file.write("in the way")
    target = Numbers(any_py, node, tmp_path, rate=1000)
    try:
        target.wait_for(200)
        node("serve")
        state = patience.until(lambda: [row for row in node.rows(
            "SELECT state, reason FROM probing.agents WHERE collector = 'archive'")
            if row["state"] == "failed"])
        assert state and "python.numbers" in state[0]["reason"]
        written = target.halt()
        assert_whole(node, target.pid, written)
        os.unlink(os.path.join(lake, "python.numbers"))
        assert patience.until(lambda: target.parts(node))
        assert_whole(node, target.pid, written)
    finally:
        target.stop()
        node.stop()
