"""
The numbers that the tool promises, measured beside its rivals on the same processes.

Run by `make bench`. --quick takes few runs, to see that everything works.
"""
import argparse
import importlib
import importlib.util
import os
import statistics
import sys
import tempfile

import gaps
import measure
import snapshots
from measure import harness


# In the order of the table; all but the first are modules with rows(quick).
PARTS = ["stacks", "inject", "eval", "startup", "store", "tables", "query", "history",
         "training", "torch_gpu", "comm", "flame", "truth", "page", "heap", "alloc", "crash",
         "web", "cluster", "fleet", "faults"]


class Table:
    """Rows as they come in: each is said at once, all are shown aligned at the end."""

    def __init__(self):
        self.rows = [("what", "at most", "probing", "rival", "verdict")]

    def add(self, what, bar, ours, theirs, good, note=""):
        verdict = "-" if good is None else "holds" if good else "MISSED"
        verdict += " (%s)" % note if note else ""
        self.rows.append((what, bar, ours, theirs, verdict))
        print("  %-44s %s  %s" % (what, ours, verdict), file=sys.stderr)

    def missed(self):
        return any(line[4].startswith("MISSED") for line in self.rows)

    def show(self):
        widths = [max(len(line[column]) for line in self.rows) for column in range(5)]
        for number, line in enumerate(self.rows):
            print(" | ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
            if number == 0:
                print("-|-".join("-" * width for width in widths))


def milliseconds(value):
    return "%.1f ms" % value


class Bench:
    def __init__(self, quick):
        self.tool, self.spy = measure.tool_path(), measure.spy_path()
        self.quick = quick
        self.runs = 3 if quick else 21
        self.rounds = 2 if quick else 20
        self.snapshots = 100 if quick else 10000
        self.python = sys.executable
        self.table = Table()
        self.row = self.table.add
        self.torch = importlib.util.find_spec("torch") is not None

    def script(self, name, *args):
        path = os.path.join(harness.TARGETS, name)
        return harness.Target([self.python, path] + [str(arg) for arg in args])

    def compare(self, what, target, ours, theirs, share):
        """One row: our time as a share of py-spy's on one process."""
        commands = {"probing": [self.tool, str(target.pid), "backtrace"] + ours}
        if self.spy:
            commands["py-spy"] = [self.spy, "dump", "--pid", str(target.pid)] + theirs
        times = measure.interleave(commands, self.runs)
        mine, other = times["probing"], times.get("py-spy")
        ratio = other and mine / other
        self.row(what, "1/%d of py-spy" % round(1 / share), milliseconds(mine),
                 milliseconds(other) if other else "not there",
                 ratio and ratio <= share, "1/%.1f" % (1 / ratio) if ratio else "")

    def compare_native(self, name, target):
        self.compare("backtrace -a -n, " + name, target, ["-a", "-n"], ["--native"], 1 / 10)
        self.complete("  complete stacks, " + name, target)

    def plain(self):
        small, crowd = self.script("simple.py"), self.script("many.py", 150)
        try:
            self.compare("backtrace, small process", small, [], [], 1 / 2)
            self.compare("backtrace -a, 150 threads", crowd, ["-a"], [], 1 / 2)
            self.compare_native("small process", small)
        finally:
            small.stop()
            crowd.stop()

    def with_torch(self):
        if not self.torch:
            self.row("torch rows", "", "torch is not installed", "", None)
            return
        folder = tempfile.TemporaryDirectory()
        train = self.script("torch_train.py")
        hang = self.script("gloo_hang.py", os.path.join(folder.name, "meet")).settle(30)
        try:
            self.compare("backtrace, torch training", train, [], [], 1 / 2)
            self.compare_native("torch training", train)
            self.pause("  pause of the running thread", train)
            self.compare_native("gloo hang", hang)
        finally:
            train.stop()
            hang.stop()
            folder.cleanup()

    def complete(self, what, target):
        """Every thread of the process, each down to its start, over many looks."""
        threads = whole = 0
        for _ in range(self.runs):
            found, good = snapshots.whole(self.tool, target.pid)
            threads, whole = threads + found, whole + good
            if found != len(os.listdir("/proc/%d/task" % target.pid)):
                threads += 1
        self.row(what, "all", "%d of %d" % (whole, threads), "", whole == threads)

    def pause(self, what, target):
        with measure.apart(target.pid):
            held = snapshots.pauses(self.tool, target.pid, self.runs * 10)
        if not held:
            self.row(what, "median 50 µs", "no pause was needed", "", None)
            return
        middle = statistics.median(held)
        self.row(what, "median 50 µs", "%.0f µs (max %.0f)" % (middle, max(held)), "",
                 middle < 50)

    def gap(self, what, mode, idle, options):
        commands = {"probing": lambda pid: [self.tool, str(pid), "backtrace"] + options}
        if self.spy:
            commands["py-spy"] = lambda pid: [self.spy, "dump", "--pid", str(pid)]
        found = gaps.measure(self.python, mode, idle, commands, 10, self.rounds)
        mine, bare = statistics.median(found["probing"]), found["bare"]
        limit = max(bare) if mode == "blocked" else 0.2
        good, note = mine <= limit, "bare %s" % gaps.show(bare)
        if not good and mode == "running" and statistics.median(bare) > limit:
            good, note = None, note + ": too much other load to tell"
        theirs = gaps.show(found["py-spy"]) if self.spy else "not there"
        self.row(what, "bare run's spread" if mode == "blocked" else "0.2 ms",
                 gaps.show(found["probing"]), theirs, good, note)

    def truth(self):
        busy = snapshots.Busy(self.python)
        try:
            for what, options in (("", []), (" --no-pause", ["--no-pause"])):
                tally = snapshots.take(self.tool, busy, self.snapshots, *options)
                share = 100 * tally.torn / tally.stacks
                theirs = self.spy_truth(busy) if options and self.spy else ""
                self.row("%d snapshots of 8 busy threads%s" % (tally.snapshots, what),
                         "0 wrong" + ("" if options else ", torn < 0.5 %"),
                         "%d wrong, %.3f %% torn" % (tally.wrong, share), theirs,
                         tally.wrong == 0 and (bool(options) or share < 0.5))
                for example in tally.examples[:5]:
                    print("    wrong: " + example, file=sys.stderr)
        finally:
            busy.stop()

    def spy_truth(self, busy):
        """py-spy's way without a stop, over fewer snapshots since each is a process."""
        tally = snapshots.take_spy(self.spy, busy, max(10, self.snapshots // 50))
        return "%.1f %% wrong, %.1f %% failed" % (100 * tally.wrong / tally.stacks,
                                                  100 * tally.torn / tally.stacks)

    def stacks(self):
        self.plain()
        self.with_torch()
        self.gap("longest gap, running thread", "running", 0, [])
        self.gap("longest gap, blocked thread", "blocked", 0, [])
        self.gap("longest gap, running, 150 idle threads", "running", 150, ["-a"])
        self.truth()

    def run(self, parts):
        for part in parts:
            if part == "stacks":
                self.stacks()
                continue
            for line in importlib.import_module(part).rows(self.quick):
                self.row(*line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    parser.add_argument("parts", nargs="*", metavar="PART", default=PARTS,
                        help="some of: " + ", ".join(PARTS))
    args = parser.parse_args()
    if set(args.parts) - set(PARTS):
        parser.error("no such part: %s" % ", ".join(sorted(set(args.parts) - set(PARTS))))
    bench = Bench(args.quick)
    print("tool: %s   runs: %d   python: %s" % (bench.tool, bench.runs, sys.version.split()[0]),
          file=sys.stderr)
    bench.run(args.parts)
    bench.table.show()
    return 1 if bench.table.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
