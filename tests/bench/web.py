"""
The page in a real browser: rows(quick) for the table of run.py.

What it weighs, how soon it shows something, what it costs while 64 ranks train (real ones, a step a
second each), and a million rows in the SQL page. Times of the page are the browser's own clock; CPU
is that of the main thread and of the node's processes, so that other load does not count.
"""
import concurrent.futures
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import measure
from measure import harness

import browsing  # noqa: E402  (measure puts its folder on the path)
import nodes  # noqa: E402

RANKS, ROWS = 64, 1000000
TICK = os.sysconf("SC_CLK_TCK")
PAGES = ("overview", "process", "training", "modules", "flame", "communication", "memory", "sql",
         "console", "system")
# In the page, before its own scripts: when there is a row of a table, and tasks that take long.
NOTE = """await page.addInitScript(() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
        for (const task of list.getEntries()) window.longest = Math.max(longest, task.duration);
    }).observe({ type: "longtask", buffered: true });
    new MutationObserver((_, observer) => {
        if (!document.querySelector("#main tbody td")) return;
        observer.disconnect();
        requestAnimationFrame(() => { window.useful = performance.now(); });
    }).observe(document, { childList: true, subtree: true });
})"""
# Bytes of the files of the page that came over the wire, each once; answers of the node are none.
WEIGHT = """performance.getEntriesByType("resource").concat(performance.getEntriesByType(
    "navigation")).filter((e) => !e.name.includes("/api/")).reduce((seen, e) =>
    seen.set(e.name.split("#")[0], e.encodedBodySize), new Map()).values().reduce(
    (a, b) => a + b, 0)"""
METRICS = """const client = context.client ??= await context.newCDPSession(page);
    if (!context.ready) await client.send("Performance.enable", { timeDomain: "threadTicks" });
    context.ready = true;
    if (args.collect) await client.send("HeapProfiler.collectGarbage");
    const { metrics } = await client.send("Performance.getMetrics");
    return Object.fromEntries(metrics.map((m) => [m.name, m.value]));"""


class Ranks:
    """tests/targets/torch_many.py, probed."""

    def __init__(self, node, count):
        self.node = node
        script = os.path.join(harness.TARGETS, "torch_many.py")
        self.process = subprocess.Popen(
            [sys.executable, script, str(count)], stdout=subprocess.PIPE, encoding="utf-8",
            env=dict(harness.ENV, OMP_NUM_THREADS="1"), preexec_fn=harness.die_with_parent)
        self.pids = []
        for _ in range(count):
            found = re.match(r"rank \d+ is process (\d+)", self.process.stdout.readline())
            self.pids.append(int(found.group(1)))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(self.inject, self.pids))

    def inject(self, pid):
        """A machine that has much to do may need more than one try."""
        for left in (2, 1, 0):
            answer = self.node(pid, "inject")
            if answer.returncode == 0:
                return
            assert left, answer

    def wait(self, seconds=120):
        """Until each of them has written some steps."""
        end = time.time() + seconds
        while True:
            found = self.node.rows("SELECT count(*) AS n FROM (SELECT pid FROM "
                                   "python.training_logs GROUP BY pid HAVING count(*) > 5)")
            if found[0]["n"] >= len(self.pids):
                return
            assert time.time() < end, found
            time.sleep(1)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def family(pid):
    """The process and all below it."""
    found = [pid]
    for each in found:
        for tid in os.listdir("/proc/%d/task" % each):
            with open("/proc/%d/task/%s/children" % (each, tid)) as file:
                found += [int(word) for word in file.read().split()]
    return found


def cpu_seconds(pid):
    total = 0
    for each in family(pid):
        with open("/proc/%d/stat" % each) as file:
            words = file.read().rpartition(")")[2].split()
        total += (int(words[11]) + int(words[12])) / TICK
    return total


def address(node):
    answer = node("web", "--no-browser")
    assert answer.returncode == 0, answer
    return answer.stdout.strip()


class Opened:
    """A window of its own, signed in."""

    def __init__(self, browser, node):
        self.page = browser.page()
        self.page.run(NOTE)
        self.page.open(address(node))
        self.page.wait("window.useful")

    def metrics(self, collect=False):
        return self.page.run(METRICS, collect=collect)


def opening(browser, node, quick):
    """Cold: each time a browser that has nothing of the page."""
    times, first = [], 0
    for _ in range(5 if quick else 21):
        it = Opened(browser, node)
        times.append(it.page.js("window.useful"))
        first = it.page.js(WEIGHT)
        it.page.check()
        it.page.close()
    middle = statistics.median(times)
    yield ("first view of the page, compressed", "80 KB", "%.1f KB" % (first / 1024), "",
           first <= 80 * 1024, "")
    yield ("open to a table with its rows, cold", "300 ms", "%.0f ms" % middle, "", middle <= 300,
           "%.0f to %.0f of %d" % (min(times), max(times), len(times)))


