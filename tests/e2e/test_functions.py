"""Functions by the names that users of DataFusion know."""
import os
import re

import harness
from nodes import Node

AT = "TIMESTAMPTZ '2026-01-02 03:04:05+00'"

ANSWERS = [
    ("date_bin('5 minutes', %s)::VARCHAR" % AT, "2026-01-02 03:00:00+00"),
    ("date_bin(INTERVAL '1 hour', TIMESTAMP '2026-01-02 03:04:05')::VARCHAR",
     "2026-01-02 03:00:00+00"),
    # Weeks are counted from the first day of 1970, a Thursday.
    ("date_bin(INTERVAL '7 days', %s)::VARCHAR" % AT, "2026-01-01 00:00:00+00"),
    ("date_bin(INTERVAL '1 hour', %s, '1970-01-01 00:30:00+00')::VARCHAR" % AT,
     "2026-01-02 02:30:00+00"),
    ("(SELECT approx_percentile_cont(i, 0.9) FROM range(101) t(i))", 90),
    ("(SELECT approx_percentile_cont(i, 0.9, 200) FROM range(101) t(i))", 90),
    ("(SELECT approx_median(i) FROM range(101) t(i))", 50),
    ("(SELECT approx_distinct(i % 3) FROM range(101) t(i))", 3),
    ("to_timestamp_seconds(60)::VARCHAR", "1970-01-01 00:01:00+00"),
    ("to_timestamp_millis(60500)::VARCHAR", "1970-01-01 00:01:00.5+00"),
    ("to_timestamp_micros(60000001)::VARCHAR", "1970-01-01 00:01:00.000001+00"),
    ("to_timestamp_nanos(60000001000)::VARCHAR", "1970-01-01 00:01:00.000001+00"),
    ("from_unixtime(60)::VARCHAR", "1970-01-01 00:01:00+00"),
    ("to_unixtime(to_timestamp_seconds(60))", 60),
    ("to_char(%s, '%%Y')" % AT, "2026"),
    ("date_format(%s, '%%H:%%M')" % AT, "03:04"),
    ("to_date('2026-01-02')::VARCHAR", "2026-01-02"),
    ("(SELECT var(i) FROM range(5) t(i))", 2.5),
    ("(SELECT var_population(i) FROM range(5) t(i))", 2.0),
    ("(SELECT covar(i, i) FROM range(5) t(i))", 2.5),
    ("nvl(NULL, 1)", 1),
    ("nvl2(NULL, 1, 2)", 2),
    ("nanvl('nan'::DOUBLE, 3)", 3.0),
    ("btrim('  a ')", "a"),
    ("btrim('xax', 'x')", "a"),
    ("regexp_like('abc', 'b')", True),
    ("regexp_count('abab', 'a')", 2),
    ("array_element([7, 8], 1)", 7),
    ("array_max([7, 8])", 8),
    ("array_min([7, 8])", 7),
    ("arrow_typeof(1)", "INTEGER"),
    ("(SELECT array_agg(i) FROM range(2) t(i))", [0, 1]),
]


def test_answers(tmp_path):
    node = Node(tmp_path)
    try:
        row, = node.rows("SELECT " + ", ".join(
            "%s AS c%d" % (text, number) for number, (text, _) in enumerate(ANSWERS)))
        got = {text: row["c%d" % number] for number, (text, _) in enumerate(ANSWERS)}
        assert got == dict(ANSWERS)
        # As over any other aggregate, a missing GROUP BY is put in.
        answer = node("query", "-f", "json", "SELECT i % 2 AS odd, approx_median(i) AS m "
                                             "FROM range(101) t(i) ORDER BY odd")
        assert answer.returncode == 0, answer.stderr
        assert "grouped by i % 2" in answer.stderr
        # They are ours to make, not a user's.
        assert node("query", "CREATE MACRO mine(x) AS x").returncode == 1
    finally:
        node.stop()


def test_each_is_tested_and_written_down():
    def text(*path):
        with open(os.path.join(harness.ROOT, *path)) as file:
            return file.read()

    macros = text("src", "node", "sql", "functions", "macros.def")
    names = set(re.findall(r"^PB_MACRO\((\w+),", macros, re.M))
    tried = " ".join(sql for sql, _ in ANSWERS)
    written = text("docs", "sql.md")
    assert names and [n for n in names if n + "(" not in tried or n + "(" not in written] == []
