"""What the options of backtrace do, and how the text reads."""
import json
import os
import re
import signal
import subprocess

import pytest

from harness import BIN, ENV, Script, backtrace, frames, main_thread, probing, states, thread_named

pytestmark = pytest.mark.few

HEADER = re.compile(r'^Thread (\d+) "(.*)"( · .*)?$')
FRAME = re.compile(r"^ *(\d+)  (\S.*?) +(\S.*:\d+)$")


def test_text_reads_like_a_traceback(shared):
    target = shared("simple.py")
    answer = probing(target.pid, "backtrace")
    assert answer.returncode == 0 and answer.stderr == ""
    lines = answer.stdout.splitlines()
    header = HEADER.match(lines[0])
    assert header.group(1) == str(target.pid) and header.group(2) == "MainThread"
    assert header.group(3).startswith(" · idle: ")
    shown = [FRAME.match(line).groups() for line in lines[1:5]]
    assert [item[:2] for item in shown] == [
        ("0", "leaf"), ("1", "middle"), ("2", "main"), ("3", "<module>")]
    for (_, _, place), marker in zip(shown, ("leaf", "middle", "main", "module")):
        assert place.endswith("simple.py:%d" % target.lines[marker])


def test_text_has_no_colour_in_a_pipe(shared):
    assert "\x1b" not in probing(shared("simple.py").pid, "backtrace", "-a", "-l", "-n").stdout


def test_text_shows_locals_below_their_frame(shared):
    lines = probing(shared("simple.py").pid, "backtrace", "-l").stdout.splitlines()
    stripped = [line.strip() for line in lines]
    assert stripped[2:5] == ["arg depth = 21", "arg label = 'inner'", "total = 42"]


def test_text_cuts_deep_recursion_and_counts(shared):
    target = shared("deep.py")
    text = probing(target.pid, "backtrace", "-a").stdout
    assert len(text.splitlines()) < 2000
    assert re.search(r"\d[\d,]* (more|frames)", text)
    assert "bottom" in text and "_bootstrap" in text


def test_aliases(shared):
    pid = shared("simple.py").pid
    outputs = {probing(pid, name).stdout for name in ("backtrace", "bt", "b")}
    assert len(outputs) == 1


def test_target_by_option(shared):
    pid = shared("simple.py").pid
    assert probing("-t", pid, "backtrace").stdout == probing(pid, "backtrace").stdout
    assert probing("backtrace", env={"PROBING_TARGET": str(pid)}).stdout == \
        probing(pid, "backtrace").stdout


def test_all_has_main_first(shared):
    target = shared("simple.py")
    snapshot = backtrace(target.pid, "-a")
    assert [thread["name"] for thread in snapshot["threads"]] == ["MainThread", "helper"]
    assert frames(thread_named(snapshot, "helper"), target.path) == [target.at("helper", "helper")]


def test_verbose_says_how_it_was_found(shared):
    answer = probing(shared("simple.py").pid, "backtrace", "-v")
    assert answer.returncode == 0
    assert answer.stdout.startswith("Thread ")
    assert answer.stderr.strip()


def test_watch_repeats_until_interrupted(shared):
    command = [BIN, str(shared("simple.py").pid), "backtrace", "-f", "json", "-w", "0.05"]
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
    found = [json.loads(tool.stdout.readline()) for _ in range(4)]
    tool.send_signal(signal.SIGINT)
    _out, error = tool.communicate(timeout=60)
    assert tool.returncode == 130 and error == b""
    assert all(main_thread(item)["frames"][0]["func"] == "leaf" for item in found)


def test_watch_with_a_count_ends(shared):
    answer = probing(shared("simple.py").pid, "backtrace", "-a", "-f", "json", "-w", "0",
                     "--count", "25")
    assert answer.returncode == 0
    assert len([json.loads(line) for line in answer.stdout.splitlines()]) == 25


