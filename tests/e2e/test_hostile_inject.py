"""Root injects into the process of somebody who means harm: root's own files stay as they are."""
import os

import pytest

import harness
import injecting
from strangers import FIRST, SECOND, Stranger, needs_root

pytestmark = needs_root


@pytest.fixture(scope="module")
def swapper():
    libraries = injecting.Libraries()
    yield libraries.get("swap_descriptor")
    libraries.close()


@pytest.fixture
def open_folder(tmp_path):
    """A folder that everybody may look into."""
    for part in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(str(part), 0o755)
    return tmp_path


@pytest.mark.parametrize("uid", (FIRST, SECOND))
def test_a_descriptor_that_is_swapped_for_a_file_of_root(start, swapper, open_folder, uid):
    """The target can name a file that it may not write; nobody writes it in its name."""
    secret = open_folder / "secret"
    secret.write_bytes(b"root's own\n")
    secret.chmod(0o600)
    for _ in range(3):  # a race; the target may be too slow for once
        target = start(Stranger, uid, "swap_descriptor.py", swapper, secret)
        harness.probing(target.pid, "inject", timeout=20)
        assert secret.read_bytes() == b"root's own\n"


def test_a_descriptor_that_is_swapped_for_a_pipe(start, swapper, open_folder):
    """Nobody reads from it: whoever opens it for writing would wait for ever."""
    pipe = str(open_folder / "pipe")
    os.mkfifo(pipe)
    os.chmod(pipe, 0o666)
    target = start(Stranger, FIRST, "swap_descriptor.py", swapper, pipe)
    harness.probing(target.pid, "inject", timeout=20)
