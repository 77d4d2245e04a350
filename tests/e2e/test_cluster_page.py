"""The page of a cluster, in a real browser: who is there, where all ranks are, SQL over all."""
import pytest

import browsing
import clusters
import harness
import hosts
import test_global

pytestmark = [hosts.needed(), browsing.needed]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    it = test_global.Cluster(tmp_path_factory.mktemp("cluster"))
    yield it
    it.stop()


@pytest.fixture(scope="module")
def browser(cluster):
    """On the first machine, whose node serves the page on its loopback."""
    it = browsing.Browser(cluster.machines[0].command([]))
    yield it
    it.stop()


def address(cluster, *words):
    return cluster.machines[0].text(*words, "web", "--no-browser").split()[0]


def test_page_of_the_cluster(cluster, browser):
    first, _, third = cluster.machines
    page = browser.page()
    page.open(address(cluster, "cluster"))
    page.wait("document.querySelector('table[aria-label=nodes] tbody tr')")
    rows = {row["node"]: row for row in page.table("nodes")}
    assert {name: row["ranks"] for name, row in rows.items()} == {
        "node-a": "0-1/6 facts.py", "node-b": "2-3/6 facts.py", "node-c": "4-5/6 facts.py"}
    assert rows["node-a"]["state"] == "here" and rows["node-c"]["address"] == "10.77.0.3:7707"
    assert "±" in rows["node-b"]["clock"]
    page.wait_text("6 of 6: ranks 0-5", ".folds")
    assert "facts.py" in page.text(".folds")
    page.wait_text("3 of 3 nodes answered")
    # One rank does something else: it comes first.
    first.text("rank:4", "eval", "import threading, time; flag = threading.Event()")
    first.text("rank:4", "eval", "time.sleep = lambda s: flag.wait()")
    page.wait_text("1 of 6: rank 4", ".folds > li:first-child")
    page.wait_text("5 of 6: ranks 0-3,5", ".folds > li:last-child")
    page.go("#/sql?all=1&q=SELECT+DISTINCT+rank+FROM+python.facts+ORDER+BY+rank")
    page.wait_text("6 rows")
    page.wait_text("3 of 3 nodes answered")
    page.go("#/sql?q=SELECT+DISTINCT+rank+FROM+python.facts+ORDER+BY+1")
    page.wait_text("2 rows")
    # A machine that goes is named, with all that it leaves out.
    page.go("#/cluster")
    page.wait_text("5 of 6", ".folds")
    third.stop()
    page.wait_text("node-c (", ".bad")
    page.wait_text("4 of 4: ranks 0-3", ".folds")
    clusters.wait_for(lambda: {row["node"]: row["state"].split()[0] for row in page.table("nodes")}
                      == {"node-a": "here", "node-b": "alive", "node-c": "gone"})
    page.check([])
    page.close()


def test_page_of_some_ranks(cluster, browser):
    """ranks: as a target choose among them; one rank is shown by its own machine's node."""
    first = cluster.machines[0]
    page = browser.page()
    page.open(address(cluster, "ranks:1-2"))
    page.wait_text("2 of 2: ranks 1-2", ".folds")
    page.close()
    tool = first.start(harness.BIN, "rank:2", "web", "--no-browser")
    try:
        shown = tool.stdout.readline()
        assert "/#/process?p=" in shown, shown
        page = browser.page()
        page.open(shown.strip())
        page.wait_text("facts.py")
        page.wait_text("node-b", "header.top")
        page.close()
    finally:
        first.kill(tool)
