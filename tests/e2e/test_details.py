"""What a stack tells beside functions and lines: columns, arguments, garbage collection, end."""
import json

import pytest

import nodes
from harness import backtrace, frames, main_thread, probing, thread_named


def own(thread, target):
    return [frame for frame in thread["frames"] if frame["file"] == target.path]


def piece(target, frame):
    """The text that a frame's columns stand for."""
    with open(target.path, "rb") as file:
        line = file.read().split(b"\n")[frame["lineno"] - 1]
    end = frame["end_col_offset"] if frame["end_lineno"] == frame["lineno"] else len(line)
    return line[frame["col_offset"]:end].decode()


def test_columns(py, shared):
    target = shared("details.py")
    found = own(main_thread(backtrace(target.pid)), target)
    if py.minor < (3, 11):
        assert {(frame["end_lineno"], frame["col_offset"], frame["end_col_offset"])
                for frame in found} == {(None, None, None)}
        return
    assert [piece(target, frame) for frame in found] == [
        "time.sleep(100000)", "leaf(shared, 3, 5, 6, keyword=7, extra=8)", "inner()",
        "closure(ä, 2)", "größe(1)"]
    assert all(frame["end_lineno"] == frame["lineno"] for frame in found)


def test_the_executing_expression_is_underlined(py, shared):
    answer = probing(shared("details.py").pid, "backtrace", "-v")
    lines = [line for line in answer.stdout.splitlines() if line.startswith("       ")]
    want = ["return [made, time.sleep(100000)]  # LINE:leaf",
            "              ^^^^^^^^^^^^^^^^^^",
            "return leaf(shared, 3, 5, 6, keyword=7, extra=8), own2  # LINE:inner",
            "       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "inner() +  # LINE:closure",
            "^^^^^^^",
            'return "ä線", closure(ä, 2)  # LINE:wide',
            "              ^^^^^^^^^^^^^",
            "größe(1)  # LINE:module",
            "^^^^^^^^"]
    if py.minor < (3, 11):
        want = [line for line in want if not line.lstrip(" ").startswith("^")]
    assert [line[7:] for line in lines] == want
    assert "LINE:" not in probing(shared("details.py").pid, "backtrace").stdout


def test_source_in_json(shared):
    target = shared("details.py")
    found = own(main_thread(backtrace(target.pid, "-v")), target)
    assert found[-1]["source"] == "größe(1)  # LINE:module"
    assert "source" not in main_thread(backtrace(target.pid))["frames"][0]


def test_arguments(py, shared):
    target = shared("details.py")
    found = own(main_thread(backtrace(target.pid, "-l")), target)
    arguments = [sorted(frame["arguments"]) for frame in found]
    assert arguments == [["first", "keyword", "others", "rest", "second"], [], ["own", "shared"],
                         ["ä"], []]
    assert set(found[0]["locals"]) == set(found[0]["arguments"]) | {"made"}
    assert own(main_thread(backtrace(target.pid)), target)[0]["arguments"] is None
    text = probing(target.pid, "backtrace", "-l").stdout
    assert "\n   arg first = 1\n" in text and "\n       made = 1\n" in text
    assert "\n   arg shared = 1\n" in text and "\n       own2 = 2\n" in text


def test_garbage_collection(py, shared):
    if py.minor < (3, 7):
        pytest.skip("to 3.6 the interpreter does not tell")
    target = shared("ending.py", "gc")
    snapshot = backtrace(target.pid, "-a")
    thread = main_thread(snapshot)
    assert frames(thread)[:2] == [target.at(py.q("Slow.__del__"), "gc"),
                                  target.at("collect", "collect")]
    assert thread["collecting_garbage"]
    assert not thread_named(snapshot, "other")["collecting_garbage"]
    assert " · collecting garbage\n" in probing(target.pid, "backtrace").stdout
    assert "collecting" not in probing(target.pid, "backtrace", str(
        thread_named(snapshot, "other")["tid"])).stdout
    assert not snapshot["shutting_down"]


def test_shutting_down(py, shared):
    target = shared("ending.py", "exit")
    snapshot = backtrace(target.pid)
    assert snapshot["shutting_down"]
    assert frames(main_thread(snapshot))[0] == target.at(py.q("Slow.__del__"), "exit")
    assert " · shutting down\n" in probing(target.pid, "backtrace").stdout.splitlines(True)[0]
    assert not backtrace(shared("details.py").pid)["shutting_down"]


def test_all_of_it_in_sql(node, py, shared):
    details, gc, ending = (shared("details.py"), shared("ending.py", "gc"),
                           shared("ending.py", "exit"))
    rows = node.rows("SELECT * FROM python.backtrace ORDER BY depth", details.pid)
    assert sorted(json.loads(rows[2]["arguments"])) == ["own", "shared"]
    assert [rows[0]["end_lineno"], rows[0]["col_offset"], rows[0]["end_col_offset"]] == (
        [rows[0]["lineno"], 18, 36] if py.minor >= (3, 11) else [None] * 3)
    assert {row["interpreter"] for row in rows} == {0}
    assert {row["shutting_down"] for row in rows} == {False}
    for table in ("python.stacks", "python.threads", "python.backtrace"):
        sql = "SELECT DISTINCT collecting_garbage, shutting_down FROM " + table
        assert {"collecting_garbage": py.minor >= (3, 7), "shutting_down": False} \
            in node.rows(sql, gc.pid)
        assert node.rows(sql, ending.pid) == [{"collecting_garbage": False, "shutting_down": True}]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = nodes.Node(tmp_path_factory.mktemp("node"))
    yield made
    made.stop()
