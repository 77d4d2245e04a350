"""Completion in root's shell runs nothing that another user has put into the name of a program."""
import os
import shutil
import subprocess

import pytest

import harness
from strangers import FIRST, become, needs_root, python

pytestmark = [needs_root, pytest.mark.skipif(not shutil.which("bash"), reason="no bash")]
CODE = """cd "$1"; source <(probing completion bash)
COMP_WORDS=(probing "$2"); COMP_CWORD=1; _probing; printf '%s\\n' "${COMPREPLY[@]}" """


@pytest.fixture
def named(tmp_path):
    """A Python of another user whose file's name ends a line and asks for a command."""
    for part in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(str(part), 0o755)
    path, original = str(tmp_path / "python\n`>pwned`"), os.path.realpath(python())
    home = subprocess.check_output([original, "-c", "import sys; print(sys.base_prefix)"])
    shutil.copy(original, path)
    process = subprocess.Popen(
        [path, "-c", "import time; print(1, flush=True); time.sleep(600)"], cwd="/",
        preexec_fn=become(FIRST), stdout=subprocess.PIPE,
        env=dict(harness.ENV, PYTHONHOME=home.decode().strip()))
    assert process.stdout.readline() == b"1\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_program_named_like_a_command(named, tmp_path):
    path = os.path.dirname(harness.BIN) + os.pathsep + os.environ["PATH"]
    out = subprocess.run(["bash", "-c", CODE, "bash", str(tmp_path), str(named.pid)],
                         stdout=subprocess.PIPE, env=dict(harness.ENV, PATH=path), check=True)
    assert out.stdout.decode().split() == [str(named.pid)]
    assert not os.path.exists(str(tmp_path / "pwned"))
