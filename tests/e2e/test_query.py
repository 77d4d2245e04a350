"""`probing query` and `probing tables`: formats, files, watching, limits, errors, Ctrl-C."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import harness
import querying
from querying import table


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    it = querying.Node(tmp_path_factory.mktemp("node"))
    yield it
    it.stop()


SLOW = "SELECT count(*) FROM range(100000000000) a"


def test_a_table(node):
    answer = node.run("query", "SELECT 'forward_pass' AS func, '/app/loop.py' AS file, "
                               "89 AS lineno UNION ALL SELECT 'x', NULL, 7 ORDER BY lineno DESC")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == ("func         | file         | lineno\n"
                             "-------------|--------------|-------\n"
                             "forward_pass | /app/loop.py | 89\n"
                             "x            |              | 7\n")


@pytest.mark.parametrize("words", [
    ["SELECT 1 AS x"], ["q", "SELECT 1 AS x"], ["query", "SELECT", "1", "AS", "x"],
    ["select 1 as x;"], ["-- a remark\nSELECT 1 AS x"], ["query", "-f", "table", "SELECT 1 AS x"],
])
def test_ways_to_ask(node, words):
    assert node.text(*words) == "x\n-\n1\n"


def test_several_statements(node):
    assert node.text("query", "SELECT 1 AS a; SELECT 'x' AS b, 2.5 AS c") == (
        "a\n-\n1\n\nb | c\n--|----\nx | 2.5\n")


def test_values(node):
    names, rows = table(node.text(
        "query", "SELECT 0.1::DOUBLE + 0.2::DOUBLE AS d, 1e100::DOUBLE AS e, 2048::DOUBLE AS f, "
                 "9223372036854775807 AS i, true AS b, [1, 2] AS l, {'k': 'v'} AS s, "
                 "TIMESTAMPTZ '2026-01-02 03:04:05.120+00' AS t, NULL AS n, 'a\nb' AS x"))
    assert names == list("defibl") + list("stnx")
    row = dict(zip(names, rows[0]))
    assert row["d"] == "0.3" and row["e"] == "1e+100" and row["f"] == "2048.0"
    assert row["i"] == "9223372036854775807" and row["b"] == "true" and row["l"] == "[1, 2]"
    assert row["s"] == '{"k": "v"}' and row["t"] == "2026-01-02 03:04:05.12Z"
    assert row["n"] == "" and row["x"] == "a\\nb"
    # A loss that is no number is not one that was not measured.
    rows = table(node.text("query", "SELECT 'nan'::DOUBLE, -1/0.0, NULL"))[1]
    assert rows == [["nan", "-inf", ""]]


def test_plans_are_drawn(node):
    text = node.text("query", "EXPLAIN SELECT 42; SELECT 1 AS x")
    assert text.startswith("┌──") and "│ " in text and "\\n" not in text
    assert text.endswith("\n\nx\n-\n1\n")


def test_lists_of_tables(node):
    names = [row[0] for row in table(node.text("query", "SHOW TABLES FROM probing"))[1]]
    assert "probing.cost" in names and {name.split(".")[0] for name in names} == {"probing"}
    assert table(node.text("query", "SHOW TABLES LIKE '%.mem%'"))[1][0][0] == "python.memory"
    assert node.text("query", "SHOW COLUMNS FROM python.memory") == node.text(
        "query", "DESCRIBE python.memory")


def test_formats(node):
    sql = ("SELECT 1 AS a, 'x,y' AS b, NULL AS c, 0.1::DOUBLE + 0.2::DOUBLE AS d, "
           "TIMESTAMPTZ '2026-01-02 03:04:05.12+00' AS t")
    row = {"a": 1, "b": "x,y", "c": None, "d": 0.1 + 0.2}
    for form in ("json", "ndjson"):
        found = json.loads(node.text("query", "-f", form, sql))
        found = found[0] if form == "json" else found
        when = found.pop("t")
        assert found == row and when.startswith("2026-01-02T03:04:05.12") and when.endswith("Z")
    lines = node.text("query", "-f", "csv", sql).splitlines()
    assert lines[0] == "a,b,c,d,t" and lines[1].startswith('1,"x,y",,0.30000000000000004,2026')
    assert node.text("query", "-f", "markdown", "SELECT 1 AS a, 'x|y' AS b") == (
        "| a | b |\n|---:|---|\n| 1 | x\\|y |\n")
    assert json.loads(node.text("query", "-f", "json", "SELECT 1 AS a WHERE false")) == []


def test_into_a_file(node, tmp_path):
    for name, head in (("r.json", b"["), ("r.csv", b"n\n"), ("r.parquet", b"PAR1"),
                       ("r.txt", b"n\n-"), ("r.md", b"| n |"), ("r.ndjson", b"{")):
        path = tmp_path / name
        assert node.text("query", "-o", path, "SELECT 1 AS n") == ""
        assert path.read_bytes().startswith(head), name
    path = tmp_path / "kept.csv"
    path.write_text("old")
    answer = node.run("query", "-o", path, "SELECT no_such_column")
    assert answer.returncode == 1 and path.read_text() == "old"
    answer = node.run("query", "-o", tmp_path / "none" / "x.csv", "SELECT 1")
    assert answer.returncode == 1 and answer.stderr.count("\n") == 1
    assert node.text("query", "-o", "/dev/null", "SELECT 1") == ""
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "kept.csv", "r.csv", "r.json", "r.md", "r.ndjson", "r.parquet", "r.txt"]


def test_from_a_file(node, tmp_path):
    path = tmp_path / "q.sql"
    path.write_text("-- two\nSELECT 1 AS a;\nSELECT 2 AS b;\n")
    assert node.text("query", "-F", path) == "a\n-\n1\n\nb\n-\n2\n"
    answer = subprocess.run([harness.BIN, "query", "-F", "-"], input=b"SELECT 3 AS c",
                            env=dict(harness.ENV, **node.env), stdout=subprocess.PIPE, check=True)
    assert answer.stdout == b"c\n-\n3\n"
    assert node.run("query", "-F", path, "SELECT 1").returncode == 2
    assert node.run("query", "-F", tmp_path / "none").returncode == 2
    assert node.run("query").returncode == 2


def test_limit(node):
    answer = node.run("query", "--limit", "3", "SELECT * FROM range(10) t(i)")
    assert len(answer.stdout.splitlines()) == 5 and answer.returncode == 0
    assert answer.stderr == ("probing: 7 more rows; --limit 0 shows all, -o FILE keeps them\n")
    answer = node.run("query", "--limit", "3", "-f", "csv", "SELECT * FROM range(10000000) t(i); "
                                                            "SELECT * FROM range(100000000000)")
    assert answer.stdout == "i\n0\n1\n2\n\nrange\n0\n1\n2\n"
    assert answer.stderr.startswith("probing: more rows; ")  # too many to count
    answer = node.run("query", "--limit", "1", "-f", "json",
                      "SELECT i FROM range(2) t(i); SELECT 1; SELECT * FROM range(1235)")
    assert answer.stderr.startswith("probing: 1,235 more rows; ")
    # A long answer tells it behind its last byte.
    answer = node.run("-v", "query", "--limit", "30000", "-f", "csv",
                      "SELECT i, sum(0) FROM range(30001) t(i)")
    assert len(answer.stdout.splitlines()) == 30001
    grouped, more, took = answer.stderr.splitlines()
    assert grouped == "probing: no GROUP BY: grouped by i"
    assert more.startswith("probing: 1 more row; ") and took.startswith("probing: 30,000 rows, ")
    # In a pipe nothing is left out unless asked for.
    assert len(node.text("query", "SELECT * FROM range(25000) t(i)").splitlines()) == 25002
    assert node.run("query", "--limit", "10", "SELECT * FROM range(10)").stderr == ""


def test_watch_in_a_pipe(node):
    began = time.monotonic()
    text = node.text("query", "-w", "0.1", "--count", "3", "SELECT 1 AS x")
    assert time.monotonic() - began < 20
    assert text.count("x\n-\n1\n") == 3 and text.count("--- ") == 3
    lines = node.text("query", "-w", "0.05", "--count", "2", "-f", "ndjson", "SELECT 1 AS x")
    assert [json.loads(line) for line in lines.splitlines()] == [{"x": 1}, {"x": 1}]


def start(node, *words, **how):
    return subprocess.Popen([harness.BIN] + list(words), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                            env=dict(harness.ENV, **node.env),
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **how)


def test_ctrl_c_ends_the_watch(node):
    tool = start(node, "query", "-w", "5", "SELECT 1 AS x")
    assert tool.stdout.readline().startswith(b"---")
    time.sleep(0.2)
    tool.send_signal(signal.SIGINT)
    out, error = tool.communicate(timeout=60)
    assert (tool.returncode, error) == (0, b""), out


def test_ctrl_c_cancels_the_query(node):
    node.text("query", "SELECT 1")
    tool = start(node, "query", SLOW)
    time.sleep(0.5)
    tool.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, error = tool.communicate(timeout=60)
    assert (tool.returncode, out, error) == (130, b"", b"")
    # The engine is free again.
    node.text("query", "SELECT 1")
    assert time.monotonic() - began < 20


def test_reader_that_went_away(node):
    tool = start(node, "query", "SELECT i, i, i FROM range(3000000) t(i)")
    tool.stdout.readline()
    tool.stdout.close()
    assert tool.wait(timeout=60) == 0
    assert tool.stderr.read() == b""
    tool.stderr.close()


def test_timeout(node):
    began = time.monotonic()
    answer = node.run("query", "--timeout", "0.3", SLOW)
    assert answer.returncode == 5 and answer.stdout == ""
    assert answer.stderr.count("\n") == 1 and "0.3 s" in answer.stderr
    assert time.monotonic() - began < 20


# While it is inside one function the engine cannot be stopped: those that make much of little are
# refused, and whoever asks for another is answered in time.
@pytest.mark.parametrize("sql, code, says", [
    ("SELECT length(repeat('x', 2000000000))", 1, "too long: "),
    ("SELECT len(range(300000000))", 1, "too long: "),
    ("SELECT lpad(range::text, 220, 'a') LIKE '%a_%a_%a_%a_%b' FROM range(1)", 5,
     "timed out after 0.2 s; the engine is inside one function"),
])
def test_time_limits_hold(node, sql, code, says):
    began = time.monotonic()
    answer = node.run("query", "--timeout", "0.2", sql)
    assert time.monotonic() - began < 20
    assert (answer.returncode, answer.stdout) == (code, "") and says in answer.stderr
    # Others are answered while it still works.
    assert node.text("query", "SELECT count(*) > 0 AS x FROM probing.tables") == "x\n----\ntrue\n"


def test_columns_are_called_as_they_were_written(node):
    sql = "SELECT count(*), i  % 2, hour(now())*0, count(*) AS n, i+1 FROM range(1) t(i) GROUP BY i"
    titles = ["count(*)", "i % 2", "hour(now())*0", "n", "i+1"]
    assert table(node.text("query", sql))[0] == titles
    assert list(json.loads(node.text("query", "-f", "json", sql))[0]) == titles
    assert node.text("query", "-f", "csv", sql).splitlines()[0] == ",".join(titles)
    # Of two with the same name neither is lost.
    assert json.loads(node.text("query", "-f", "json", "SELECT 1 AS a, 2 AS a, 3")) == [
        {"a": 1, "a_1": 2, "3": 3}]


@pytest.mark.parametrize("sql, says, place", [
    ("SELECT modul FROM python.torch_trace",
     "probing: no column 'modul' in python.torch_trace; nearest: module, module_type",
     ["  SELECT modul FROM python.torch_trace", "         ^"]),
    ("SELECT 1,\n       modul\nFROM python.torch_trace", "probing: no column 'modul'",
     ["         modul", "         ^"]),
    ("SELECT * FROM python.torchtrace", "nearest: python.torch_trace",
     ["  SELECT * FROM python.torchtrace", "                ^"]),
    ("SELEC 1", "probing: ", ["  SELEC 1", "  ^"]),
    ("SELECT 1; SELECT nope", "probing: ", ["  SELECT 1; SELECT nope", "                   ^"]),
])
def test_errors_point_at_the_place(node, sql, says, place):
    answer = node.run("query", sql)
    lines = answer.stderr.splitlines()
    assert answer.returncode == 1
    assert lines[0].startswith("probing: ") and says in lines[0]
    assert lines[1:] == place


@pytest.mark.parametrize("sql", [
    "CREATE TABLE x (a INT)", "COPY (SELECT 1) TO '/tmp/probing-test.csv'",
    "SELECT * FROM read_csv('/etc/passwd')", "INSTALL httpfs", "ATTACH '/tmp/x.db'",
    "SET memory_limit = '100GB'", "DROP VIEW memory_usage", "SELECT * FROM '/etc/passwd'",
    "PRAGMA database_list; DELETE FROM memory_usage",
])
def test_reading_is_all(node, sql):
    answer = node.run("query", sql)
    assert answer.returncode == 1 and not answer.stdout.startswith("root:"), answer
    assert answer.stderr.startswith("probing: ")
    assert not os.path.exists("/tmp/probing-test.csv")


def test_no_such_target(node):
    answer = node.run("4194999", "query", "SELECT 1")
    assert (answer.returncode, answer.stdout) == (4, "")
    assert answer.stderr.startswith("probing: 4194999: no such process")
    assert answer.stderr.count("\n") == 1


def test_only_the_rows_of_the_target(node, start_two):
    one, two = start_two
    sql = "SELECT DISTINCT pid FROM python.backtrace"
    assert node.rows(sql, one.pid) == [{"pid": one.pid}]
    assert node.rows(sql, two.pid) == [{"pid": two.pid}]
    everyone = {row["pid"] for row in node.rows(sql)}
    assert {one.pid, two.pid} <= everyone
    by_name = node.rows(sql, "the-first-of-them")
    assert by_name == [{"pid": one.pid}]
    for name in ("PROBING_TARGET", "ENDPOINT"):
        assert node.rows(sql, env={name: str(two.pid)}) == [{"pid": two.pid}]


@pytest.fixture
def start_two(start, any_py):
    return [start(harness.Script, any_py, "simple.py", name)
            for name in ("the-first-of-them", "the-second")]


def test_tables(node):
    names, rows = table(node.text("tables"))
    assert names == ["name", "rows", "doc"]
    listed = {row[0]: row[2] for row in rows}
    assert list(listed) == sorted(listed)
    for name in ("python.backtrace", "python.stacks", "python.memory", "system.process",
                 "probing.tables"):
        assert listed[name], name
    columns = json.loads(node.text("tables", "-a", "-f", "json"))
    assert set(columns[0]) == {"name", "column", "type", "unit", "doc"}
    backtrace = [c["column"] for c in columns if c["name"] == "python.backtrace"]
    assert backtrace[:4] == ["depth", "func", "file", "lineno"]
    shown = node.text("query", "SHOW TABLES")
    assert re.search(r"^python\.backtrace ", shown, re.M)
    assert "lineno" in node.text("query", "DESCRIBE python.backtrace")


def test_settings(node):
    node.text("query", "SET probing.query.timeout = 33")
    value = node.rows("SELECT value FROM information_schema.df_settings "
                      "WHERE name LIKE '%query.timeout'")
    assert [float(row["value"]) for row in value] == [33]
    answer = node.run("query", "SET probing.query.timout = 33")
    assert answer.returncode == 1 and "query.timeout" in answer.stderr
    node.text("query", "SET probing.query.timeout = 60")


class Terminal:
    """The tool on a terminal of a given size."""

    def __init__(self, node, *words, lines=24, columns=80, **env):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        clean = {k: v for k, v in harness.ENV.items() if k not in ("PAGER", "COLUMNS", "LINES")}

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [harness.BIN] + [str(word) for word in words], stdin=slave, stdout=slave, stderr=slave,
            env=dict(clean, **dict(node.env, TERM="xterm", NO_COLOR="1", **env)), preexec_fn=own)
        os.close(slave)

    def read(self, until=None, seconds=30):
        """What it writes up to some text, or to its end."""
        text, end = "", time.monotonic() + seconds
        while time.monotonic() < end and not (until and until in text):
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece.decode()
        return text.replace("\r\n", "\n")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(node):
    open_ones = []

    def begin(*words, **how):
        open_ones.append(Terminal(node, *words, **how))
        return open_ones[-1]

    yield begin
    for one in open_ones:
        one.close()


def test_fits_the_terminal(terminal):
    text = terminal("SELECT repeat('x', 300) AS a, 'b' AS b, '/very/long/' || repeat('d', 99) || "
                    "'/end.py' AS c", columns=60).read()
    lines = text.splitlines()
    assert len(lines) == 3 and 55 < max(len(line) for line in lines) <= 60
    assert "xxx…" in lines[2] and lines[2].endswith("/end.py")


def test_pager(terminal):
    sql = "SELECT * FROM range(100) t(i)"
    shown = terminal(sql, PROBING_PAGER="sed 's/^/> /'").read()
    assert shown.startswith("> i\n> --\n> 0\n") and "> 99\n" in shown
    for env in ({"PAGER": "cat"}, {"PROBING_PAGER": "", "PAGER": "false"}):
        assert terminal(sql, **env).read().startswith("i\n--\n0\n")
    short = terminal("SELECT 1 AS x", PROBING_PAGER="sed 's/^/> /'").read()
    assert short == "x\n-\n1\n"


def test_limit_on_a_terminal(terminal):
    text = terminal("SELECT * FROM range(10001) t(i)", PAGER="cat").read()
    assert "probing: 1 more row; --limit 0 shows all" in text


def test_parquet_is_not_for_a_terminal(terminal):
    tool = terminal("query", "-f", "parquet", "SELECT 1")
    assert "-o FILE" in tool.read()
    assert tool.process.wait(timeout=60) == 2


def test_watch_on_a_terminal(terminal):
    tool = terminal("query", "-w", "0.1", "SELECT * FROM range(100) t(i)", lines=20)
    text = tool.read(until="\033[H\033[2J") + tool.read(until="\033[H\033[2J")
    assert "every 0.1 s" in text and "… 86 more rows\n" in text and "\n50\n" not in text
    os.write(tool.master, b"\x03")
    tool.read()
    assert tool.process.wait(timeout=60) == 0
