"""Names, ids, states and what each thread waits for, on every interpreter."""
import os

import pytest

import patience
from harness import backtrace, frames, main_thread, probing, thread_named

SLEEP = {"clock_nanosleep", "select", "pselect6"}
SELECT = {"select", "pselect6"}
WAITS = {
    "wait-sleep": SLEEP, "wait-lock": {"futex"}, "wait-lock-timed": {"futex"},
    "wait-rlock": {"futex"}, "wait-condition": {"futex"}, "wait-condition-timed": {"futex"},
    "wait-event": {"futex"}, "wait-semaphore": {"futex"}, "wait-barrier": {"futex"},
    "wait-queue": {"futex"}, "wait-join": {"futex"}, "wait-read": {"read"},
    "wait-select": SELECT, "wait-poll": {"poll", "ppoll"},
    "wait-epoll": {"epoll_wait", "epoll_pwait"},
    "wait-recv": {"recvfrom"}, "wait-accept": {"accept", "accept4"}, "wait-child": {"wait4"},
    "wait-signal": {"rt_sigtimedwait"}, "wait-nested": SLEEP,
}
# Asleep by their own wish, or ready for whatever comes; the others wait for something.
IDLE = {"wait-sleep", "wait-nested", "wait-epoll", "wait-accept", "wait-signal"}


@pytest.fixture(scope="module")
def waiting(shared):
    target = shared("threads.py")
    return target, backtrace(target.pid, "-a")


def test_every_thread_is_there(waiting):
    target, snapshot = waiting
    names = sorted(thread["name"] for thread in snapshot["threads"])
    assert names == sorted(list(WAITS) + ["MainThread"])
    tids = sorted(thread["tid"] for thread in snapshot["threads"])
    assert tids == sorted(map(int, os.listdir("/proc/%d/task" % target.pid)))
    assert main_thread(snapshot)["tid"] == target.pid


def test_each_waits_in_its_line(waiting, py):
    target, snapshot = waiting
    for name in WAITS:
        thread, func = thread_named(snapshot, name), name.replace("-", "_")
        own = frames(thread, target.path)
        if name == "wait-nested":
            assert own.pop(0) == target.at(py.q("wait_nested.<locals>.inner"), "inner")
        assert own == [target.at(func, func)], name
        assert frames(thread)[-1][0] == py.q("Thread._bootstrap"), name


def test_each_says_what_it_waits_for(waiting):
    _target, snapshot = waiting
    for name, calls in WAITS.items():
        thread = thread_named(snapshot, name)
        assert thread["wait"] in calls, (name, thread["wait"])
        assert thread["state"] == ("idle" if name in IDLE else "waiting"), name
        assert not thread["holds_gil"] and not thread["torn"], name


def test_one_thread_by_its_id(waiting):
    target, snapshot = waiting
    for name in ("wait-poll", "wait-queue"):
        wanted = thread_named(snapshot, name)
        answer = backtrace(target.pid, str(wanted["tid"]))
        assert [thread["tid"] for thread in answer["threads"]] == [wanted["tid"]]
        assert frames(answer["threads"][0]) == frames(wanted)


def test_unknown_thread_id(waiting):
    target, _snapshot = waiting
    answer = probing(target.pid, "backtrace", "1")
    assert answer.returncode == 4
    assert answer.stdout == "" and answer.stderr.count("\n") == 1


def test_gil_held_inside_c(py, shared):
    if py.free_threaded:
        pytest.skip("no GIL in this build")
    target = shared("gil_hold.py")
    # The one that wants the GIL wakes up every few milliseconds to ask again.
    snapshot = patience.once(lambda: backtrace(target.pid, "-a"),
                             lambda found: thread_named(found, "wants")["wait"])
    holder = main_thread(snapshot)
    assert frames(holder)[:2] == [target.at("hold", "hold"), target.at("main", "main")]
    assert holder["holds_gil"]
    assert (holder["state"], holder["wait"]) == ("idle", "clock_nanosleep")
    other = thread_named(snapshot, "wants")
    assert not other["holds_gil"]
    assert (other["state"], other["wait"]) == ("waiting", "futex")
    assert frames(other, target.path)[0][0] == "wants"


def test_deadlock(shared):
    target = shared("deadlock.py")
    snapshot = backtrace(target.pid, "-a")
    for name, func in (("one", "left_then_right"), ("two", "right_then_left")):
        thread = thread_named(snapshot, name)
        assert frames(thread)[0] == target.at(func, func)
        assert (thread["state"], thread["wait"]) == ("waiting", "futex")
        assert not thread["holds_gil"]


@pytest.mark.parametrize("option", ["--limit=0", "--pause"])
def test_recursion_that_never_rests(shared, option):
    """Calls and returns only: a look in the midst of one is taken again."""
    target, torn = shared("recursing.py"), 0
    for _ in range(25):
        thread = main_thread(backtrace(target.pid, option))
        torn += thread["torn"]
        names = [frame[0] for frame in frames(thread)]
        assert thread["torn"] or names in [["down"] * count + ["main", "<module>"]
                                           for count in range(202)], names
    assert torn == 0


def test_busy_thread(shared, py):
    target = shared("spin.py")
    torn = 0
    for _ in range(20):
        # Even this one sleeps at times: in a page fault.
        thread = patience.once(lambda: main_thread(backtrace(target.pid)),
                               lambda found: found["state"] == "running")
        assert (thread["state"], thread["wait"]) == ("running", None)
        # A look that met it in the middle of a call each time says so: less than one in 100.
        torn += thread["torn"]
        if thread["torn"]:
            continue
        assert thread["holds_gil"] or py.free_threaded
        names = [frame[0] for frame in frames(thread)]
        assert names in (["inner", "outer", "main", "<module>"],
                         ["outer", "main", "<module>"], ["main", "<module>"])
        own = frames(thread)
        if names[0] == "inner":
            assert own[1:] == [target.at("outer", "outer"), target.at("main", "main"),
                               target.at("<module>", "module")]
    assert torn <= 2
