"""
What history costs: rows(quick) for the table of run.py.

A process writes 100,000 rows a second into a ring that holds less than a second of them; a node
brings them to disk. Then kills at random moments, hundreds of rounds of them.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

import measure

import interpreters  # noqa: E402  (measure puts its folder on the path)
import nodes  # noqa: E402
import numbering  # noqa: E402

RATE, RAW = 100000, 49
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    with open("/proc/%d/statm" % pid) as file:
        resident, shared = (int(word) * PAGE / 1e6 for word in file.read().split()[1:3])
    return resident - shared  # the rings, which it maps, are not its own


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICK


def watch(node, target, seconds):
    """Memory of the node once a second, and the share of a core it takes."""
    pid, memory = node.pid(), []
    before, began = cpu_seconds(pid), time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(1)
        memory.append(resident_mb(pid))
    share = 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)
    return memory, share


def flood(folder, quick):
    seconds = 30 if quick else 600
    node = nodes.Node(folder)
    node("serve")
    target = numbering.Numbers(interpreters.newest(), node, folder, rate=RATE)
    try:
        memory, share = watch(node, target, seconds)
        pace = target.written() / seconds
        written = target.halt()
        # Each number once: as many as there are, and they add up.
        row, = node.rows("SELECT count(*) AS c, sum(n)::VARCHAR AS s FROM python.numbers",
                         target=target.pid, timeout=300)
    finally:
        node.stop()  # seals the rest
        target.stop()
        shutil.rmtree("/dev/shm/probing-%d/%s" % (os.getuid(), target.id), ignore_errors=True)
    files = target.parts(node)
    size, sealed = sum(os.path.getsize(path) for path in files), target.sealed(node)
    third = max(len(memory) // 3, 1)
    first, last = max(memory[:third]), max(memory[-third:])
    yield ("%.0f,000 rows/s into files for %d s" % (pace / 1000, seconds), "nothing lost",
           "%d of %d rows" % (row["c"], written), "",
           row["c"] == written and int(row["s"]) == written * (written - 1) // 2
           and pace > 0.95 * RATE,
           "node: %.0f %% of a core" % share)
    yield ("  memory of the node, first and last third", "flat", "%.0f and %.0f MB" % (first, last),
           "", last <= 1.2 * first + 10, "")
    yield ("  bytes a row on disk", "fewer than raw", "%.1f" % (size / max(sealed, 1)),
           "%d raw" % RAW, size < RAW * sealed, "%d files" % len(files))


def kills(quick):
    """The end-to-end test with more rounds."""
    rounds = 12 if quick else 400
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_node_kill.py"],
        cwd=os.path.join(measure.ROOT, "tests", "e2e"), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=dict(os.environ, PROBING_BIN=measure.tool_path(),
                                           PROBING_KILL_ROUNDS=str(rounds)))
    if run.returncode:
        print(run.stdout.decode(errors="replace"), file=sys.stderr)
    yield ("kill -9 of node, target and tool, %d rounds" % rounds, "no row lost or doubled",
           "all well" if run.returncode == 0 else "failed", "", run.returncode == 0,
           "%.0f s" % (time.monotonic() - began))


def rows(quick):
    with tempfile.TemporaryDirectory(prefix="probing-bench-") as folder:
        yield from flood(folder, quick)
    yield from kills(quick)


if __name__ == "__main__":
    for line in rows("--quick" in sys.argv):
        print(" | ".join(str(cell) for cell in line))
