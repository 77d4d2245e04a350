"""C frames merged between the Python frames."""
import os
import shutil
import subprocess

import pytest

from harness import TARGETS, Target, backtrace, main_thread, natives, order, thread_named


def find(names, *wanted):
    """True when the wanted names appear in this order; native ones by part."""
    place = iter(names)
    return all(any(want == name or (want[0] == "[" and want[1:-1] in name and name[0] == "[")
                   for name in place) for want in wanted)


def test_sleep_ends_in_libc(shared):
    target = shared("simple.py")
    thread = main_thread(backtrace(target.pid, "-n"))
    names = order(thread)
    assert thread["frames"][0]["frame_type"] == "native"
    inner = names[:names.index("leaf")]
    assert any("nanosleep" in name or "select" in name for name in inner[:4]), inner
    assert find(names, "leaf", "middle", "main", "<module>")
    assert [frame["depth"] for frame in thread["frames"]] == list(range(len(names)))


def test_python_frames_are_the_same_with_native_ones(shared):
    for name in ("callbacks.py", "generators.py"):
        pid = shared(name).pid
        plain = main_thread(backtrace(pid))
        merged = main_thread(backtrace(pid, "-n"))
        assert [frame["func"] for frame in plain["frames"]] == \
            [frame["func"] for frame in merged["frames"] if frame["frame_type"] == "python"]


def test_stack_reaches_the_start(shared):
    target = shared("callbacks.py")
    names = order(main_thread(backtrace(target.pid, "-n")))
    after = names[names.index("<module>") + 1:]
    assert after, "nothing below <module>"
    assert any("libc_start" in name or "_start" in name or "libc.so" in name for name in after)


def test_qsort_stands_between_its_python_frames(shared):
    target = shared("callbacks.py")
    names = order(main_thread(backtrace(target.pid, "-n")))
    between = names[names.index("by_compare") + 1:names.index("by_qsort")]
    assert any("qsort" in name for name in between), between
    assert any("ffi" in name for name in between), between


def test_c_callers_stand_in_their_places(shared):
    target = shared("callbacks.py")
    names = order(main_thread(backtrace(target.pid, "-n")))
    pairs = [("by_key", "by_star", "sort"), ("by_partial", "by_key", "partial")]
    for callee, caller, part in pairs:
        between = names[names.index(callee) + 1:names.index(caller)]
        inner = [name for name in between if name[0] == "["]
        assert inner, (callee, names)
        # A stripped interpreter's own functions have no names, and get none.
        assert any(part in name or "+0x" in name for name in inner), (callee, between)


def test_native_frames_say_their_module(shared):
    thread = main_thread(backtrace(shared("simple.py").pid, "-n"))
    first = thread["frames"][0]
    assert "libc" in (first.get("module") or first["file"] or "")


def test_all_threads(shared):
    target = shared("threads.py")
    snapshot = backtrace(target.pid, "-a", "-n")
    assert len(snapshot["threads"]) == 21
    for thread in snapshot["threads"]:
        assert natives(thread), thread["name"]
        assert not thread["torn"], thread["name"]
    assert find(order(thread_named(snapshot, "wait-poll")), "[poll]", "wait_poll")
    assert find(order(thread_named(snapshot, "wait-epoll")), "[epoll_wait]", "wait_epoll")
    assert find(order(thread_named(snapshot, "wait-accept")), "[accept]", "wait_accept")


def test_busy_thread_is_read_whole(shared):
    target = shared("spin.py")
    for _ in range(10):
        thread = main_thread(backtrace(target.pid, "-n"))
        names = order(thread)
        assert names.count("<module>") == 1 and find(names, "main", "<module>")
        assert names[-1][0] == "["


def test_deep_recursion(shared):
    target = shared("deep.py")
    thread = thread_named(backtrace(target.pid, "-a", "-n", "--limit", "0"), "deep")
    assert sum(frame["func"] == "recurse" for frame in thread["frames"]) == 10000
    assert thread["frames"][-1]["frame_type"] == "native"


@pytest.mark.parametrize("compiler, dwarf, aranges", [
    ("cc", "-gdwarf-4", True), ("cc", "-gdwarf-5", True), ("cc", "-gdwarf-4", False),
    ("cc", "-gdwarf-5", False), ("clang", "-gdwarf-4", True), ("clang", "-gdwarf-5", True)])
def test_name_and_line_are_of_one_function(any_py, start, tmp_path, compiler, dwarf, aranges):
    """The symbol is the outer function's, and so is the line: where it calls what was inlined."""
    if not shutil.which(compiler) or (not aranges and not shutil.which("objcopy")):
        pytest.skip("no %s, or no objcopy" % compiler)
    source, library = os.path.join(TARGETS, "inlined.c"), str(tmp_path / "inlined.so")
    subprocess.run([compiler, "-O2", dwarf, "-fPIC", "-shared", "-o", library, source], check=True)
    if not aranges:  # which clang never writes
        subprocess.run(["objcopy", "--remove-section", ".debug_aranges", library], check=True)
    target = start(Target, [any_py.command, "-c", "import ctypes, os\n"
                            "rest = ctypes.CDLL(%r).probing_rest\n"
                            "os.write(1, b'ready %%d\\n' %% os.getpid())\nrest(100000)" % library])
    target.settle()
    thread = main_thread(backtrace(target.pid, "-n"))
    frame, = [frame for frame in thread["frames"] if frame["func"] == "probing_rest"]
    with open(source) as file:
        line, = [number for number, text in enumerate(file, 1) if "LINE:rest" in text]
    assert (os.path.basename(frame["file"]), frame["lineno"]) == ("inlined.c", line)
