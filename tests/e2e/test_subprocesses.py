"""A process with all that it started, in one command."""
import json
import re

from harness import Script, main_thread, probing


def tree(pid, *options):
    answer = probing(pid, "backtrace", "-s", "-f", "json", *options)
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def innermost(snapshot):
    return main_thread(snapshot)["frames"][0]["func"]


def test_launcher_ranks_and_workers(py, shared):
    target = shared("launcher.py")
    found = tree(target.pid)
    by_pid = {snapshot["pid"]: snapshot for snapshot in found}
    assert len(by_pid) == len(found) == 6 and found[0]["pid"] == target.pid
    assert found[0]["parent"] is None and innermost(found[0]) == "launcher"
    # Each process comes in front of its children.
    for index, snapshot in enumerate(found[1:], 1):
        assert snapshot["parent"] in [earlier["pid"] for earlier in found[:index]]
    shells = [snapshot for snapshot in found if not snapshot["threads"]]
    assert len(shells) == 1 and shells[0]["error"] is None
    assert shells[0]["parent"] == target.pid and "/bin/sh" in shells[0]["command"]
    ranks = [one for one in found if one["threads"] and innermost(one) == "rank"]
    assert [(one["rank"], one["world_size"], one["parent"]) for one in ranks] == [
        (0, 2, target.pid), (1, 2, shells[0]["pid"])]
    workers = [one for one in found if one["threads"] and innermost(one) == "worker"]
    assert [one["parent"] for one in workers] == [one["pid"] for one in ranks]


def test_as_a_tree_of_text(shared):
    target = shared("launcher.py")
    answer = probing(target.pid, "backtrace", "-s")
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    heads = [line.split(" · ") for line in lines if "Process " in line]
    assert [re.sub(r"\d+", "N", head[0]) for head in heads] == [
        "Process N", "├─ Process N", "│  └─ Process N", "└─ Process N", "   └─ Process N",
        "      └─ Process N"]
    assert heads[1][1] == "rank 0/2" and heads[3][2] == "not Python"
    assert "│  │   0  rank      %s:%d" % (target.path, target.lines["rank"]) in lines
    assert sum("  0  worker " in line for line in lines) == 2


def test_only_itself_without_the_option(shared):
    target = shared("launcher.py")
    assert len(probing(target.pid, "backtrace", "-f", "json").stdout.splitlines()) == 1


def test_other_options_hold_for_all(shared):
    found = tree(shared("forks.py").pid, "-a", "-n", "-l")
    assert len(found) == 3
    for snapshot in found:
        kinds = {frame["frame_type"] for frame in main_thread(snapshot)["frames"]}
        assert kinds == {"native", "python"}


def test_a_parent_that_is_no_python(any_py, start, tmp_path):
    script = tmp_path / "run.sh"
    script.write_text('"$@"\ntrue\n')
    target = start(Script, any_py, "simple.py",
                   command=["/bin/sh", str(script), any_py.command])
    found = tree(target.process.pid)
    assert [one["pid"] for one in found] == [target.process.pid, target.pid]
    assert innermost(found[1]) == "leaf"


def test_refusals(shared, start):
    target = shared("launcher.py")
    answer = probing(target.pid, "backtrace", "-s", str(target.pid))
    assert answer.returncode == 2 and "--subprocesses" in answer.stderr
    answer = probing(999999999, "backtrace", "-s")
    assert answer.returncode == 4 and answer.stderr.count("\n") == 1
