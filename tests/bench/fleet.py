"""
A lake of 10,000 nodes: rows(quick) for the table of run.py.

An hour of hand-overs of one table is merged by a real node, which says how many files a day has; a
day of as many files in all tables is made then, with 80,000 ranks in the hour that is asked about.
"""
import glob
import os
import shutil
import tempfile
import time

import measure
from measure import harness

import plain_engine  # noqa: E402  (measure puts its folder on the path)
from nodes import Node  # noqa: E402

NODES, RANKS, TEMPLATES, TABLES = 10000, 8, 100, 24  # tables that the agent and the node write
HOUR = "date=2026-08-01/hour=07"
START = "TIMESTAMPTZ '2026-08-01 07:00:00+00'"
COMM = """SELECT {start} + to_seconds(60 * m) + to_microseconds((hash(r, m) % 5000)::BIGINT) AS
timestamp, m AS step, 'all_reduce' AS op, r AS src_rank, NULL::BIGINT AS dst_rank,
'0' AS group_name, 8 AS group_size, m AS seq, 4194304 AS bytes,
(hash(r, m, 1) % 1000) / 100.0 AS latency_ms, 'done' AS state, NULL::DOUBLE AS gpu_ms,
'10.0.' || (r // 2048) || '.1:29500' AS job,
'gpu-' || (r // 8) AS host, 100 + r % 8 AS pid, r % 2048 AS rank, (100 + r % 8) || '-1' AS process,
1 AS _ring, m AS _row, '1-' || (r // 8) AS _batch
FROM range({first}, {last}) AS a(r), range({rows}) AS b(m)"""
LOGS = """SELECT {start} + to_seconds(60 * m) AS timestamp, 0 AS epoch, m AS step,
1.0 / (m + 1) AS loss, 0.1 AS lr, 900.0 + hash(r, m) % 200 AS step_ms, 5.0 AS data_ms,
300.0 AS forward_ms, 500.0 AS backward_ms, 50.0 AS optimizer_ms, 20.0 AS comm_ms, 25.0 AS other_ms,
32 AS batch_size, 4 * m AS comm_seq, false AS profiled, 'sampler' AS step_source,
'gpu-' || (r // 8) AS host, 100 + r % 8 AS pid, r % 2048 AS rank, (100 + r % 8) || '-1' AS process,
1 AS _ring, m AS _row, '1-' || (r // 8) AS _batch
FROM range({first}, {last}) AS a(r), range({rows}) AS b(m)"""
KINDS = {"python.comm": COMM, "python.training_logs": LOGS}


def write(path, table, first, last, rows):
    sql = KINDS[table].format(start=START, first=first, last=last, rows=rows)
    plain_engine.first_row("COPY (%s) TO '%s' (FORMAT parquet, COMPRESSION zstd); SELECT 1"
                           % (sql, path))


def hand_overs(lake, nodes, each):
    """What so many nodes hand over in an hour: files of a few rows."""
    folder = os.path.join(lake, "templates")
    waiting = os.path.join(lake, ".waiting", "python.training_logs")
    os.makedirs(folder)
    for i in range(TEMPLATES):
        write(os.path.join(folder, "%d.parquet" % i), "python.training_logs", 8 * i, 8 * i + 8, 2)
    began = (int(time.time()) - 7200) * 10 ** 9
    for i in range(nodes * each):
        batch = os.path.join(waiting, "batch-%d-gpu-%d-00000000" % (began + i, i % nodes), HOUR)
        os.makedirs(batch)
        os.link(os.path.join(folder, "%d.parquet" % (i % TEMPLATES)),
                os.path.join(batch, "rows-0.parquet"))
    shutil.rmtree(folder)
    return waiting


