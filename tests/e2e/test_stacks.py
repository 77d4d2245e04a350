"""Exact functions, files and lines of known programs, on every interpreter."""
import os
import shutil

import pytest

from harness import (TARGETS, Script, backtrace, frames, main_thread, probing, stack_of,
                     thread_named)


def test_simple(py, shared):
    target = shared("simple.py")
    snapshot = backtrace(target.pid)
    assert snapshot["pid"] == target.pid
    assert snapshot["python"] == py.text_version
    assert len(snapshot["threads"]) == 1
    assert frames(main_thread(snapshot)) == [
        target.at("leaf", "leaf"), target.at("middle", "middle"),
        target.at("main", "main"), target.at("<module>", "module")]


def test_depth_counts_from_the_innermost(shared):
    thread = main_thread(backtrace(shared("simple.py").pid))
    assert [frame["depth"] for frame in thread["frames"]] == [0, 1, 2, 3]
    assert {frame["frame_type"] for frame in thread["frames"]} == {"python"}
    assert not thread["torn"]


def test_generators(py, shared):
    target = shared("generators.py")
    expected = [
        ("leaf", "leaf"), ("innermost", "innermost"), ("delegate", "delegate"),
        (py.q("Box.produce"), "produce"),
        (py.q("Box.consume.<locals>.closure.<locals>.<genexpr>"), "closure"),
        (py.q("Box.consume.<locals>.closure"), "closure"), (py.q("Box.consume"), "consume"),
        (py.q("main.<locals>.<lambda>"), "handler"), ("main", "main"), ("<module>", "module")]
    assert stack_of(target.pid) == [target.at(*pair) for pair in expected]


def test_coroutines_that_block(py, shared):
    if py.minor < (3, 5):
        pytest.skip("async def needs 3.5")
    target = shared("aio.py", "busy")
    own = frames(main_thread(backtrace(target.pid)), target.path)
    expected = [("leaf", "leaf"), ("step", "step"), (py.q("Trainer.fit"), "fit"),
                ("main", "main"), ("<module>", "module")]
    assert own == [target.at(*pair) for pair in expected]


def test_event_loop_at_rest(py, shared):
    if py.minor < (3, 5):
        pytest.skip("async def needs 3.5")
    target = shared("aio.py", "await")
    stack = stack_of(target.pid)
    assert stack[0][0] == py.q("EpollSelector.select")
    assert os.path.basename(stack[0][1]) == "selectors.py"
    names = [frame[0] for frame in stack]
    assert py.q("BaseEventLoop.run_until_complete") in names
    assert stack[-2:] == [target.at("main", "main"), target.at("<module>", "module")]


def test_deep_recursion_whole(shared):
    target = shared("deep.py")
    thread = thread_named(backtrace(target.pid, "-a", "--limit", "0"), "deep")
    stack = frames(thread)
    own = [frame for frame in stack if frame[1] == target.path]
    assert own[0] == target.at("bottom", "bottom")
    assert own[1] == target.at("recurse", "turn")
    assert set(own[2:]) == {target.at("recurse", "recurse")}
    assert len(own) == 10001
    assert stack[-1][0].endswith("_bootstrap")
    assert (thread["total"], thread["elided"]) == (len(stack), 0)


def test_only_what_is_left_out_is_not_read(shared):
    target = shared("deep.py")
    total = main_thread(backtrace(target.pid, "-l", "--limit", "0"))["total"]
    for limit in range(2, total + 2):
        thread = main_thread(backtrace(target.pid, "-l", "--limit", limit))
        shown = frames(thread)
        assert len(shown) == min(limit, total)
        assert all(name != "<unreadable>" for name, _, _ in shown), shown
        assert all(frame["locals"] is not None for frame in thread["frames"])


def test_deep_recursion_cut_in_the_middle(shared):
    target = shared("deep.py")
    thread = thread_named(backtrace(target.pid, "-a"), "deep")
    stack = frames(thread)
    assert stack[0] == target.at("bottom", "bottom")
    assert stack[-1][0].endswith("_bootstrap")
    assert len(stack) < 1000
    assert thread["total"] == 10004 and thread["elided"] == 10004 - len(stack)
    assert thread["frames"][-1]["depth"] == 10003


