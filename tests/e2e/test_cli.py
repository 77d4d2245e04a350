"""The command line itself: grammar, help, exit codes, output that cannot be written."""
import os
import pty
import shutil
import signal
import subprocess

import pytest

import harness

COMMANDS = ["list", "backtrace", "query", "tables", "export", "memory", "flamegraph", "top",
            "profile", "crashes", "diagnose", "hang", "slow", "leak", "inject", "eject", "eval",
            "repl", "config", "launch", "attach", "cluster", "serve", "web", "token",
            "completion", "help", "version"]


def answer(result):
    return result.returncode, result.stdout, result.stderr


def test_version(probing):
    for words in (["--version"], ["-V"], ["version"]):
        assert answer(probing(*words)) == (0, "probing 0.1.0\n", "")


def test_help_lists_what_exists(probing):
    result = probing("--help")
    assert result.returncode == 0 and not result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Probing CLI - ")
    assert lines[2] == "Usage: probing [OPTIONS] [TARGET] [COMMAND]"
    start = lines.index("Commands:") + 1
    listed = [line.split()[0] for line in lines[start:lines.index("", start)]]
    assert listed == COMMANDS
    assert answer(probing()) == answer(probing("help")) == answer(result)
    for title in ("Arguments:", "Options:"):
        assert title in lines


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(probing, name):
    result = probing(name, "--help")
    assert result.returncode == 0 and not result.stderr
    assert "\nUsage: probing " in result.stdout
    assert answer(probing("help", name)) == answer(result)
    assert answer(probing("42", name, "-h")) == answer(result)


@pytest.mark.parametrize("words, message", [
    (["42", "bactrace"], "unknown command 'bactrace'. Did you mean 'backtrace'?"),
    (["42", "zzzzz"], "unknown command 'zzzzz'"),
    (["list", "--formt", "json"], "unknown option '--formt'. Did you mean '--format'?"),
    (["list", "-f", "xml"], "--format: 'xml' is not one of table|json|csv"),
    (["backtrace"], "backtrace needs a target: probing <TARGET> backtrace"),
    (["backtrace", "42"], "backtrace needs a target in front of it. Try: probing 42 backtrace"),
    (["42"], "no command for target '42'. Try: probing 42 backtrace"),
    (["42", "list"], "list takes no target, but got '42'"),
    (["host:8080", "inject", "--force"],
     "--force works on the target's own machine only, not on host:8080"),
    (["--store", "/tmp", "42", "backtrace"], "--store: backtrace looks at living processes"),
    (["query"], "query: SQL is missing"),
    (["help", "nothing"], "help: no command 'nothing'"),
])
def test_wrong_usage(probing, words, message):
    result = probing(*words)
    assert result.returncode == 2 and not result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == "probing: " + message
    assert len(lines) == 2 and lines[1].startswith("Usage: probing ")


def test_no_such_target(probing):
    for words in (["4194999", "backtrace"], ["99999999999999999999", "backtrace"]):
        assert answer(probing(*words)) == (
            4, "", "probing: %s: no such process\n" % words[0])
    result = probing("nothing is called like this", "backtrace")
    assert result.returncode == 4 and result.stderr.count("\n") == 1


def test_target_by_part_of_the_command_line(probing, start, any_py):
    one = start(harness.Script, any_py, "simple.py", "only-this-one")
    by_pid = probing(one.pid, "backtrace", "-f", "json")
    for words in (["only-this-one", "backtrace"], ["-t", "only-this-one", "backtrace"],
                  ["backtrace", "-t", one.pid]):
        result = probing(*words, "-f", "json")
        assert result.returncode == 0, result.stderr
        assert result.stdout[:20] == by_pid.stdout[:20]
    for name in ("PROBING_TARGET", "ENDPOINT"):
        assert probing("backtrace", env={name: str(one.pid)}).returncode == 0