def merged(folder, nodes):
    """(files of the hour, processor seconds, memory in MB) of a node that merges them all."""
    lake, each = os.path.join(folder, "lake"), 3600 // 900  # lake.delay
    waiting = hand_overs(lake, nodes, each)
    node = Node(folder, PROBING_LAKE_PATH=lake, PROBING_LAKE_DELAY="0.1", PROBING_LAKE_MERGE="60")
    began = time.monotonic()
    try:
        node("serve")
        while os.listdir(waiting):
            assert time.monotonic() - began < 3600, node.log()[-2000:]
            time.sleep(0.2)
        with open("/proc/%d/task/%d/children" % ((node.pid(),) * 2)) as file:
            server = file.read().split()[0]
        with open("/proc/%s/stat" % server) as file:
            words = file.read().rpartition(")")[2].split()
        took = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        with open("/proc/%s/status" % server) as file:
            peak = [int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM")][0]
    finally:
        node.stop()
    parts = glob.glob(os.path.join(lake, "python.training_logs", HOUR, "part-*.parquet"))
    rows = plain_engine.first_row("SELECT count(*) FROM read_parquet('%s/part-*.parquet')"
                                  % os.path.dirname(parts[0]))[0]
    assert rows == nodes * each * RANKS * 2, rows
    return len(parts), took, peak


def day(lake, per_hour, nodes, minutes):
    """As many files as a day has; the hour's own rows are those that are asked for."""
    names = list(KINDS) + ["python.made_up_%d" % i for i in range(TABLES - len(KINDS))]
    files = 0
    for name in names:
        kind = name if name in KINDS else "python.training_logs"
        for hour in range(24):
            folder = os.path.join(lake, name, "date=2026-08-01", "hour=%02d" % hour)
            os.makedirs(folder, exist_ok=True)
            for i in range(per_hour):
                path = os.path.join(folder, "part-%d-gpu-1-00000000.parquet" % (10 ** 18 + i))
                made = os.path.join(lake, kind, HOUR, os.path.basename(path))
                if not os.path.exists(made):
                    os.makedirs(os.path.dirname(made), exist_ok=True)
                    first = nodes * RANKS * i // per_hour
                    write(made, kind, first, nodes * RANKS * (i + 1) // per_hour, minutes)
                if made != path:
                    os.link(made, path)
                files += 1
    return files


def asked(lake, sql, runs):
    """(seconds of the fastest run, rows)"""
    best, rows = None, ""
    for _ in range(runs):
        began = time.perf_counter()
        it = harness.probing("--store", lake, "query", "-f", "csv", "--since", "2026-08-01 07:00",
                             "--until", "2026-08-01 08:00", sql, env={"TZ": "UTC"}, timeout=300)
        took = time.perf_counter() - began
        assert it.returncode == 0, it.stderr
        best, rows = took if best is None else min(best, took), it.stdout
    return best, rows.splitlines()[1:]


def rows(quick):
    nodes, minutes = (1000, 6) if quick else (NODES, 60)
    folder = tempfile.mkdtemp(prefix="probing-fleet-")
    try:
        per_hour, took, peak = merged(folder, nodes)
        lake = os.path.join(folder, "day")
        files = day(lake, per_hour, nodes, minutes)
        yield ("lake: files of a day of %d nodes, %d tables" % (nodes, TABLES), "8,000",
               "%d" % files, "", files <= 8000,
               "an hour of a table: %d hand-overs, %.0f s of a core, %.0f MB"
               % (nodes * 4, took, peak))
        runs = 1 if quick else 3
        count = nodes * RANKS * minutes
        for view in ("slow_ranks", "comm_metrics", "training_logs"):
            sql = "SELECT count(*) FROM %s" % view
            if view == "slow_ranks":
                sql = "SELECT rank, late_ms, host FROM slow_ranks LIMIT 10"
            took, got = asked(lake, sql, runs)
            good = len(got) == 10 if view == "slow_ranks" else got == [str(count)]
            yield ("  %s, an hour of it, %d rows" % (view, count), "2 s", "%.2f s" % took,
                   "", good and took <= 2, "" if good else "wrong: %s" % got[:3])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
