"""The node beside a training: few threads, low priority, not on the cores of pinned ranks."""
import os

import pytest

import harness
import patience
from nodes import node  # noqa: F401 (node is a fixture)

CORES = sorted(os.sched_getaffinity(0))


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


def threads(pid):
    """Of each thread: nice, and the cores it may use."""
    found = []
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/stat" % (pid, tid)) as file:
            nice = int(file.read().rpartition(")")[2].split()[16])
        found.append((nice, os.sched_getaffinity(int(tid))))
    return found


@pytest.mark.skipif(os.nice(0) >= 10, reason="the tests themselves have low priority")
def test_the_engine_works_with_low_priority(node):
    node.rows("SELECT 1 AS one")
    server, = children(node.pid())
    low = [nice for nice, _ in threads(server) if nice >= 10]
    assert len(low) >= 1 if len(CORES) > 1 else True
    assert len(low) <= max(2, len(CORES) // 2) + 1  # and its allocator's


LONG = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(%d) b"


def test_several_queries_at_once_stay_on_half_of_the_cores(node):
    """Also the threads that answer requests: the kernel holds all to it. Who works for long has low
    priority, and who comes then is still answered at once."""
    node.rows("SELECT 1 AS one")
    asked = [node.start("query", "--timeout", "20", LONG % number) for number in range(9000, 9004)]
    try:
        server, = children(node.pid())
        patience.until(lambda: len([1 for nice, _ in threads(server) if nice >= 10]) >=
                       len(asked) + (len(CORES) > 1))
        used = set().union(*(cores for _, cores in threads(server)))
        assert len(used) <= max(min(len(CORES), 2), len(CORES) // 2), used
        assert node.rows("SELECT 1 AS one") == [{"one": 1}]
    finally:
        for process in asked:
            process.kill()
            process.communicate()


@pytest.mark.skipif(len(CORES) < 2, reason="one core")
def test_cores_of_a_pinned_process_are_left_to_it(node, any_py, start):
    """Also when the node was started by the pinned one."""
    core = CORES[0]
    target = start(harness.Script, any_py, "simple.py")
    os.sched_setaffinity(target.pid, {core})
    assert node(target.pid, "inject").returncode == 0
    os.sched_setaffinity(0, {core})
    try:
        node.rows("SELECT 1 AS one")
    finally:
        os.sched_setaffinity(0, CORES)
    server, = children(node.pid())

    def moved():
        return all(core not in cores and cores for _, cores in threads(server))

    patience.until(moved)
    target.stop()
    patience.until(lambda: all(core in cores for _, cores in threads(server)))
