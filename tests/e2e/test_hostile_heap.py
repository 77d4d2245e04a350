"""Root looks at the objects of users who have arranged their memory against that: the look ends,
needs little memory, and says that it is not whole."""
import resource
import subprocess

import pytest

import harness
import nodes
import patience
from strangers import FIRST, Stranger, needs_root

pytestmark = needs_root
NOTE = "its tables lead to more than it has in memory"


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))


@pytest.mark.parametrize("how", ("lists", "far"))
def test_the_command_ends(start, how):
    target = start(Stranger, FIRST, "heap_bomb.py", how)
    done = subprocess.run([harness.BIN, str(target.pid), "memory", "--heap"], env=harness.ENV,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          preexec_fn=limit_memory, timeout=60, check=False)
    assert done.returncode == 0 and NOTE in done.stdout, done


def test_the_node_lives_and_the_time_of_a_query_holds(start, tmp_path):
    """A server that is inside one function for ten seconds more than it may be is ended."""
    target = start(Stranger, FIRST, "heap_bomb.py", "lists")
    node = nodes.Node(tmp_path)
    try:
        assert node("serve", "--listen", "127.0.0.1:0").returncode == 0
        answer = node(target.pid, "query", "--timeout", "1", "SELECT sum(count) FROM python.heap",
                      timeout=90)
        # In time with what it has in memory, or not: never longer.
        assert answer.returncode == 5 or (answer.returncode == 0 and NOTE in answer.stderr), answer
        patience.meanwhile(11)
        assert node.rows("SELECT 1 AS one") == [{"one": 1}]
        assert "the server died" not in node.log()
    finally:
        node.stop()
