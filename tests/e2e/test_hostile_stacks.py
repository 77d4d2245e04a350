"""Root looks at the stacks of users who have arranged them against that: the look ends, needs
little memory, and opens nothing but source files."""
import os
import resource
import select
import subprocess

import pytest

import harness
import nodes
import patience
from strangers import FIRST, SECOND, Stranger, needs_root

pytestmark = needs_root


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))


@pytest.mark.parametrize("words", (["backtrace", "-a"], ["flamegraph", "-d", "1", "-o", "-"]),
                         ids=" ".join)
def test_tables_without_end(start, words):
    target = start(Stranger, FIRST, "stack_bomb.py", "lines")
    done = subprocess.run([harness.BIN, str(target.pid)] + words, env=harness.ENV,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          preexec_fn=limit_memory, timeout=120, check=False)
    assert done.returncode == 0 and "stack_bomb.py" in done.stdout, done


def test_a_node_that_samples_them(start, tmp_path):
    node = nodes.Node(tmp_path)
    try:
        for uid in (FIRST, SECOND):
            target = start(Stranger, uid, "stack_bomb.py", "lines")
            assert node(target.pid, "inject").returncode == 0
        sql = "SELECT count(*) AS n FROM python.samples WHERE pid = %d" % target.pid
        patience.until(lambda: node.rows(sql)[0]["n"] > 0)
        assert node.rows("SELECT count(*) AS n FROM python.backtrace", target.pid)
        assert "the server died" not in node.log()
    finally:
        node.stop()


def test_a_file_of_source_that_is_a_pipe(start, tmp_path):
    """Opening what the process names could be opening a device, too."""
    for part in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(str(part), 0o755)
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(str(folder), FIRST, FIRST)
    target = start(Stranger, FIRST, "stack_bomb.py", "source", folder / "source.py")
    for words in (["backtrace"], ["backtrace", "-v"], ["backtrace", "-f", "json"]):
        done = harness.probing(target.pid, *words, timeout=60)
        assert done.returncode == 0 and "source.py" in done.stdout, done
    assert select.select([target.process.stdout], [], [], 1)[0] == []
