"""Root with the environment of another user, as sudo may leave it: that user's folders are not
root's own, neither to read nor to write."""
import os

import pytest

import nodes
from strangers import FIRST, needs_root

pytestmark = needs_root
PLANTED = "planted-by-somebody-else"


def listing(folder):
    return sorted((os.path.join(top, name), os.lstat(os.path.join(top, name)).st_uid)
                  for top, folders, files in os.walk(folder) for name in folders + files)


@pytest.fixture
def theirs(tmp_path):
    """Another user's folder, with a token and a link to a folder of root."""
    folder, ours = tmp_path / "theirs", tmp_path / "elsewhere"
    (folder / "probing").mkdir(parents=True)
    (folder / ".config").mkdir()
    ours.mkdir()
    os.symlink(str(ours), str(folder / "history"))
    os.symlink("../probing", str(folder / ".config" / "probing"))
    (folder / "probing" / "token").write_text(PLANTED + "\n")
    (folder / "probing" / "token").chmod(0o600)
    for path in [str(folder)] + [path for path, _ in listing(folder)]:
        os.lchown(path, FIRST, FIRST)
    return folder


def test_tokens_and_history(tmp_path, theirs):
    (tmp_path / "home").mkdir()
    root = nodes.Node(tmp_path, HOME=tmp_path / "home", XDG_CONFIG_HOME=theirs,
                      XDG_DATA_HOME=theirs, XDG_STATE_HOME=theirs, XDG_CACHE_HOME=theirs)
    del root.env["PROBING_HOME"]
    before = listing(theirs)
    try:
        answer = root("token")
        assert answer.returncode == 0 and PLANTED not in answer.stdout
        assert root("query", "SELECT 1").returncode == 0
        assert (tmp_path / "home" / ".local" / "share" / "probing" / "lake").is_dir()
        assert (tmp_path / "home" / ".config" / "probing" / "token").exists()
    finally:
        root.stop()
    assert listing(theirs) == before


@pytest.mark.parametrize("name", ("data", "history", "history/below"))
def test_a_folder_that_another_user_can_swap(tmp_path, theirs, name):
    """A link of theirs that leads to a folder of root may lead elsewhere the next time."""
    answer = nodes.Node(tmp_path, PROBING_HOME=theirs / name)("query", "SELECT 1")
    assert answer.returncode == 3 and "other users could put" in answer.stderr, answer
    assert not (theirs / "data").exists() and os.listdir(str(tmp_path / "elsewhere")) == []