def test_target_that_is_not_alone(probing, start, any_py):
    pair = [start(harness.Script, any_py, "simple.py", "one-of-a-pair") for _ in range(2)]
    result = probing("one-of-a-pair", "backtrace")
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert lines[0] == "probing: 'one-of-a-pair' matches 2 processes; give the pid of one"
    assert sorted(int(line.split()[0]) for line in lines[1:]) == sorted(t.pid for t in pair)


def test_output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        result = subprocess.run([harness.BIN, "help"], stdout=full, stderr=subprocess.PIPE,
                                encoding="utf-8", check=False)
    assert result.returncode == 1
    assert result.stderr == "probing: cannot write the output: No space left on device\n"


def test_reader_that_went_away():
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run([harness.BIN, "help"], stdout=write_end, stderr=subprocess.PIPE,
                            check=False)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, b"")


def test_ctrl_c(start, any_py):
    target = start(harness.Script, any_py, "simple.py")
    tool = subprocess.Popen([harness.BIN, str(target.pid), "backtrace", "-w", "10"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert tool.stdout.readline()
    tool.send_signal(signal.SIGINT)
    out, error = tool.communicate(timeout=60)
    assert (tool.returncode, error) == (130, b""), out


def on_terminal(*words, **env):
    """What the tool writes to a terminal."""
    try:
        master, slave = pty.openpty()
    except OSError as error:
        pytest.skip("no terminal to be had: %s" % error)
    env = dict(harness.ENV, **dict({"TERM": "xterm"}, **env))
    subprocess.run([harness.BIN] + list(words), stdout=slave, stderr=subprocess.DEVNULL,
                   stdin=subprocess.DEVNULL, env=env, check=True)
    os.close(slave)
    text = b""
    try:
        while True:
            piece = os.read(master, 65536)
            if not piece:
                break
            text += piece
    except OSError:  # the other end is closed
        pass
    os.close(master)
    return text.decode()


def test_colours_only_on_a_terminal(probing):
    assert "\033[" in on_terminal("help")
    assert "\033[" not in on_terminal("help", NO_COLOR="1")
    assert "\033[" not in on_terminal("help", TERM="dumb")
    assert "\033[" not in probing("help", env={"TERM": "xterm"}).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_valid_script(probing, shell, tmp_path):
    result = probing("completion", shell)
    assert result.returncode == 0
    assert "backtrace" in result.stdout and "native" in result.stdout
    if not shutil.which(shell):
        pytest.skip("no %s on this machine" % shell)
    script = tmp_path / "script"
    script.write_text(result.stdout)
    subprocess.run([shell, "-n", str(script)], check=True)


def complete_in_bash(probing, tmp_path, *words):
    script = tmp_path / "completion"
    script.write_text(probing("completion", "bash").stdout)
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _probing; ' \
           'printf "%s\\n" "${COMPREPLY[@]}"'
    path = os.path.dirname(harness.BIN) + os.pathsep + os.environ["PATH"]
    out = subprocess.run(["bash", "-c", code, "bash", str(script), "probing"] + list(words),
                         stdout=subprocess.PIPE, env=dict(harness.ENV, PATH=path), check=True)
    return out.stdout.decode().split()


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_completion_in_bash(probing, tmp_path):
    assert complete_in_bash(probing, tmp_path, "li") == ["list"]
    assert complete_in_bash(probing, tmp_path, "42", "back") == ["backtrace"]
    assert complete_in_bash(probing, tmp_path, "42", "bt", "--loc") == ["--locals"]
    assert complete_in_bash(probing, tmp_path, "list", "-f", "") == ["table", "json", "csv"]
    assert complete_in_bash(probing, tmp_path, "completion", "f") == ["fish"]
    assert str(os.getpid()) in complete_in_bash(probing, tmp_path, str(os.getpid()))


def test_manual_page(probing):
    result = probing("man")
    assert result.returncode == 0
    for name in COMMANDS:
        assert "\n.SS %s\n" % name in result.stdout
    assert result.stdout.startswith(".TH PROBING 1 ")
    assert "probing 0.1.0" in result.stdout
    if shutil.which("groff"):
        check = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], encoding="utf-8",
                               input=result.stdout, stderr=subprocess.PIPE, check=True)
        assert check.stderr == ""
