"""Tables whose columns are not the same everywhere: the answer has all that are anywhere."""
import os
import subprocess
import sys

import pytest

import clusters
import harness
import hosts
import package

pytestmark = hosts.needed()
TOKEN = "5e" * 32
SUMS = ("SELECT rank, count(*), sum(b), count(x), sum(z) FROM python.facts GROUP BY rank "
        "ORDER BY rank")


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Ranks 0 and 1 are as in other tests; on the second machine one of each; none on the third."""
    folder = tmp_path_factory.mktemp("columns")
    network = hosts.Network(folder)
    made = [network.add(PROBING_TOKEN=TOKEN, PROBING_CLUSTER_INTERVAL="0.5") for _ in range(3)]
    path = package.make(folder / "package")
    for number, (host, script) in enumerate([(0, "facts.py"), (1, "facts.py"),
                                             (1, "other_facts.py"), (1, "other_facts.py")]):
        rank = made[host].start(
            sys.executable, os.path.join(harness.TARGETS, script), stderr=subprocess.DEVNULL,
            env={"RANK": str(number), "WORLD_SIZE": "4", "MASTER_ADDR": made[0].address,
                 "MASTER_PORT": "29500", "PYTHONPATH": path})
        assert rank.stdout.readline().startswith("ready")
    made[0].probing("cluster", "attach", "--no-start", made[1].address)
    for host in made[1:]:
        host.text("cluster", "attach", "--no-start", made[0].address)
    clusters.wait_for(lambda: clusters.all_alive(made))
    yield made
    network.stop()


def answer(host, sql, *words):
    return host.text("query", *words, "-f", "csv", sql).splitlines()[1:]


def test_columns_of_all(machines):
    """Whole numbers here and floating point there, columns that one alone has: the same for all."""
    whole = answer(machines[0], "SELECT sum(b) FROM python.facts", "--local")
    for host in machines:
        rows = answer(host, SUMS)
        assert [row.split(",")[0] for row in rows] == ["0", "1", "2", "3"], rows
        assert rows[2:] == ["2,100,1237.5,0,450", "3,100,1237.5,0,450"], rows
        assert float(rows[0].split(",")[2]) == float(whole[0]) and rows[0].endswith(","), rows
        # Rows themselves, a filter, the first of them.
        assert answer(host, "SELECT b FROM python.facts WHERE b > 24 AND b < 24.6 ORDER BY b "
                            "LIMIT 3") == ["24.25", "24.25", "24.5"]
        assert answer(host, "SELECT sum(v), count(DISTINCT rank) FROM python.only") == ["9900,2"]


def test_a_star_has_them_all(machines):
    """The first statement over a table finds the columns that only others have."""
    for host in machines:
        out = host.text("query", "-f", "csv", "SELECT * EXCLUDE (timestamp, host, pid) FROM "
                                              "python.facts ORDER BY rank, a LIMIT 1")
        assert sorted(out.splitlines()[0].split(",")) == ["a", "b", "flag", "rank", "s", "x", "z"]
    it = machines[2].probing("query", "SELECT nothing FROM python.facts")
    assert it.returncode == 1 and "no column 'nothing' in python.facts" in it.stderr, it
    it = machines[2].probing("query", "SELECT 1 FROM python.nowhere")
    assert it.returncode == 1 and "no table 'python.nowhere'" in it.stderr, it


def test_what_does_not_fit_is_said(machines):
    """A text among numbers is left out, and that is said to whoever asked, wherever it is."""
    for host in machines:
        it = host.probing("query", "-f", "csv", "SELECT count(*), max(v) FROM python.mixed")
        assert it.stdout.splitlines()[1:] == ["100,99"], it
        assert "node-b: python.mixed of process" in it.stderr and "another type" in it.stderr, it
