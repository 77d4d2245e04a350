"""
What SQL costs: rows(quick) for the table of run.py.

The rival is the original tool from the package index (see eval.py) on a process with a table of
its own with as many rows; it runs its queries inside that process.
"""
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import eval as evaluation
import measure
from measure import harness

GROUP = "SELECT name, count(*), avg(value) FROM %s GROUP BY name"
# Of this run alone: what an earlier one left behind does not count.
TABLE = "python.bench_%d" % os.getpid()
HEAVY = ("SELECT count(*), sum(a.value * b.number) FROM {0} a JOIN {0} b ON a.name = b.name "
         "WHERE a.number < 20000 AND b.number < 20000").format(TABLE)
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


class Node:
    """A node with a data folder of its own; every command of the tool meets it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="probing-bench-")
        self.tool = measure.tool_path()
        harness.ENV["PROBING_HOME"] = self.folder
        harness.ENV.pop("PROBING_TARGET", None)

    def ask(self, sql, *words, options=()):
        run = subprocess.run([self.tool] + [str(word) for word in words]
                             + ["query", *options, "-f", "json", sql], env=harness.ENV, check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return json.loads(run.stdout.decode())

    def inside(self, sql, runs, *words, options=()):
        """Median milliseconds that the node itself takes."""
        took = []
        for _ in range(runs):
            run = subprocess.run([self.tool, "-v", *words, "query", *options, sql], env=harness.ENV,
                                 check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            took.append(float(run.stderr.decode().split(" rows, ")[1].split()[0]))
        return statistics.median(took)

    def command(self, sql, *words):
        return [self.tool] + [str(word) for word in words] + ["query", sql]

    def pid(self):
        """The server: a child of the process that holds the lock of the data folder."""
        with open("/proc/locks") as file:
            held = {line.split()[5].split(":")[2]: int(line.split()[4]) for line in file}
        lock = os.path.join(self.folder, "node-%s.lock" % socket.gethostname())
        pid = held[str(os.stat(lock).st_ino)]
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return int(file.read().split()[0])

    def stop(self):
        subprocess.run([self.tool, "serve", "--stop"], env=harness.ENV, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        del harness.ENV["PROBING_HOME"]


def filler(folder):
    """A program that writes rows into a ring as fast as they go."""
    source = os.path.join(measure.ROOT, "src")
    path = os.path.join(folder, "ring_fill")
    parts = [os.path.join(source, "base", name) for name in os.listdir(os.path.join(source, "base"))
             if name.endswith(".c")]
    parts += [os.path.join(source, "store", name) for name in ("create.c", "file.c", "writer.c")]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE=", "-I" + source, "-o", path,
                    os.path.join(measure.HERE, "ring_fill.c")] + parts, check=True)
    return path


def store_of(target):
    return "/dev/shm/probing-%d/%d-%d" % (os.getuid(), target.pid, target.extra[0])


def verdict(ours, bar, theirs=None, times=1):
    good = ours <= bar and (theirs is None or ours * times <= theirs)
    return good, "1/%.0f" % (theirs / ours) if theirs else "no original to compare with"


def warm_and_cold(node, rival, quick):
    """`query "select 1"`: the node is there; the node has to start."""
    theirs = evaluation.target(rival[0], "idle", {"PROBING": "1"}) if rival else None
    commands = {"ours": node.command("select 1")}
    try:
        if theirs:
            time.sleep(1)  # its server starts in the background
            commands["theirs"] = [rival[1], "-t", str(theirs.pid), "query", "select 1"]
        found = measure.interleave(commands, 5 if quick else 41)
    finally:
        if theirs:
            theirs.stop()
    other = found.get("theirs")
    good, note = verdict(found["ours"], 5, other, 5)
    yield ('query "select 1", warm', "5 ms, 1/5 of the original", "%.1f ms" % found["ours"],
           "%.1f ms" % other if other else "", good, note)
    cold = []
    for _ in range(3 if quick else 11):
        node.stop()
        cold.append(measure.once(node.command("select 1")))
    middle = statistics.median(cold)
    yield ('query "select 1", starts the node', "150 ms", "%.0f ms" % middle, "", middle <= 150, "")


def original_group(rival, count, runs):
    """Milliseconds end to end of the same question to the original."""
    script = os.path.join(harness.TARGETS, "original_table.py")
    try:
        target = harness.Target([rival[0], script, str(count)], env={"PROBING": "1"})
    except AssertionError:
        return None  # it cannot do it
    try:
        command = [rival[1], "-t", str(target.pid), "query", GROUP % "python.bench"]
        return measure.interleave({"theirs": command}, runs)["theirs"]
    except RuntimeError:
        return None
    finally:
        target.stop()


def in_rings(node, fill, rival, quick):
    """As many processes as it takes so that none has enough rows for the history yet."""
    count, room, processes, runs = 1000000, 1 << 19, 5, 3 if quick else 11
    rows = "%d/%d" % (count // processes, room)
    targets = []
    try:
        targets += [harness.Target([fill, TABLE, rows]) for _ in range(processes)]
        pids = ",".join(str(target.pid) for target in targets)
        found = node.ask("SELECT count(*) AS n FROM " + TABLE, pids)
        if found != [{"n": count}]:
            raise RuntimeError("%r of %d rows are seen" % (found, count))
        inside = node.inside(GROUP % TABLE, runs, pids)
        end = measure.interleave({"ours": node.command(GROUP % TABLE, pids)}, runs)["ours"]
        if os.path.exists(os.path.join(node.folder, "lake", TABLE)):
            raise RuntimeError("rows went into files")
    finally:
        for target in targets:
            target.stop()
            shutil.rmtree(store_of(target), ignore_errors=True)
    theirs = original_group(rival, count, runs) if rival else None
    good, note = verdict(inside, 25)
    yield ("GROUP BY over 1 M rows in rings", "25 ms", "%.1f ms" % inside, "", good,
           "%d processes" % processes)
    good, note = verdict(end, 1e9, theirs, 10)
    yield ("  from the shell", "1/10 of the original", "%.1f ms" % end,
           "%.0f ms" % theirs if theirs else "", good, note)


def in_files(node, fill, quick):
    """Processes that fill a ring and end, one after the other; the node seals what they leave."""
    parts, runs, table = (1 if quick else 10), (3 if quick else 11), TABLE + "_files"
    for number in range(parts):
        process = subprocess.Popen([fill, table, str(1 << 20), "leave"], stdout=subprocess.PIPE)
        words = process.communicate()[0].decode().split()
        end, rows = time.time() + 120, (number + 1) << 20
        while not sealed(node, table, words[1]) and time.time() < end:
            found = node.ask("SELECT count(*) AS n FROM " + table, options=["--dead"])[0]["n"]
            if found != rows:
                raise RuntimeError("%d of %d rows are seen" % (found, rows))
            time.sleep(0.2)
        shutil.rmtree("/dev/shm/probing-%d/%s-%s" % (os.getuid(), words[1], words[2]),
                      ignore_errors=True)
    found = node.ask("SELECT count(*) AS n FROM " + table, options=["--dead"])[0]["n"]
    inside = node.inside(GROUP % table, runs, options=["--dead"])
    bar = 300 * parts / 10
    yield ("GROUP BY over %.0f M rows in files" % (parts * 1.05), "%.0f ms" % bar,
           "%.0f ms" % inside, "", inside <= bar and found == parts << 20,
           "" if found == parts << 20 else "%d rows lost" % ((parts << 20) - found))


def sealed(node, table, pid):
    """Are all rows of the ended process in files?"""
    total = 0
    for folder, _, files in os.walk(os.path.join(node.folder, "lake", table)):
        if os.path.basename(folder).startswith("process=%s-" % pid):
            for name in files:
                words = name.rsplit(".", 1)[0].split("-")
                if name.startswith("part-"):
                    total += int(words[-1]) - int(words[-2]) + 1
    return total == 1 << 20


def stacks(node, quick):
    script = os.path.join(harness.TARGETS, "many.py")
    targets = [harness.Target([sys.executable, script, "19"]) for _ in range(8)]
    try:
        pids = ",".join(str(target.pid) for target in targets)
        sql = "SELECT * FROM python.stacks"
        threads = node.ask("SELECT count(DISTINCT tid) AS n FROM python.stacks", pids)[0]["n"]
        took = node.inside(sql, 5 if quick else 21, pids)
        yield ("python.stacks, 8 processes of 20 threads", "30 ms", "%.1f ms" % took, "",
               took <= 30 and threads == 160, "%d threads" % threads)
        yield at_rest(node, 3 if quick else 15)
    finally:
        for target in targets:
            target.stop()


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICK


def resident_mb(pid):
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * PAGE / 1e6


def at_rest(node, seconds):
    """With the eight processes there, nobody asks."""
    pid, end = node.pid(), time.time() + 20
    while time.time() < end and busy_share(pid, 1) > 3:
        pass  # it seals what ended processes of earlier tests left behind
    share = busy_share(pid, seconds)
    with open("/proc/%d/status" % pid) as file:
        sizes = dict(line.split(":", 1) for line in file)
    rings = int(sizes["RssShmem"].split()[0]) / 1000
    resident = int(sizes["VmRSS"].split()[0]) / 1000 - rings
    return ("node at rest, 8 processes", "1 % of a core, 80 MB",
            "%.2f %%, %.0f MB" % (share, resident), "", share <= 1 and resident <= 80,
            "and %.0f MB of others' rings" % rings)


def busy_share(pid, seconds):
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / seconds


def slowdown(node, fill, quick):
    """A target that computes, alone and while a query that takes long runs beside it."""
    count, rounds = 1 << 20, 4 if quick else 12
    ring = harness.Target([fill, TABLE, str(count)])
    probed = evaluation.target(sys.executable, "idle")
    took = {False: [], True: []}
    try:
        subprocess.run([node.tool, str(probed.pid), "inject"], env=harness.ENV, check=True,
                       stdout=subprocess.DEVNULL)
        before = resident_mb(probed.pid)
        with measure.apart(probed.pid):
            pin_node(node)
            for number in range(rounds):
                busy = bool(number % 2)
                query = subprocess.Popen(node.command(HEAVY), env=harness.ENV,
                                         stdout=subprocess.DEVNULL) if busy else None
                took[busy].append(work(node, probed.pid))
                if query:
                    query.terminate()
                    query.wait()
        grown = resident_mb(probed.pid) - before
    finally:
        probed.stop()
        ring.stop()
        shutil.rmtree(store_of(ring), ignore_errors=True)
    alone, beside = (statistics.median(took[busy]) for busy in (False, True))
    spread = max(took[False]) - min(took[False])
    share = 100 * (beside / alone - 1)
    yield ("target while a heavy query runs", "within a bare run's spread", "%+.1f %%" % share,
           "", beside - alone <= max(spread, 0.02 * alone), "bare %.0f ± %.0f ms" % (alone, spread))
    yield ("  its resident memory", "unchanged", "%+.1f MB" % grown, "", grown < 2, "")


def pin_node(node):
    """The node on the CPUs of the tool: what is to be seen is no fight for one CPU."""
    node.ask("select 1")
    for tid in os.listdir("/proc/%d/task" % node.pid()):
        os.sched_setaffinity(int(tid), os.sched_getaffinity(0))


def work(node, pid):
    """Milliseconds of a fixed piece of work in the target's own main thread."""
    code = ("import time as t\nb = t.perf_counter()\nx = 0\nfor i in range(3000000): x += i\n"
            "print((t.perf_counter() - b) * 1000)")
    run = subprocess.run([node.tool, str(pid), "eval", "--main", code], env=harness.ENV,
                         check=True, stdout=subprocess.PIPE)
    return float(run.stdout)


def rows(quick):
    rival = evaluation.original()
    with tempfile.TemporaryDirectory() as folder:
        fill = filler(folder)
        parts = [lambda node: warm_and_cold(node, rival, quick),
                 lambda node: in_rings(node, fill, rival, quick),
                 lambda node: in_files(node, fill, quick), lambda node: stacks(node, quick),
                 lambda node: slowdown(node, fill, quick)]
        for part in parts:
            node = Node()
            try:
                yield from part(node)
            finally:
                node.close()


if __name__ == "__main__":
    for row in rows("--quick" in sys.argv):
        print(" | ".join(str(cell) for cell in row))
