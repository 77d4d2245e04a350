"""Several interpreters in one process, on one thread and on several."""
import pytest

from harness import backtrace, frames, main_thread, natives, order, probing, thread_named


@pytest.fixture(autouse=True)
def can(py):
    if py.minor < (3, 8):
        pytest.skip("interpreters made from Python need 3.8")


def functions(thread):
    return [frame["func"] for frame in thread["frames"] if frame["frame_type"] == "python"]


EXPECTED = ["innermost", "<module>", "between", "<module>", "outer"]


def test_nested_on_one_thread(shared):
    target = shared("interpreters.py")
    snapshot = backtrace(target.pid, "-a")
    assert len(snapshot["threads"]) == 1
    thread = main_thread(snapshot)
    assert functions(thread) == EXPECTED + ["main", "<module>"]
    assert frames(thread, target.path) == [
        target.at("outer", "outer"), target.at("main", "main"), target.at("<module>", "module")]
    assert not thread["torn"]
    # Number 1 was made first, and runs nothing.
    assert [frame["interpreter"] for frame in thread["frames"]] == [3, 3, 2, 2, 0, 0, 0]
    assert thread["interpreter"] == 3


def test_the_text_says_whose_frames_follow(shared):
    lines = probing(shared("interpreters.py").pid, "backtrace").stdout.splitlines()
    assert lines[0].endswith(" · interpreter 3")
    words = [line.split() for line in lines[1:]]
    assert [line if line[0] == "interpreter" else line[1] for line in words] == [
        ["interpreter", "3"], "innermost", "<module>", ["interpreter", "2"], "between", "<module>",
        ["interpreter", "0"], "outer", "main", "<module>"]


def test_each_stands_in_its_part_of_the_c_stack(shared):
    thread = main_thread(backtrace(shared("interpreters.py").pid, "-n"))
    assert functions(thread) == EXPECTED + ["main", "<module>"]
    assert thread["note"] is None
    names = order(thread)
    modules = [index for index, name in enumerate(names) if name == "<module>"]
    # Each interpreter was entered by the C function of the module that makes them.
    for start, end in ((modules[0], names.index("between")), (modules[1], names.index("outer"))):
        assert any("run_string" in name or "interp" in name for name in names[start:end]), names
    assert not any("_PyEval_EvalFrameDefault" in name for name in natives(thread)), names


def test_on_two_threads(shared):
    target = shared("interpreters.py", "thread")
    snapshot = backtrace(target.pid, "-a", "-n")
    assert len(snapshot["threads"]) == 2
    for thread in snapshot["threads"]:
        assert functions(thread)[:5] == EXPECTED, thread["name"]
        assert not any("_PyEval_EvalFrameDefault" in name for name in natives(thread))
    thread_named(snapshot, "nested")


def test_thread_that_another_interpreter_started(py, shared):
    if (3, 9) <= py.minor <= (3, 11):
        pytest.skip("its interpreters start no threads")
    snapshot = backtrace(shared("interpreters.py", "inside").pid, "-a")
    assert len(snapshot["threads"]) == 2
    thread = thread_named(snapshot, "inside")
    assert functions(thread)[0] == "inside" and thread["interpreter"] == 3


def test_the_header_counts_threads(shared):
    answer = probing(shared("interpreters.py").pid, "backtrace", "-a")
    assert "1 thread\n" in answer.stdout.splitlines(True)[0]