def everything(browser, node):
    """Every page once: its weight, and what it asks of others."""
    it = Opened(browser, node)
    for name in PAGES:
        it.page.go("#/" + name)
        it.page.wait("document.querySelector('#main').innerText.length > 20")
        it.page.run("await page.waitForTimeout(1000)")
    weight, report = it.page.js(WEIGHT), it.page.report()
    foreign = [r for r in report["requests"] if not r.split(" ", 1)[1].startswith(it.page.origin)]
    counts = len(foreign), len(report["console"] + report["errors"]), len(report["policy"])
    it.page.close()
    yield ("all pages, compressed", "400 KB", "%.1f KB" % (weight / 1024), "",
           weight <= 400 * 1024, "")
    yield ("foreign requests, console errors, CSP reports", "0, 0, 0", "%d, %d, %d" % counts, "",
           counts == (0, 0, 0), "")


def watching(browser, node, name, seconds):
    """One page, open while the ranks train."""
    it, pid = Opened(browser, node), node.pid()
    it.page.go("#/" + name)
    it.page.wait("document.querySelectorAll('#main canvas, #main svg').length > 2", 60)
    time.sleep(10)
    before, heap = it.metrics(True), []
    began, spent, reading = time.monotonic(), cpu_seconds(pid), 0
    while time.monotonic() - began < seconds:
        time.sleep(5)
        # Collecting garbage is work of the measurement, not of the page.
        idle = it.metrics()
        heap.append(it.metrics(True)["JSHeapUsedSize"] / 1e6)
        reading += it.metrics()["TaskDuration"] - idle["TaskDuration"]
    took = time.monotonic() - began
    main = 100 * (it.metrics()["TaskDuration"] - before["TaskDuration"] - reading) / took
    load = 100 * (cpu_seconds(pid) - spent) / took
    it.page.check()
    it.page.close()
    third = max(len(heap) // 3, 1)
    first, last = statistics.median(heap[:third]), statistics.median(heap[-third:])
    what = "%s, %d ranks, %d s" % (name, RANKS, took)
    yield (what + ": memory", "flat", "%.1f and %.1f MB" % (first, last), "",
           last <= 1.1 * first + 2, "median of the first and of the last third")
    yield ("  main thread", "10 % of a core", "%.1f %%" % main, "", main <= 10, "")
    yield ("  node, all it does", "5 % of a core", "%.1f %%" % load, "", load <= 5, "")


def unwatched(node, seconds):
    """The same node, and nobody looks: what sampling and history alone take."""
    pid = node.pid()
    began, spent = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    load = 100 * (cpu_seconds(pid) - spent) / (time.monotonic() - began)
    yield ("node with %d ranks, no page open" % RANKS, "", "%.1f %%" % load, "", None, "")


def million(browser, node, quick):
    """From Enter to the first rows on the screen; then all of them, and the end of them."""
    firsts, alls, longest, last = [], [], 0, ""
    for number in range(2 if quick else 7):
        it = Opened(browser, node)
        it.page.go("#/sql?n=%d" % ROWS)
        it.page.wait("document.querySelector('.editor')")
        it.page.run("await page.waitForTimeout(1000)")
        took = it.page.run("""return page.evaluate((sql) => new Promise((done) => {
            const began = performance.now(), found = {};
            window.longest = 0;
            const look = () => {
                const said = document.querySelector(".sql-main [role=status]")?.innerText ?? "";
                if (!found.first && document.querySelector(".result-row"))
                    found.first = performance.now() - began;
                if (/rows in /.test(said)) done({ ...found, all: performance.now() - began, said });
                else requestAnimationFrame(look);
            };
            location.hash = "#/sql?n=%d&q=" + encodeURIComponent(sql);
            look();
        }), args.sql)""" % ROWS, 120, sql="SELECT i, i * %d AS n, 'row ' || i AS name FROM "
                           "range(%d) AS r(i)" % (number + 2, ROWS))
        firsts.append(took["first"])
        alls.append(took["all"])
        it.page.wait("(document.querySelector('.result').scrollTop = 1e9, "
                     "[...document.querySelectorAll('.result-row .result-number')].at(-1)"
                     "?.innerText)")
        longest = max(longest, it.page.js("window.longest"))
        it.page.run("await page.waitForTimeout(300)")
        last = it.page.js("[...document.querySelectorAll('.result-row .result-number')].at(-1)"
                          ".innerText.replaceAll(',', '')")
        it.page.check()
        it.page.close()
    first = statistics.median(firsts)
    yield ("1 M rows in the SQL page: first rows", "200 ms", "%.0f ms" % first, "", first <= 200,
           "all in %.1f s" % (statistics.median(alls) / 1000))
    yield ("  longest time without an answer to a key", "200 ms", "%.0f ms" % longest, "",
           longest <= 200, "")
    yield ("  scrolls to the last row", "%d" % ROWS, last, "", last == str(ROWS), "")


def rows(quick):
    missing = browsing.missing()
    if missing:
        yield ("the page", "", missing, "", None, "")
        return
    with tempfile.TemporaryDirectory() as folder:
        node, browser = nodes.Node(folder), browsing.Browser()
        ranks = None
        try:
            address(node)
            ranks = Ranks(node, RANKS)
            ranks.wait()
            yield from unwatched(node, 20 if quick else 60)
            yield from opening(browser, node, quick)
            yield from everything(browser, node)
            yield from million(browser, node, quick)
            for name in ("overview", "training"):
                yield from watching(browser, node, name, 40 if quick else 600)
        finally:
            browser.stop()
            if ranks:
                ranks.stop()
            node.stop()
