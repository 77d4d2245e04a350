"""`probing launch` and `run`: the agent from the first line on, everything else as without it."""
import glob
import json
import os
import shutil
import signal
import stat
import subprocess
import sys

import pytest

import family
import harness
from family import CHILDREN, SCRIPT, Family

pytestmark = pytest.mark.few
FACTS = """
import json, os, signal, sys

print(json.dumps({"pid": os.getpid(), "argv": sys.argv[1:], "stdin": sys.stdin.read(),
                  "tty": os.isatty(0), "pipe": str(signal.getsignal(signal.SIGPIPE))}))
sys.stderr.write("err\\n")
"""


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def launch(cache):
    """launch(words...): the tool's launch with a cache folder of the tests' own."""
    def start(*words, name="launch", env=None, **how):
        return Family([harness.BIN, name] + list(words),
                      env=dict({"XDG_CACHE_HOME": str(cache)}, **(env or {})), **how)
    return start


@pytest.fixture
def plain(cache):
    """The tool's launch of something that is not family.py."""
    def start(*words, env=None, **how):
        return subprocess.run([harness.BIN, "run"] + [str(word) for word in words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              env=family.environment(dict({"XDG_CACHE_HOME": str(cache)},
                                                          **(env or {}))), **how)
    return start


@pytest.fixture(scope="module")
def modern(py):
    if py.minor < (3, 6):
        pytest.skip("the agent begins at 3.6")
    if py.wrapped:
        pytest.skip("its files are elsewhere")
    return py.command


def test_first_process_only(launch, modern):
    out = launch(modern, SCRIPT, *CHILDREN)
    assert out.agents() == {"main": True, "fork": False, "subprocess": False, "spawn": False}
    assert out.stderr == out.enabled_line() and out.status == 7
    assert out.children["subprocess"]["pythonpath"] is None


def test_recursive(launch, modern):
    out = launch("-r", modern, SCRIPT, *CHILDREN, name="run")
    assert out.agents() == {"main": True, "fork": True, "subprocess": True, "spawn": True}
    assert out.stderr == out.enabled_line() and out.status == 7


def test_exec_keeps_it(launch, modern):
    assert launch(modern, SCRIPT, "exec").agents() == {"main": True, "exec": True}


def test_path_is_as_without(launch, modern, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.path.append('was here')\n")
    env = {"PYTHONPATH": "%s:some/where" % tmp_path}
    bare = Family([modern, SCRIPT, "subprocess"], env=env)
    out = launch("-r", modern, SCRIPT, "subprocess", env=env)
    assert out.main["agent"] and out.children["subprocess"]["agent"]
    assert "was here" in bare.main["path"]
    for ours, theirs in ((out.main, bare.main),
                         (out.children["subprocess"], bare.children["subprocess"])):
        assert ours["path"] == theirs["path"] and ours["site"] == theirs["site"]


def test_error_in_users_sitecustomize(launch, modern, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("1 / 0\n")
    env = {"PYTHONPATH": str(tmp_path)}
    bare, out = Family([modern, SCRIPT], env=env), launch(modern, SCRIPT, env=env)
    assert out.main["agent"]
    assert "ZeroDivisionError" in bare.stderr
    assert out.stderr == out.enabled_line() + bare.stderr


def test_only(launch, modern):
    assert launch("--only", "family.py", modern, SCRIPT).main["agent"]
    assert not launch("--only", "other.py", modern, SCRIPT).main["agent"]
    out = launch("--only", "regex:child", modern, SCRIPT, "subprocess")
    assert out.agents() == {"main": False, "subprocess": True}
    refused = launch("--only", "other", modern, SCRIPT)
    assert refused.status == 2 and "neither name.py nor regex:PATTERN" in refused.stderr


def test_shell_in_between(launch, modern):
    out = launch("sh", "-c", "%s %s; exit 5" % (modern, SCRIPT))
    assert out.main["agent"] and out.status == 5


def test_settings_from_file(launch, any_py, tmp_path):
    config = tmp_path / "probes.yaml"
    config.write_text("probing:\n  eval:\n    timeout: 7.5\n")
    assert launch("-c", config, any_py.command, SCRIPT).main["timeout"] == "7.5"
    config.write_text("eval.timeot: 5\n")
    out = launch("--config", config, any_py.command, SCRIPT)
    assert (out.status, out.told) == (2, [])
    assert out.stderr == ("probing: %s: line 1: no setting 'eval.timeot'. Did you mean "
                          "'eval.timeout'?\n" % config)


def test_started_in_place(plain, any_py, cache):
    """Pid, words, input and output, signals: all its own."""
    words = ["-v", "--help", "--", "-r", "", "a b"]
    process = subprocess.Popen([harness.BIN, "run", any_py.command, "-c", FACTS] + words,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE,
                               env=family.environment({"XDG_CACHE_HOME": str(cache)}))
    out, err = process.communicate(b"hello", timeout=60)
    facts = json.loads(out.decode())
    assert facts == {"pid": process.pid, "argv": words, "stdin": "hello", "tty": False,
                     "pipe": str(signal.SIG_IGN)}
    assert err.decode() == "Probing enabled for process %d\nerr\n" % process.pid
    # SIGPIPE ends a program that does not ask for anything else.
    assert plain("sh", "-c", "kill -PIPE $$").returncode == -signal.SIGPIPE
    assert plain("sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    assert plain("--", "sh", "-c", "exit 42").returncode == 42


def test_interrupt(any_py, cache):
    code = "import time\ntry:\n print('up', flush=True); time.sleep(60)\n" \
           "except KeyboardInterrupt:\n print('caught')"
    process = subprocess.Popen([harness.BIN, "run", any_py.command, "-c", code],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=family.environment({"XDG_CACHE_HOME": str(cache)}))
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == b"caught\n" and process.returncode == 0


def test_no_such_command(plain, tmp_path):
    answer = plain("no-such-command-here")
    assert (answer.returncode, answer.stderr) == (
        4, b"probing: no-such-command-here: No such file or directory\n")
    script = tmp_path / "script"
    script.write_text("")
    answer = plain(script)
    assert answer.returncode == 3 and b"Permission denied" in answer.stderr
    answer = plain()
    assert answer.returncode == 2 and b"COMMAND is missing" in answer.stderr


def test_interpreters_without_site(launch, any_py):
    for flag in ("-I", "-S", "-E"):
        out = launch(any_py.command, flag, SCRIPT)
        assert not out.main["agent"] and out.status == 7 and out.stderr == ""


def old_python():
    """A Python that the agent does not know, or None."""
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    found = sorted(glob.glob(os.path.join(root, "versions", "2*", "bin", "python2")))
    return shutil.which("python2") if not found else found[0]


def test_old_python_is_left_alone(plain):
    if not old_python():
        pytest.skip("no Python 2")
    answer = plain("-r", old_python(), "-c", "import sys; print(sys.modules['sitecustomize'])")
    assert (answer.returncode, answer.stderr) == (0, b"")


def test_whole_package_is_carried(launch, any_py, tmp_path):
    out = launch(any_py.command, SCRIPT, env={"XDG_CACHE_HOME": str(tmp_path)})
    folder = tmp_path / "probing" / os.listdir(str(tmp_path / "probing"))[0]
    assert out.main["pythonpath"] == str(folder)
    here = {path.name for path in (folder / "probing").iterdir() if path.is_file()}
    source = os.path.join(harness.ROOT, "python", "probing")
    assert here == {"_version.py", "libprobing.so"} | {
        name for name in os.listdir(source) if name.endswith(".py")}
    # What is damaged is made again; what belongs to others is not used.
    (folder / "probing" / "libprobing.so").write_bytes(b"short")
    assert launch(any_py.command, SCRIPT, env={"XDG_CACHE_HOME": str(tmp_path)}).main["agent"]
    (tmp_path / "probing").chmod(0o777)
    home = tmp_path / "home"
    home.mkdir()
    out = launch(any_py.command, SCRIPT, env={"XDG_CACHE_HOME": str(tmp_path), "HOME": str(home)})
    assert out.main["agent"]
    assert out.main["pythonpath"].startswith(str(home / ".cache" / "probing"))
    assert stat.S_IMODE(os.stat(out.main["pythonpath"]).st_mode) == 0o700


def test_torchrun(launch, tmp_path):
    """Workers of torchrun, with the interpreter of the tests where it has torch."""
    if subprocess.run([sys.executable, "-c", "import torch.distributed.run"],
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no torch")
    out = launch("-r", sys.executable, "-m", "torch.distributed.run", "--standalone",
                 "--nproc-per-node", "2", SCRIPT, "child", "worker", cwd=str(tmp_path),
                 env={"TMPDIR": str(tmp_path)})
    assert [one["agent"] for one in out.told] == [True, True], out.stderr
