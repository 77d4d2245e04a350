"""The wheel: installing it, what PROBING does with it, and `import probing`."""
import glob
import os
import subprocess
import sys
import textwrap

import pytest

import family
import harness
from family import CHILDREN, SCRIPT, Family
from nodes import node  # noqa: F401 (a fixture)
from ranks import free_port

pytestmark = pytest.mark.few


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    tool = os.path.join(harness.ROOT, "tools", "wheel")
    run = subprocess.run([sys.executable, tool, os.path.dirname(harness.BIN), str(folder)],
                         stdout=subprocess.PIPE, check=True)
    return run.stdout.decode().strip()


class Venv:
    """A virtual environment with the wheel installed by the interpreter's own pip."""

    def __init__(self, py, folder, wheel):
        self.folder = str(folder)
        self.python = os.path.join(self.folder, "bin", "python")
        # Bytecode is written, as at any user's.
        self.env = {"PYTHONDONTWRITEBYTECODE": None}
        subprocess.run([py.command, "-m", "venv", "--without-pip", "--system-site-packages",
                        self.folder], check=True, env=family.environment())
        self.before = self.files()
        self.pip("install", "--no-index", wheel)

    def files(self):
        return {path for path in glob.glob(self.folder + "/**", recursive=True)
                if os.path.isfile(path)}

    def pip(self, *words):
        env = family.environment(dict(self.env, PIP_DISABLE_PIP_VERSION_CHECK="1"))
        return subprocess.run([self.python, "-m", "pip", "-q"] + list(words), check=True, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)

    def family(self, *words, options=(), env=None, **how):
        how.setdefault("cwd", self.folder)
        command = [self.python] + list(options) + [SCRIPT] + list(words)
        return Family(command, env=dict(self.env, **(env or {})), **how)

    def python_run(self, code, env=None, **how):
        how.setdefault("stderr", subprocess.PIPE)
        return subprocess.run([self.python, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, timeout=60, cwd=self.folder,
                              env=family.environment(dict(self.env, **(env or {}))), **how)


def usable(py):
    if py.minor < (3, 6):
        pytest.skip("the agent begins at 3.6")
    if py.wrapped:
        pytest.skip("its files are elsewhere")
    if subprocess.run([py.command, "-c", "import pip, venv"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no pip")
    return py


@pytest.fixture(scope="module")
def venv(py, wheel, tmp_path_factory):
    return Venv(usable(py), tmp_path_factory.mktemp("venv"), wheel)


def test_install(venv):
    tool = os.path.join(venv.folder, "bin", "probing")
    version = subprocess.run([tool, "--version"], stdout=subprocess.PIPE).stdout
    code = "import probing; print('probing', probing.__version__)"
    assert venv.python_run(code).stdout == version


def test_sql(venv, node):
    """The engine comes with it."""
    tool = os.path.join(venv.folder, "bin", "probing")
    answer = subprocess.run([tool, "query", "-f", "csv", "select 41 + 1 as n"],
                            env=dict(harness.ENV, **node.env), stdout=subprocess.PIPE)
    assert answer.stdout == b"n\n42\n"


def test_unset_imports_nothing(venv):
    for env in ({}, {"PROBING": ""}, {"PROBING": "0"}, {"PROBE": ""}, {"PROBING_QUIET": "1"}):
        out = venv.family("subprocess", env=env)
        assert out.agents() == {"main": False, "subprocess": False}
        assert out.main["threads"] == 1 and out.stderr == "" and out.status == 7
        if not {"PROBING", "PROBE"} & set(env):
            assert out.main["imported"] == []


@pytest.mark.parametrize("name, value", [("PROBING", "1"), ("PROBE", "1"), ("PROBING", "followed")])
def test_this_process_only(venv, name, value):
    out = venv.family(*CHILDREN, env={name: value})
    assert out.agents() == {"main": True, "fork": False, "subprocess": False, "spawn": False}
    assert out.stderr == out.enabled_line() and out.status == 7


@pytest.mark.parametrize("name, value", [("PROBING", "2"), ("PROBE", "nested")])
def test_children_too(venv, name, value):
    out = venv.family(*CHILDREN, env={name: value})
    assert out.agents() == {"main": True, "fork": True, "subprocess": True, "spawn": True}
    assert out.stderr == out.enabled_line()


@pytest.mark.parametrize("value", ["1", "2"])
def test_exec_keeps_it(venv, value):
    out = venv.family("exec", env={"PROBING": value})
    assert out.agents() == {"main": True, "exec": True}
    assert out.children["exec"]["pid"] == out.main["pid"]
    assert out.stderr == out.enabled_line()


def test_forks_by_setting(venv):
    env = {"PROBING": "1", "PROBING_AGENT_FOLLOW_FORKS": "on"}
    assert venv.family("fork", env=env).agents() == {"main": True, "fork": True}
    env = {"PROBING": "2", "PROBING_AGENT_FOLLOW_FORKS": "off"}
    assert venv.family("fork", env=env).agents() == {"main": True, "fork": False}


def test_by_script_name(venv):
    out = venv.family("subprocess", env={"PROBING": "family.py"})
    assert out.agents() == {"main": True, "subprocess": True}
    assert not venv.family(env={"PROBING": "other.py"}).main["agent"]
    assert not venv.family(env={"PROBING": "amily.py"}).main["agent"]
    assert venv.family(env={"PROBING": "some/where/family.py"}).main["agent"]
    assert venv.family(env={"PROBING": "family.py"}, options=["-u", "-X", "dev", "-Wignore"]
                       ).main["agent"]
    module = Family([venv.python, "-Bm", "family"], env={"PROBING": "family.py"},
                    cwd=harness.TARGETS)
    assert module.main["agent"]
    code = venv.python_run("import sys; print('probing.libprobing' in sys.modules)",
                           env={"PROBING": "family.py"})
    assert (code.stdout, code.stderr) == (b"False\n", b"")


def test_by_regex(venv):
    out = venv.family("subprocess", env={"PROBING": r"regex:fam\w+\.py subprocess"})
    assert out.agents() == {"main": True, "subprocess": False}
    assert out.stderr == out.enabled_line()
    out = venv.family(env={"PROBING": "regex:(unclosed"})
    assert not out.main["agent"] and out.status == 7
    assert out.stderr.startswith("probing: not enabled: ") and out.stderr.count("\n") == 1


def test_nonsense_is_said_once(venv):
    out = venv.family("subprocess", env={"PROBING": "yes please"})
    assert out.agents() == {"main": False, "subprocess": False}
    assert out.stderr == ("probing: not enabled: PROBING=yes please is none of 0, 1, 2, name.py, "
                          "regex:PATTERN\n")


def test_quiet(venv):
    assert venv.family(env={"PROBING": "1", "PROBING_QUIET": "1"}).stderr == ""


def test_port(venv, node):
    """The node listens for the process; a program that says no is left alone."""
    port = free_port()
    env = dict(node.env, PROBING_PORT=str(port))
    out = venv.family("subprocess", env=env)
    assert out.agents() == {"main": True, "subprocess": False} and out.status == 7
    begin = (out.enabled_line() + "Probing server listening on 0.0.0.0:%d\n" % port
             + "probing: token: in ")
    assert out.stderr.startswith(begin) and out.stderr.count("\n") == begin.count("\n") + 1
    assert not venv.family(env=dict(env, PROBING="0")).main["agent"]
    out = venv.family(env=dict(env, PROBING_PORT="none"))
    assert out.main["agent"] and out.stderr.startswith(out.enabled_line() + "probing: ")
    assert out.stderr.count("\n") == 2 and out.status == 7


def test_interpreter_flags(venv):
    for flag in ("-I", "-E", "-s", "-BO"):
        assert venv.family(env={"PROBING": "1"}, options=[flag]).main["agent"], flag
    out = venv.family(env={"PROBING": "1"}, options=["-S"])
    assert not out.main["agent"] and out.stderr == ""


def test_without_stderr(venv):
    out = venv.family(env={"PROBING": "1"}, stderr=None, preexec_fn=lambda: os.close(2))
    assert out.main["agent"] and out.status == 7


def test_broken_library(venv):
    path, = glob.glob(venv.folder + "/lib/*/site-packages/probing/libprobing.so")
    os.rename(path, path + ".good")
    with open(path, "wb") as file:
        file.write(b"not a library")
    try:
        out = venv.family("subprocess", env={"PROBING": "1"})
    finally:
        os.rename(path + ".good", path)
    assert out.agents() == {"main": False, "subprocess": False} and out.status == 7
    assert out.stderr.startswith("probing: not enabled: ") and out.stderr.count("\n") == 1


def test_functions(venv):
    run = venv.python_run("""
        import probing
        print(probing.is_enabled(), probing.enable(eval_timeout=5), probing.is_enabled())
        print(probing.enable({"probing.eval.timeout": 7.25}), probing.config["eval.timeout"])
        probing.config["agent.follow_forks"] = False
        print(probing.config.get("agent.follow_forks"), "eval.timeout" in probing.config)
        print(sorted(probing.config) == sorted(probing.config.list()), len(probing.config) > 2)
        for bad in ({"eval.timeot": 3}, {"eval.timeout": -1}, {"": 1}):
            try:
                probing.config.update(bad)
            except ValueError as error:
                print(error)
        print(probing.config.get("nothing", "default"))
        print(probing.disable(), probing.disable(), probing.is_enabled())
        try:
            probing.enable({"eval.timeot": 3})
        except KeyError as error:
            print(error, probing.is_enabled())
        try:
            probing.config["eval.timeout"]
        except probing.AgentError as error:
            print(error)
        """)
    assert run.stderr == b""
    assert run.stdout.decode() == textwrap.dedent("""\
        False True True
        False 7.25
        False True
        True True
        no setting 'eval.timeot'. Did you mean 'eval.timeout'?
        eval.timeout: '-1' is not a number from 0.05 to 86400
        no setting ''''
        default
        True False False
        no setting 'eval.timeot'. Did you mean 'eval.timeout'? False
        the agent is not running: probing.enable() starts it
        """)


def test_the_tool_finds_it(venv, start):
    target = start(harness.Target, [venv.python, os.path.join(harness.TARGETS, "simple.py")],
                   env={"PROBING": "1", "PROBING_EVAL_TIMEOUT": "4.5"})
    answer = harness.probing(target.pid, "inject")
    assert (answer.returncode, answer.stdout) == (
        0, "Probes are already in process %d\n" % target.pid)
    answer = harness.probing(target.pid, "eval", "import probing; probing.config['eval.timeout']")
    assert (answer.stdout, answer.stderr) == ("4.5\n", "")
    assert harness.probing(target.pid, "eject").returncode == 0


def test_uninstall(venv):
    """The last one: nothing is left, and nothing complains."""
    venv.pip("uninstall", "-y", "probing")
    assert venv.files() == venv.before
    out = venv.family(env={"PROBING": "1"})
    assert not out.main["agent"] and out.stderr == ""
