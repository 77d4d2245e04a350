"""A dead process answers: killed with a node at work, without one, and from a copied folder."""
import json
import os
import shutil

import pytest

import agents
import patience
from nodes import node  # noqa: F401  (a fixture)
from numbering import Numbers, assert_whole, kill_node


def copy_store(target, to):
    """Tables and all but the socket."""
    shutil.copytree(store_of(target), to, ignore=shutil.ignore_patterns("control"))


def store_of(target):
    return "/dev/shm/probing-%d/%s" % (os.getuid(), target.id)


def test_killed_while_a_node_works(start, any_py, node, tmp_path):  # noqa: F811
    node("serve")
    target = start(Numbers, any_py, node, tmp_path)
    target.wait_for(3000)
    written = target.kill()
    rows = assert_whole(node, target.pid, written)
    # Once dead, all of it goes to disk at once, and says the same.
    assert patience.until(lambda: target.sealed(node) >= written)
    assert assert_whole(node, target.pid, written) == rows


def test_killed_without_a_node(start, any_py, node, tmp_path):  # noqa: F811
    """Nor does it matter whether its parent has noticed."""
    target = start(Numbers, any_py, node, tmp_path)
    target.wait_for(3000)
    written = target.kill(wait=False)
    assert node.pid() is None
    for _ in range(2):
        dead = node("list", "--dead")
        assert dead.returncode == 0 and str(target.pid) in dead.stdout
        assert_whole(node, target.pid, written)
        assert_whole(node, target.id, written)
        target.process.wait()


def test_shared_memory_is_gone_as_well(start, any_py, node, tmp_path):  # noqa: F811
    """History alone is enough."""
    node("serve")
    target = start(Numbers, any_py, node, tmp_path)
    target.wait_for(2000)
    written = target.kill()
    rows = assert_whole(node, target.pid, written)
    assert patience.until(lambda: target.sealed(node) >= written)
    kill_node(node)
    shutil.rmtree(store_of(target))
    assert assert_whole(node, target.pid, written) == rows


def test_copied_folder(start, any_py, node, tmp_path):  # noqa: F811
    """As sent by a colleague: nothing of this machine is asked."""
    target = start(Numbers, any_py, node, tmp_path)
    target.wait_for(2000)
    written = target.kill()
    copy = str(tmp_path / "copy")
    copy_store(target, os.path.join(copy, target.id))
    shutil.rmtree(store_of(target))
    answer = node("--store", copy, "query", "SELECT count(*) AS c, max(n) + 1 AS m FROM "
                  "python.numbers", "-f", "csv")
    assert answer.returncode == 0, answer
    rows, most = (int(word) for word in answer.stdout.split("\n")[1].split(","))
    assert rows == most and written <= rows <= written + 1000
    # The folder of one process will do, and all may have other names: of a day, say.
    day, renamed = str(tmp_path / "2026-11"), str(tmp_path / "rank 0, crashed")
    shutil.copytree(copy, day)
    shutil.copytree(os.path.join(copy, target.id), renamed)
    for folder in (os.path.join(copy, target.id), day, renamed):
        answer = node("--store", folder, target.pid, "query",
                      "SELECT count(*) FROM python.numbers", "-f", "csv")
        assert answer.returncode == 0 and str(rows) in answer.stdout, (folder, answer)
        answer = node("--store", folder, "list", "--dead", "-f", "csv")
        assert target.id in answer.stdout, (folder, answer)
    assert node.pid() is None
    answer = node(target.pid, "query", "SELECT 1")
    assert answer.returncode == 4, answer


def test_crash(start, any_py, node, tmp_path):  # noqa: F811
    """A segmentation fault leaves as much as a kill."""
    target = start(Numbers, any_py, node, tmp_path)
    target.wait_for(2000)
    os.kill(target.pid, 11)
    target.process.wait()
    assert_whole(node, target.pid, target.written())


def test_reused_pid_is_another_process(start, any_py, node, tmp_path):  # noqa: F811
    """Rows of the dead one are not those of a living process with its number."""
    target = start(Numbers, any_py, node, tmp_path)
    target.wait_for(1000)
    target.kill()
    living = start(Numbers, any_py, node, tmp_path)
    living.wait_for(500)
    # As if the number had been used before: the same pid, an earlier start.
    earlier = "/dev/shm/probing-%d/%d-1" % (os.getuid(), living.pid)
    copy_store(target, earlier)
    try:
        written = living.halt()
        assert_whole(node, living.pid, written)
        row, = node.rows("SELECT max(n) AS m FROM python.numbers", target="%d-1" % living.pid)
        assert row["m"] >= 999
    finally:
        shutil.rmtree(earlier)


def dead(node, target):
    """The line of `list --dead` for a process."""
    rows = json.loads(node("list", "--dead", "-f", "json").stdout)
    return [row for row in rows if row["pid"] == target.pid]


@pytest.mark.parametrize("code, how, state", [
    ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV", "killed"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", "killed"),
    ("os._exit(3)", "exit 3", "ended")])
def test_how_it_ended(start, any_py, node, code, how, state):  # noqa: F811
    """As the kernel tells whoever has watched it."""
    node("serve")
    target = start(agents.Probed, any_py)
    assert node(target.pid, "inject", "-D", "memory.interval=0.1").returncode == 0
    patience.until(lambda: node.rows("SELECT 1 FROM python.memory LIMIT 1", target.pid))
    node(target.pid, "eval", "import os, signal; " + code)
    patience.until(lambda: dead(node, target) and dead(node, target)[0]["how"])
    assert dead(node, target)[0]["how"] == how
    sql = "SELECT state, reason FROM probing.agents WHERE collector = 'agent'"
    assert node.rows(sql, target.pid) == [{"state": state, "reason": how}]


def test_one_that_was_left_and_runs_on_is_not_dead(start, any_py, node, tmp_path):  # noqa: F811
    """Its rows are in the history; when it has ended, nobody has seen when."""
    node("serve")
    target = start(Numbers, any_py, node, tmp_path)
    target.wait_for(3000)
    target.halt()
    assert node(target.pid, "eject").returncode == 0
    assert dead(node, target) == []
    kill_node(node)
    target.kill()
    row, = dead(node, target)
    assert row["ended"] is None and row["seen"]
    line, = [line for line in node("list", "--dead").stdout.splitlines()
             if line.split()[0] == str(target.pid)]
    assert " after 20" in line
