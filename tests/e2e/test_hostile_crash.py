"""A crash of another user's process is not taken by root, who would write files that it names."""
import os

import pytest

from strangers import FIRST, SECOND, Stranger, needs_root
import nodes

pytestmark = needs_root


@pytest.mark.parametrize("uid", (FIRST, SECOND))
def test_files_that_the_process_names(start, tmp_path, uid):
    for part in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(str(part), 0o755)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir(0o700)
    os.chown(str(theirs), uid, uid)
    target = start(Stranger, uid, "forged_crash.py", theirs / "address",
                   env={"TORCHELASTIC_ERROR_FILE": str(ours / "planted"), "HOME": str(ours),
                        "PROBING_HOME": str(ours / "home")})
    root = nodes.Node(tmp_path)
    done = root("crashes", "--take", "%d:%s" % (target.pid, (theirs / "address").read_text()))
    assert done.returncode == 1 and "no crash to be read" in done.stderr, done
    assert os.listdir(str(ours)) == []
