"""Spark beside the cluster: live tables by its own data source, the lake as plain files."""
import glob
import os

import pytest

import clusters
import hosts
import package
import plain_engine
import sparks
import test_global
from test_global import equal

pytestmark = [hosts.needed(),
              pytest.mark.skipif(bool(sparks.why_not()), reason=str(sparks.why_not()))]
LAKE = {"PROBING_HISTORY_DELAY": "0.2", "PROBING_LAKE_DELAY": "0.2", "PROBING_LAKE_MERGE": "0.5"}
# Statements that mean the same in both dialects.
STATEMENTS = [
    "SELECT count(*), count(DISTINCT rank), count(x), sum(a), min(x), max(x) FROM facts",
    "SELECT host, rank, avg(x), sum(a * 2 + 1) FROM facts WHERE a > 0 GROUP BY host, rank",
    "SELECT s, count(*), max(a) FROM facts WHERE s LIKE '%e%' AND rank <> 3 GROUP BY s",
    "SELECT b, count(*) FROM facts WHERE b IS NULL OR b IN (1, 2) GROUP BY b",
    "SELECT rank, a, x, s FROM facts WHERE flag AND x < -50 AND s = 'it''s'",
    "SELECT l.rank, r.rank AS other, count(*) FROM facts l JOIN facts r ON l.a = r.a AND l.b = r.b "
    "WHERE l.rank < r.rank AND r.x IS NOT NULL GROUP BY l.rank, r.rank",
    "SELECT rank, a, n FROM (SELECT rank, a, x, row_number() OVER (PARTITION BY rank ORDER BY a, "
    "x, b, s, flag) AS n FROM facts) WHERE n <= 3",
    "SELECT median(x), percentile_cont(0.9) WITHIN GROUP (ORDER BY x) FROM facts",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    it = test_global.Cluster(folder, PROBING_LAKE_PATH=str(folder / "lake"), **LAKE)
    it.lake = str(folder / "lake" / "python.facts")
    it.package = package.make(folder / "again")
    yield it
    it.stop()


@pytest.fixture(scope="module")
def spark(cluster, tmp_path_factory):
    return sparks.Spark(cluster.machines[0], tmp_path_factory.mktemp("spark"), cluster.package)


def check(cluster, statements, answers):
    for sql, theirs in zip(statements, answers):
        assert "rows" in theirs, (sql, theirs)
        ours = cluster.answer(sql.replace("facts", "python.facts"))
        assert equal(ours, theirs["rows"]), (sql, ours[:5], theirs["rows"][:5])


def live(cluster, number=1, **options):
    return {"facts": dict(options, load="python.facts", token=test_global.TOKEN,
                          node=cluster.machines[number].address + ":7707")}


def test_live_tables(cluster, spark):
    """A node is a partition, and all statements over one DataFrame are as everywhere."""
    answers = spark.run("spark_driver.py", {"tables": live(cluster), "partitions": True,
                                            "sql": STATEMENTS + ["SELECT a FROM facts"]})
    check(cluster, STATEMENTS, answers)
    assert answers[-1]["partitions"] == 3 and len(answers[-1]["rows"]) == 1800


def sent(cluster):
    """Rows that one of the nodes has answered so far."""
    return int(cluster.machines[2].text("query", "--local", "-f", "csv", "SELECT rows FROM "
                                        "probing.cost WHERE what = 'node'").split()[1])


def test_filters_at_the_nodes(cluster, spark):
    """What nodes leave out does not travel, and answers are the same."""
    before = sent(cluster)
    answers = spark.run("spark_driver.py", {
        "tables": live(cluster, where="a = 49"), "sql": ["SELECT count(*), max(a) FROM facts"]})
    assert answers[0]["rows"] == cluster.answer(
        "SELECT count(*), max(a) FROM python.facts WHERE a = 49"), answers
    answers = spark.run("spark_driver.py", {
        "tables": live(cluster, pushdown="true"), "fresh": True,
        "sql": ["SELECT count(*), max(a) FROM facts WHERE a = 49 AND s IN ('it''s', 'red')"]})
    assert answers[0]["rows"] == cluster.answer(
        "SELECT count(*), max(a) FROM python.facts WHERE a = 49 AND s IN ('it''s', 'red')"), answers
    assert sent(cluster) - before < 300
    answers = spark.run("spark_driver.py", {"tables": live(cluster, pushdown="true"),
                                            "sql": STATEMENTS, "fresh": True})
    check(cluster, STATEMENTS, answers)


def test_lake(cluster, spark):
    """The same files, read by both."""
    def rows():
        parts = glob.glob(os.path.join(cluster.lake, "date=*", "hour=*", "part-*.parquet"))
        return parts and plain_engine.first_row(
            "SELECT count(*) FROM read_parquet('%s/*/*/part-*.parquet')" % cluster.lake)[0]
    clusters.wait_for(lambda: rows() == 1800)
    answers = spark.run("spark_driver.py", {"tables": {"facts": {"parquet": cluster.lake}},
                                            "sql": STATEMENTS})
    first = ["CREATE VIEW facts AS SELECT * FROM read_parquet('%s/*/*/part-*.parquet', "
             "hive_partitioning = true)" % cluster.lake]
    for sql, theirs in zip(STATEMENTS, answers):
        assert "rows" in theirs, (sql, theirs)
        ours = plain_engine.rows(first + [sql])
        assert equal(ours, theirs["rows"]), (sql, ours[:5], theirs["rows"][:5])


def test_missing_nodes(cluster, spark):
    """A node that is gone is no silence: an error, unless the others alone are wanted."""
    cluster.machines[2].pull()
    try:
        clusters.wait_for(lambda: clusters.members(cluster.machines[0]).get("node-c") == "gone")
        whole = live(cluster, 0)["facts"]
        answers = spark.run("spark_driver.py", {
            "tables": {"rest": dict(whole, missing="skip")},
            "sql": ["SELECT count(*) FROM rest"]})
        assert answers[0].get("rows") == [[1200]], answers
        answers = spark.run("spark_driver.py", {"tables": {"facts": whole},
                                                "sql": ["SELECT count(*) FROM facts"]})
        assert "gone: node-c" in answers[0].get("error", ""), answers
    finally:
        cluster.machines[2].pull(there=True)
