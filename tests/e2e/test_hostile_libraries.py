"""Root looks at processes whose mapped files mean harm: it is not ended, and ends in time."""
import os
import time

import pytest

import harness
import nodes
from strangers import FIRST, SECOND, Stranger, needs_root

pytestmark = needs_root


@pytest.fixture
def folder(tmp_path):
    """One that everybody may write to."""
    for part in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(str(part), 0o755)
    made = tmp_path / "open"
    made.mkdir()
    made.chmod(0o777)
    return made


@pytest.mark.parametrize("uid", (FIRST, SECOND))
def test_a_library_that_is_cut_off_again_and_again(start, folder, uid):
    target = start(Stranger, uid, "strange_library.py", "cut", folder)
    for _ in range(10):
        done = harness.probing(target.pid, "backtrace", timeout=60)
        assert done.returncode == 0 and "strange_library.py" in done.stdout, done


@pytest.mark.parametrize("how", ("vast", "many"))
def test_a_library_without_end(start, folder, how):
    target = start(Stranger, FIRST, "strange_library.py", how, folder)
    began = time.monotonic()
    done = harness.probing(target.pid, "backtrace", timeout=60)
    assert done.returncode == 0 and "strange_library.py" in done.stdout, done
    done = harness.probing("list", timeout=60)
    assert done.returncode == 0 and str(target.pid) in done.stdout, done
    assert time.monotonic() - began < 20


def test_a_node_that_finds_such_processes(start, folder, tmp_path):
    """It looks at every process of the machine for Python."""
    for how in ("cut", "vast"):
        (folder / how).mkdir()
        (folder / how).chmod(0o777)
        start(Stranger, FIRST, "strange_library.py", how, folder / how)
    node = nodes.Node(tmp_path)
    try:
        for _ in range(5):
            assert node.rows("SELECT 1 AS one") == [{"one": 1}]
            assert node.rows("SELECT count(*) AS n FROM python.threads")[0]["n"] >= 2
        assert "the server died" not in node.log()
    finally:
        node.stop()
