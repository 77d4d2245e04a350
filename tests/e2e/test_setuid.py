"""A process that was root when the agent came and is somebody else now is still found."""
import harness
import patience
from nodes import node  # noqa: F401
from strangers import FIRST, needs_root

pytestmark = needs_root
DROP = "import os; os.setgroups([]); os.setgid(%d); os.setuid(%d)" % (FIRST, FIRST)


def test_eval_config_and_rows(start, node, any_py):  # noqa: F811
    target = start(harness.Script, any_py, "probed.py")
    assert node(target.pid, "inject").returncode == 0
    rows = "SELECT count(*) AS n FROM python.memory"
    patience.until(lambda: node.rows(rows, target.pid)[0]["n"] > 0)
    assert node(target.pid, "eval", DROP).returncode == 0
    with open("/proc/%d/status" % target.pid) as file:
        assert [line for line in file if line.startswith("Uid")][0].split()[2] == str(FIRST)
    answer = node(target.pid, "eval", "os.geteuid()")
    assert answer.stdout == "%d\n" % FIRST, answer
    assert node(target.pid, "config", "eval.timeout").returncode == 0
    before = node.rows(rows, target.pid)[0]["n"]
    patience.until(lambda: node.rows(rows, target.pid)[0]["n"] > before)
    assert node(target.pid, "eject").returncode == 0
