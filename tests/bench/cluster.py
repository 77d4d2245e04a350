"""
A cluster of 1,024 ranks: one real node asks, and one process (tests/targets/many_nodes.c) plays 128
others by the real protocol. What their engines would answer is made beforehand, since each has a
machine of its own; sending, receiving and putting together are measured.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import measure
from measure import harness

from many_nodes import TOKEN, Asker, Others  # noqa: E402  (measure puts its folder on the path)

NODES, RANKS_EACH, ROWS = 128, 8, 10_000_000
TARGET = """
import time
import probing
probing.enable()
calls = probing.table("calls", {"module": str, "ms": float})
calls.append("layer 0", 1.0)
steps = probing.table("steps", {"step": int, "loss": float})
steps.append(1, 0.5)
print("ready", flush=True)
time.sleep(100000)
"""
STACKS = """CREATE OR REPLACE VIEW python.folded_stacks AS
SELECT 'a' || k AS stack_hash, CASE k WHEN 0
THEN 7 ELSE 1 END::BIGINT AS processes, CASE k WHEN 0 THEN (8 * {i})::VARCHAR || '-' ||
(8 * {i} + 6) ELSE (8 * {i} + 7)::VARCHAR END AS ranks, 'f' AS func, 'x.py' AS file,
1::BIGINT AS lineno, list_aggregate(list_transform(range(30), lambda d: 'function_' || k || '_' ||
d || ' /srv/job/package/module_' || d || '.py:' || (100 + d)), 'string_agg', chr(10)) AS stack,
NULL::VARCHAR AS reason, 'sim-{i:03d}' AS host, NULL::BIGINT AS pid, NULL::BIGINT AS rank
FROM (VALUES (0), (1 + {i} % 3)) AS t(k)"""
CALLS = """CREATE OR REPLACE VIEW python.calls AS SELECT now() AS timestamp,
'layer ' || (n %% 97) AS module,
(hash(n * 1000 + {i}) %% 1000000) / 1000.0 AS ms, 'sim-{i:03d}' AS host, 100 + n %% 8 AS pid,
8 * {i} + n %% 8 AS rank FROM range(%d) AS t(n)""" % (ROWS // NODES)
STEPS = """CREATE OR REPLACE VIEW python.steps AS SELECT now() AS timestamp, n // 8 AS step,
(hash(n * 7 + {i}) % 1000) / 1000.0 AS loss, 'sim-{i:03d}' AS host, 100 + n % 8 AS pid,
8 * {i} + n % 8 AS rank FROM range(8 * 500) AS t(n)"""


class Measured(Asker):
    """What it costs."""

    def cost(self):
        """(CPU seconds, bytes on the wire)"""
        it = self("query", "--local", "-f", "csv",
                  "SELECT bytes FROM probing.cost WHERE what = 'cluster'")
        pid = self.server()
        with open("/proc/%d/stat" % pid) as file:
            words = file.read().rpartition(")")[2].split()
        cpu = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return cpu, int((it.stdout.split() + ["0", "0"])[1])  # no such row: it is in none

    def limit_mb(self):
        """What the kernel lets its data grow to."""
        with open("/proc/%d/limits" % self.server()) as file:
            return int(re.search(r"Max data size +(\d+)", file.read()).group(1)) / (1 << 20)

    def peak_mb(self):
        with open("/proc/%d/status" % self.server()) as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) / 1024


def timed(asker, others, words, runs):
    """(seconds of the fastest run, bytes on the wire, answer)"""
    asker.prepare(others, *words)
    best = None
    for _ in range(runs):
        before, began = asker.cost()[1], time.perf_counter()
        it = asker(*words, timeout=120)
        took = time.perf_counter() - began
        if best is None or took < best[0]:
            best = (took, asker.cost()[1] - before)
    return best + (it,)


def questions(asker, others, runs):
    took, wire, it = timed(asker, others, ["cluster", "backtrace", "--json"], runs)
    told = json.loads(it.stdout)
    whole = told["processes"] == 8 * NODES and not told["partial"] and len(told["classes"]) == 4
    yield ("cluster: stacks of 1,024 ranks folded", "2 s", "%.2f s" % took, "",
           whole and took <= 2, "" if whole else "not all: %s" % it.stderr.strip())
    yield ("  bytes at the asker", "200 KB", "%.0f KB (%.0f KB with what it sent)"
           % (told["bytes"] / 1e3, wire / 1e3), "", told["bytes"] <= 200e3)
    sql = ("SELECT module, count(*) AS n, avg(ms) AS mean, quantile_cont(ms, 0.99) AS p99 FROM "
           "python.calls WHERE host LIKE 'sim-%' GROUP BY module ORDER BY module")
    took, wire, it = timed(asker, others, ["cluster", "query", "-f", "json", sql], runs)
    rows = json.loads(it.stdout or "[]")
    whole = it.returncode == 0 and len(rows) == 97 and sum(
        row["n"] for row in rows) == ROWS // NODES * NODES
    yield ("  count, avg, p99 by module, 10 M rows", "3 s", "%.2f s, %.0f MB" % (took, wire / 1e6),
           "", whole and took <= 3, "" if whole else it.stderr.strip())
    sql = ("SELECT rank, step, loss FROM python.steps WHERE host LIKE 'sim-%' QUALIFY row_number() "
           "OVER (PARTITION BY rank ORDER BY step DESC) = 1 ORDER BY rank")
    took, wire, it = timed(asker, others, ["cluster", "query", "-f", "json", sql], runs)
    rows = json.loads(it.stdout or "[]")
    whole = it.returncode == 0 and [row["rank"] for row in rows] == list(range(8 * NODES))
    yield ("  last step of each rank", "1 s", "%.2f s, %.1f MB" % (took, wire / 1e6), "",
           whole and took <= 1, "" if whole else it.stderr.strip())
    peak, limit = asker.peak_mb(), asker.limit_mb()
    yield ("  memory of the asking node", "%.0f MB, its limit" % limit, "%.0f MB" % peak, "",
           peak <= limit)
    yield gaps(asker, others, sql)


def gaps(asker, others, sql):
    """One hung, one gone, one slow."""
    modes = {3: "hang", 50: "gone", 100: "slow"}
    for number, mode in modes.items():
        others.mode(number, mode)
    began = time.perf_counter()
    it = asker("cluster", "query", "--timeout", "5", "-f", "json", sql, timeout=60)
    took = time.perf_counter() - began
    for number in modes:
        others.mode(number, None)
    rows = json.loads(it.stdout or "[]")
    rest = [n for n in range(8 * NODES) if n // 8 not in modes]
    whole = it.returncode == 6 and [row["rank"] for row in rows] == rest and all(
        "sim-%03d" % number in it.stderr for number in modes)
    return ("  one hung, one gone, one slow, --timeout 5", "5 s, named", "%.2f s" % took, "",
            whole and took <= 5.5, "" if whole else it.stderr.strip())


def idle(quick):
    """What belonging to a cluster of 1,024 costs: with it less without it."""
    folder = tempfile.mkdtemp(prefix="probing-cluster-")
    seconds = 20 if quick else 120
    asker = Measured(os.path.join(folder, "node"), PROBING_TOKEN=TOKEN)
    others = Others(folder, 1023, 18000, asker="127.0.0.1:17707")
    try:
        asker("serve")
        time.sleep(5)
        before = asker.cost()
        time.sleep(seconds)
        alone = asker.cost()[0] - before[0]
        asker.attach(others, "127.0.0.1:17707")
        time.sleep(15)
        before = asker.cost()
        time.sleep(seconds)
        after = asker.cost()
        share = 100 * (after[0] - before[0] - alone) / seconds
        rate = (after[1] - before[1]) / seconds
        yield ("cluster: idle node among 1,024", "0.2 % of a core", "%.2f %% more" % share, "",
               share <= 0.2)
        yield ("  bytes a second", "2 KB", "%.2f KB" % (rate / 1e3), "", rate <= 2e3)
    finally:
        others.stop()
        asker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def rows(quick):
    folder = tempfile.mkdtemp(prefix="probing-cluster-")
    asker = Measured(os.path.join(folder, "node"), PROBING_TOKEN=TOKEN)
    others = Others(folder, NODES, 18000, [STACKS, CALLS, STEPS])
    target = subprocess.Popen(
        [measure.tool_path(), "run", sys.executable, "-c", TARGET], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, env=dict(harness.ENV, **asker.env),
        preexec_fn=harness.die_with_parent)
    try:
        assert target.stdout.readline().strip().endswith(b"ready")
        asker.attach(others, "127.0.0.1:17707")
        for line in questions(asker, others, 1 if quick else 5):
            yield line
    finally:
        others.stop()
        target.kill()
        target.wait()
        asker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for line in idle(quick):
        yield line