def test_long_watch_keeps_its_answers(shared):
    answer = probing(shared("locals.py").pid, "backtrace", "-a", "-l", "-n", "-f", "json",
                     "-w", "0", "--count", "200")
    assert answer.returncode == 0
    found = [json.loads(line)["threads"] for line in answer.stdout.splitlines()]
    assert len(found) == 200 and all(item == found[0] for item in found)


@pytest.mark.parametrize("script", ["spin.py", "threads.py"])
def test_long_watch_keeps_its_size(any_py, start, script):
    target = start(Script, any_py, script)
    command = [BIN, str(target.pid), "backtrace", "-a", "-n", "-l", "-f", "json", "-w", "0"]
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENV)
    try:
        # A snapshot that had to be tried again takes more for once; a leak goes on.
        tops = [0]
        while len(tops) < 3 or tops[-1] - tops[-2] >= 512:
            sizes = []
            for number in range(1, 301):
                assert tool.stdout.readline()
                if number % 25 == 0:
                    sizes.append(resident_kb(tool.pid))
            tops.append(max(sizes))
            assert len(tops) < 8, tops
    finally:
        tool.kill()
        tool.wait()
        tool.stdout.close()


def resident_kb(pid):
    with open("/proc/%d/status" % pid) as file:
        return int([line for line in file if line.startswith("VmRSS")][0].split()[1])


def test_watch_ends_with_its_target(any_py, start):
    target = start(Script, any_py, "simple.py")
    command = [BIN, str(target.pid), "backtrace", "-w", "0.05"]
    tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
    tool.stdout.readline()
    os.kill(target.pid, signal.SIGKILL)
    target.process.wait()
    out, error = tool.communicate(timeout=60)
    assert (tool.returncode, error.count(b"\n")) == (4, 1), error


def test_pause_reads_the_same_and_lets_go(shared):
    target = shared("threads.py")
    plain, paused = backtrace(target.pid, "-a"), backtrace(target.pid, "-a", "--pause")
    by_tid = {thread["tid"]: frames(thread) for thread in plain["threads"]}
    assert {thread["tid"]: frames(thread) for thread in paused["threads"]} == by_tid
    assert set(states(target.pid)) <= set("SDR")


def test_pause_reports_how_long(shared):
    answer = probing(shared("spin.py").pid, "backtrace", "--pause")
    assert answer.returncode == 0
    assert re.search(r"\d+(\.\d+)? (µs|us|ms)", answer.stdout + answer.stderr)


def test_no_pause_reads_blocked_threads_whole(shared):
    target = shared("simple.py")
    thread = main_thread(backtrace(target.pid, "--no-pause"))
    assert not thread["torn"] and frames(thread)[0] == target.at("leaf", "leaf")


def test_no_pause_on_a_busy_thread_is_right_or_torn(shared):
    target = shared("spin.py")
    legal = (["inner", "outer", "main", "<module>"], ["outer", "main", "<module>"],
             ["main", "<module>"])
    for _ in range(30):
        thread = main_thread(backtrace(target.pid, "--no-pause"))
        assert thread["torn"] or [frame[0] for frame in frames(thread)] in legal


def test_pause_and_no_pause_exclude_each_other(shared):
    answer = probing(shared("simple.py").pid, "backtrace", "--pause", "--no-pause")
    assert answer.returncode == 2 and answer.stdout == ""


def test_bad_thread_id(shared):
    assert probing(shared("simple.py").pid, "backtrace", "abc").returncode == 2


def test_nothing_is_written_to_the_target(shared):
    """A look from outside leaves no trace: no tracer, no new thread, no new mapping."""
    pid = shared("simple.py").pid

    def shape():
        with open("/proc/%d/maps" % pid) as file:
            maps = file.read()
        return maps, sorted(os.listdir("/proc/%d/task" % pid)), os.listdir("/proc/%d/fd" % pid)

    before = shape()
    for options in (["-a"], ["-a", "-l"], ["-a", "-n"], ["-a", "--pause"]):
        assert probing(pid, "backtrace", *options).returncode == 0
    assert shape() == before
