"""
Whether a profile is right: shares against what the program itself has measured, torn samples, C
stacks that reach their start; what sampling all the time costs, and how much it keeps.
"""
import glob
import importlib.util
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import measure
from measure import harness

import nodes  # noqa: E402  (measure puts its folder on the path)
import plain_engine  # noqa: E402
import querying  # noqa: E402

NAMES = ["parse", "merge", "order", "pack", "nap", "poll", "outer", "inner", "lock", "join"]
THREADS = 5
RATE = 100
HOURS = 48


def record(pid, path, seconds, *options):
    """(stacks as {tuple of functions: share of the time}, what was said)."""
    answer = subprocess.run([measure.tool_path(), str(pid), "flamegraph", "-d", str(seconds), "-i",
                             "-F", "-f", "collapsed", "-o", path] + list(options),
                            stdout=subprocess.PIPE, env=harness.ENV, check=True)
    stacks = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            frames, _, us = line.rstrip("\n").rpartition(" ")
            stacks[tuple(frames.split(";"))] = int(us)
    whole = sum(stacks.values())
    return {frames: us / whole for frames, us in stacks.items()}, answer.stdout.decode()


def number(said, what):
    found = re.search(r"([\d,]+) " + what, said)
    return int(found.group(1).replace(",", "")) if found else 0


def clock(path):
    with open(path, "rb") as file:
        return struct.unpack("%dd" % (len(NAMES) + 1), file.read())


def furthest(before, after, stacks):
    """The largest distance of a share from what the program says, by own and by total time."""
    whole = THREADS * (after[-1] - before[-1])
    true = dict(zip(NAMES, ((late - soon) / whole for soon, late in zip(before, after))))
    own = dict(true, outer=true["outer"] - true["inner"])
    off = []
    for name in NAMES:
        label = re.compile(re.escape(name) + r" \(")
        total = sum(share for frames, share in stacks.items() if any(map(label.match, frames)))
        leaf = sum(share for frames, share in stacks.items() if label.match(frames[-1]) or (
            # the standard library's own lines below it
            name == "poll" and any(map(label.match, frames))))
        off += [abs(total - true[name]), abs(leaf - own[name])]
    return 100 * max(off)


def truth(folder, quick):
    path = os.path.join(folder, "clock")
    with open(path, "wb") as file:
        file.write(bytes(8 * len(NAMES) + 8))
    target = harness.Target([sys.executable, os.path.join(harness.TARGETS, "known_shares.py"),
                             path])
    seconds = 8 if quick else 20
    try:
        time.sleep(1)
        before = clock(path)
        stacks, said = record(target.pid, path + ".folded", seconds, "-t", "^part-", "-r",
                              str(RATE))
        off = furthest(before, clock(path), stacks)
    finally:
        target.stop()
    samples, torn = number(said, "samples"), number(said, "torn")
    yield ("ten functions in five threads, %d samples" % samples, "1 point off",
           "%.2f points" % off, "", off <= 1)
    yield ("  torn samples", "0.1 %", "%.3f %%" % (100 * torn / samples), "",
           torn <= samples / 1000)


def starts(frames):
    return any(word in frames[0] for word in ("start", "clone", "libc.so"))


def with_torch(folder, quick):
    if not importlib.util.find_spec("torch"):
        yield ("flamegraph -n of a torch training", "", "torch is not installed", "", None)
        return
    train = harness.Target([sys.executable, os.path.join(harness.TARGETS, "torch_train.py")])
    node = nodes.Node(folder)
    try:
        stacks, said = record(train.pid, os.path.join(folder, "native"), 5 if quick else 30, "-n")
        whole = sum(share for frames, share in stacks.items() if starts(frames))
        yield ("flamegraph -n of a torch training, whole stacks", "99 %", "%.2f %%" % (100 * whole),
               "", whole >= 0.99, "%d samples" % number(said, "samples"))
        yield from always(node, train, 10 if quick else 60)
    finally:
        node.stop()
        train.stop()


def spent(node):
    row, = node.rows("SELECT sum(cpu_ms) AS ms FROM probing.cost WHERE what = 'python.samples'")
    return row["ms"] or 0


def always(node, train, seconds):
    node(train.pid, "inject", "-P")
    time.sleep(8)  # opening the process is not what sampling costs
    before, began = spent(node), time.monotonic()
    time.sleep(seconds)
    share = (spent(node) - before) / (time.monotonic() - began) / 10
    yield ("  sampled all the time, of a core", "0.5 %", "%.2f %%" % share, "", share <= 0.5)


