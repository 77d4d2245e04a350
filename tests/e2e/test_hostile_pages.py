"""A page of a process may never come: that of a file whose file system hangs, or one that its user
holds back. The kernel then ends the wait by SIGKILL alone; nobody waits for ever all the same."""
import os
import signal
import subprocess
import time

import pytest

import harness
import marks
import nodes
import patience
from strangers import FIRST, needs_root, python

SETTING = "/proc/sys/vm/unprivileged_userfaultfd"
pytestmark = [needs_root, pytest.mark.skipif(not os.path.exists(SETTING), reason="no userfaultfd")]
REASON = "its memory did not come"


def held(start):
    """A process of another user that holds a page back, which takes root to arrange like this."""
    return start(harness.Target, [python(), os.path.join(harness.TARGETS, "held_page.py"),
                                  str(FIRST)], cwd="/")


@pytest.mark.parametrize("words", [["backtrace"]] + marks.rarely(
    ["flamegraph", "-d", "1", "-o", "-"], ["memory", "--heap"]), ids=" ".join)
def test_a_command_ends(start, words):
    target = held(start)
    done = harness.probing(target.pid, *words, timeout=60)
    assert done.returncode == 5 and "%d: its memory does not come" % target.pid in done.stderr, done


def test_control_c(start):
    target = held(start)
    tool = subprocess.Popen([harness.BIN, str(target.pid), "backtrace"], env=harness.ENV,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    time.sleep(1)
    tool.send_signal(signal.SIGINT)
    assert tool.wait(timeout=5) == 130


def test_a_node_goes_on_without_it(start, any_py, tmp_path):
    """It samples others and answers for them, and says why it does not for that one."""
    node = nodes.Node(tmp_path)
    try:
        own = start(harness.Script, any_py, "probed.py")
        assert node(own.pid, "inject").returncode == 0
        target = held(start)
        assert node(target.pid, "inject").returncode == 0
        assert node.rows("SELECT 1 AS one") == [{"one": 1}]
        patience.until(lambda: "set aside" in node.log())
        pids = "SELECT DISTINCT pid FROM python.stacks"
        patience.until(lambda: {"pid": own.pid} in node.rows(pids))
        assert REASON in node.rows("SELECT string_agg(reason) AS why FROM probing.agents",
                                   target.pid)[0]["why"]
        newest = "SELECT count(*) AS n FROM python.samples WHERE timestamp > now() - 5"
        patience.until(lambda: node.rows(newest, own.pid)[0]["n"])
        assert node.log().count("was stuck in the memory of process") == 1, node.log()
    finally:
        node.stop()