def test_python_called_from_c(py, shared):
    target = shared("callbacks.py")
    expected = [
        ("leaf", "leaf"), ("by_compare", "by_compare"), ("by_qsort", "by_qsort"),
        (py.q("Value.size"), "size"), (py.q("Value.__add__"), "add"),
        (py.q("Value.__init__"), "init"), (py.q("Value.__call__"), "call"),
        ("by_partial", "by_partial"), ("by_key", "by_key"), ("by_star", "by_star"),
        ("main", "main"), ("<module>", "module")]
    assert stack_of(target.pid) == [target.at(*pair) for pair in expected]


def test_code_without_a_file(shared):
    target = shared("nofile.py")
    assert stack_of(target.pid) == [
        target.at("pause", "pause"),
        ("inner_made", "<string>", 7), ("outer_made", "<string>", 4),
        ("<module>", "<made up>", 3), target.at("main", "main"),
        ("<module>", "<string>", 1), target.at("<module>", "module")]


@pytest.mark.parametrize("folder", ["with space", "two\nlines", "straße 線"])
def test_odd_names_and_paths(py, start, tmp_path, folder):
    path = str(tmp_path / folder / "näme 名.py")
    os.mkdir(os.path.dirname(path))
    shutil.copy(os.path.join(TARGETS, "names.py"), path)
    target = start(Script, py, "names.py", path=path)
    snapshot = backtrace(target.pid, "-a", "-l")
    thread = thread_named(snapshot, "線程 ü 😀")
    own = [frame for frame in thread["frames"] if frame["file"] == path]
    assert [(frame["func"], frame["file"], frame["lineno"]) for frame in own] == [
        target.at("größe", "leaf"), target.at(py.q("Größe.計算"), "method")]
    assert own[0]["locals"] == {"straße": "'œuvre 😀'", "变量": "'値'"}
    assert stack_of(target.pid)[-1] == target.at("<module>", "module")


def test_paths_outside_of_utf8_locales(py, start, tmp_path):
    """Python has such a path with each byte escaped; it is shown as it is on disk."""
    path = str(tmp_path / "straße 線.py")
    shutil.copy(os.path.join(TARGETS, "simple.py"), path)
    target = start(Script, py, "simple.py", path=path, env={
        "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert stack_of(target.pid) == [
        target.at("leaf", "leaf"), target.at("middle", "middle"),
        target.at("main", "main"), target.at("<module>", "module")]
    assert path + ":" in probing(target.pid, "backtrace").stdout


def test_path_that_is_no_utf8(py, start, tmp_path):
    path = os.fsdecode(os.path.join(os.fsencode(str(tmp_path)), b"bad\xff.py"))
    shutil.copy(os.path.join(TARGETS, "simple.py"), path)
    target = start(Script, py, "simple.py", path=path)
    stack = stack_of(target.pid)
    assert [frame[0] for frame in stack] == ["leaf", "middle", "main", "<module>"]
    assert stack[0][2] == target.lines["leaf"]


def test_forked_children(shared):
    target = shared("forks.py")
    one, two, _zombie = target.extra
    for pid, name in ((target.pid, "parent"), (one, "child_one"), (two, "child_two")):
        snapshot = backtrace(pid, "-a")
        assert len(snapshot["threads"]) == 1
        assert snapshot["threads"][0]["tid"] == pid
        assert frames(main_thread(snapshot))[0] == target.at(name, name)


def test_thousand_threads(shared):
    target = shared("many.py", 1000)
    snapshot = backtrace(target.pid, "-a")
    names = {thread["name"] for thread in snapshot["threads"]}
    assert names == {"MainThread"} | {"worker-%d" % number for number in range(1000)}
    assert len({thread["tid"] for thread in snapshot["threads"]}) == 1001
    for thread in snapshot["threads"]:
        own = frames(thread, target.path)
        want = target.at("main", "main") if thread["is_main"] else target.at("worker", "worker")
        assert own[0] == want