def keeping(folder, quick):
    """What a busy thread at 100 Hz leaves on disk in so many seconds, and that in two days."""
    seconds = 60 if quick else 600
    node = nodes.Node(folder)
    target = harness.Target([sys.executable, os.path.join(harness.TARGETS, "shares.py")])
    try:
        node(target.pid, "inject", "-P", "-D", "profile.rate=%d" % RATE)
        time.sleep(seconds + 3)
        node.stop()  # seals the rest
        row, = node.rows("SELECT count(*) AS n, sum(weight_ms) / 1000 AS secs FROM python.samples "
                         "WHERE tid = pid", target.pid)
        node.stop()
    finally:
        node.stop()
        target.stop()
    # Samples go on; the frames of a stack are written once a day.
    size, frames = (sum(map(os.path.getsize, glob.glob(os.path.join(
        node.home, "**", "python." + table, "**", "*.parquet"), recursive=True)))
        for table in ("samples", "stack_frames"))
    mb = (size / row["secs"] * HOURS * 3600 + frames * HOURS / 24) / 1e6
    yield ("%d h of one busy thread at %d Hz" % (HOURS, RATE), "20 MB", "%.1f MB" % mb, "",
           mb <= 20, "from %.0f s: %d rows, %d bytes" % (row["secs"], row["n"], size))
    yield from pages(node, target.pid, row["secs"], quick)


def parts(node, table):
    return glob.glob(os.path.join(node.home, "**", "python." + table, "**", "part-*.parquet"),
                     recursive=True)


def make_older(node, pid, when):
    """
    The process has left nothing but rows of then. It began later by the present boot's clock, so
    it is one of an earlier boot, and samples may be as old as they like.
    """
    querying.forget(pid)
    for path in glob.glob(os.path.join(node.home, "**", "process=%d-*" % pid, "part-*.parquet"),
                          recursive=True):
        os.utime(path, (when, when))


def repeat(node, pid, secs):
    """What was recorded again and again, back to HOURS ago, a file an hour as nodes have them."""
    samples, frames = parts(node, "samples"), parts(node, "stack_frames")
    where = os.path.dirname(samples[0])
    read = "read_parquet(%r, hive_partitioning = false)"
    begin, = plain_engine.first_row("SELECT min(epoch_us(timestamp)) FROM " + read % samples)
    make_older(node, pid, begin / 1e6 - 60)
    times = int(3600 // secs)
    for hour in range(1, HOURS + 1):
        first = begin - hour * 3600 * 10**6
        day = time.strftime("%Y-%m-%d", time.gmtime(first / 1e6))
        folder = re.sub(r"date=[\d-]+", "date=" + day, where)
        os.makedirs(folder, exist_ok=True)
        plain_engine.first_row(
            "COPY (SELECT s.* REPLACE (timestamp - INTERVAL %d HOUR + to_microseconds(n * %d) AS "
            "timestamp, n * 1000000 + _row AS _row) FROM %s AS s, range(%d) AS r(n) ORDER BY n, "
            "_row) TO '%s/part-%d-0-%d.parquet' (FORMAT parquet, COMPRESSION zstd)" %
            (hour, secs * 1e6, read % samples, times, folder, first * 1000, times * 1000000))
        folder = folder.replace("python.samples", "python.stack_frames")
        if not os.path.exists(folder):
            os.makedirs(folder)
            plain_engine.first_row(
                "COPY (SELECT * REPLACE (timestamp - INTERVAL %d HOUR AS timestamp) FROM %s) TO "
                "'%s/part-%d-0-999999.parquet' (FORMAT parquet, COMPRESSION zstd)" %
                (hour, read % frames, folder, first * 1000))


def pages(node, pid, secs, quick):
    """The page of some hours of two days, from the command to the file."""
    repeat(node, pid, secs)
    took, path = [], os.path.join(node.home, "hour.html")
    try:
        node("serve")
        whole, = node.rows("SELECT sum(weight_ms) / 3600000 AS hours FROM python.samples WHERE "
                           "tid = pid", pid)
        for hour in (1, 24, 47) if quick else range(1, HOURS):
            began = time.perf_counter()
            answer = node(pid, "flamegraph", "--from", "%dh" % (hour + 1), "--to", "%dh" % hour,
                          "-o", path)
            took.append(time.perf_counter() - began)
            assert answer.returncode == 0, answer.stderr
    finally:
        node.stop()
    yield ("  the page of an hour of %.0f" % whole["hours"], "1 s",
           "%.2f s" % statistics.median(took), "", max(took) <= 1, "at most %.2f s" % max(took))


def rows(quick):
    for part in (truth, with_torch, keeping):
        with tempfile.TemporaryDirectory() as folder:
            yield from part(folder, quick)


if __name__ == "__main__":
    for found in rows("--quick" in sys.argv):
        print(*found, sep=" | ")
