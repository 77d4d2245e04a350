"""Somebody else takes the name of a user's folder in shared memory: it does no harm."""
import os
import shutil
import subprocess

import pytest

import harness
from strangers import FIRST, SECOND, Stranger, needs_root, python, run

pytestmark = needs_root


@pytest.fixture(params=("folder", "link", "file"))
def squatted(request, tmp_path):
    """The name of FIRST's folder, taken by SECOND in both roots."""
    taken = ["%s/probing-%d" % (root, FIRST) for root in ("/dev/shm", "/tmp")]
    for path in taken:
        command = {"folder": ["mkdir", "-m", "0777", path], "link": ["ln", "-s", "/etc", path],
                   "file": ["touch", path]}[request.param]
        assert run(SECOND, *command).returncode == 0
    yield taken
    for root in ("/dev/shm", "/tmp"):
        for name in os.listdir(root):
            if name.startswith("probing-%d" % FIRST):
                subprocess.run(["rm", "-rf", os.path.join(root, name)], check=False)


def test_inject_eval_and_query(start, tmp_path, squatted):
    for part in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        os.chmod(str(part), 0o755)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(str(home), FIRST, FIRST)
    env = {"PROBING_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / "config"),
           "HOME": str(home)}
    target = start(Stranger, FIRST, "probed.py")
    try:
        for words in (["inject"], ["eval", "1 + 1"], ["config", "eval.timeout"],
                      ["query", "SELECT count(*) FROM python.memory"]):
            answer = run(FIRST, harness.BIN, target.pid, *words, env=env)
            assert answer.returncode == 0, (words, answer)
        made = [name for name in os.listdir("/dev/shm")
                if name.startswith("probing-%d-" % FIRST)]
        assert len(made) == 1, made
        assert oct(os.stat("/dev/shm/" + made[0]).st_mode & 0o777) == "0o700"
        # Root finds it as well, also when the other one has gone.
        assert harness.probing(target.pid, "eval", "1 + 1").stdout == "2\n"
        for path in squatted:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        assert run(FIRST, harness.BIN, target.pid, "eval", "1 + 1", env=env).stdout == "2\n"
    finally:
        run(FIRST, harness.BIN, "serve", "--stop", env=env)


def test_the_package_finds_its_agent(squatted):
    """probing.is_enabled() in a process that was started with PROBING=1."""
    package = os.path.join(harness.ROOT, "python")
    code = ("import sys; sys.path.insert(0, %r); from probing import _agent; "
            "print(len(list(_agent.folders('/dev/shm'))))" % package)
    assert run(FIRST, python(), "-c", code).stdout == "0\n"
    spare = "/dev/shm/probing-%d-0123456789abcdef" % FIRST
    assert run(FIRST, "mkdir", "-m", "0700", spare).returncode == 0
    assert run(FIRST, python(), "-c", code).stdout == "1\n"
