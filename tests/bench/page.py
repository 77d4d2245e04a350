"""The page of a flame graph in a real browser: its weight without data, and its first paint."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

import measure
from measure import harness

import browsing

NODES = 100000
BAR_BYTES, BAR_PAINT = 60 << 10, 150
LOAD = """
const session = await page.context().newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });
const spent = async () => (await session.send("Performance.getMetrics")).metrics
  .find((one) => one.name === "TaskDuration").value * 1000;
const before = await spent();
await page.goto(args.url);
const first = "first-contentful-paint";
await page.waitForFunction((name) => performance.getEntriesByName(name).length, first);
const took = await page.evaluate((name) => performance.getEntriesByName(name)[0].startTime, first);
return [took, await spent() - before];
"""


def empty_page(folder):
    """The page as the tool writes it, split around its data."""
    path = os.path.join(folder, "one.html")
    target = harness.Target([sys.executable, os.path.join(harness.TARGETS, "simple.py")])
    try:
        subprocess.run([measure.tool_path(), str(target.pid), "flamegraph", "-d", "0.5", "-o",
                        path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=harness.ENV)
    finally:
        target.stop()
    with open(path, encoding="utf-8") as file:
        head, rest = file.read().split('id="data">', 1)
    return head + 'id="data">', rest[rest.index("</script>"):]


def many(nodes):
    parent, frame, leaves = [0], [-1], []
    for node in range(1, nodes):
        parent.append(0 if node < 40 else node // 2)
        frame.append(node % 3000)
        leaves += [node, 0, 1, 1 + node % 97]
    return {"title": "many", "info": "", "threads": ["t"], "parent": parent, "frame": frame,
            "frames": [["f%d" % n, "/m.py", n + 1, n % 2] for n in range(3000)], "leaves": leaves}


def paints(path, runs):
    """
    By load: milliseconds from its beginning to the first picture on the screen, and processor time
    that the page's thread took for it, in which other load does not show.
    """
    found, browser = [], browsing.Browser()
    try:
        for _ in range(runs + 1):
            window = browser.page()
            found.append(window.run(LOAD, url="file://" + path))
            window.close()
    finally:
        browser.stop()
    return found[1:]  # the first one warms the browser up


def rows(quick):
    if browsing.missing():
        yield ("flame graph page", "", browsing.missing(), "", None)
        return
    with tempfile.TemporaryDirectory() as folder:
        head, tail = empty_page(folder)
        size = len((head + tail).encode())
        path = os.path.join(folder, "many.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(head + json.dumps(many(NODES), separators=(",", ":")) + tail)
        elapsed, spent = zip(*paints(path, 5 if quick else 15))
    yield ("flame graph page without data", "%d KB" % (BAR_BYTES >> 10), "%.1f KB" % (size / 1024),
           "", size <= BAR_BYTES)
    yield ("  first paint, %d nodes" % NODES, "%d ms" % BAR_PAINT,
           "%.0f ms" % statistics.median(elapsed), "", statistics.median(elapsed) <= BAR_PAINT,
           "%.0f ms of processor time" % statistics.median(spent))


if __name__ == "__main__":
    for found in rows("--quick" in sys.argv):
        print(*found, sep=" | ")
