"""probing --core FILE backtrace: what a process did when it died, against how it was seen alive."""
import json
import os
import shutil
import subprocess

import pytest

import cores
from harness import BIN, Script, probing

TARGETS = ["threads.py", "locals.py", "deep.py"]


def read(*command):
    answer = probing(*(command + ("-f", "json")))
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def stacks(look, native=False):
    """Of each thread what a reader sees of it."""
    return {thread["tid"]: [(frame["func"], frame["file"], frame["lineno"], frame["locals"])
                            for frame in thread["frames"]
                            if native or frame["frame_type"] == "python"]
            for thread in look["threads"]}


@pytest.mark.parametrize("script", TARGETS)
def test_the_dead_say_what_the_living_said(start, py, tmp_path, script):
    target = start(Script, py, script, cwd=str(tmp_path))
    cores.allow(target)
    target.settle()
    living = read(target.pid, "backtrace", "-a", "-l", "-n")
    path = cores.dump_by_kernel(target, tmp_path)
    dead = read("--core", path, "backtrace", "-a", "-l", "-n")
    assert (dead["pid"], dead["python"]) == (target.pid, living["python"])
    assert stacks(dead) == stacks(living)
    assert stacks(dead, True) == stacks(living, True)
    assert not any(thread["torn"] for thread in dead["threads"])
    names = {thread["tid"]: thread["name"] for thread in living["threads"] if thread["is_python"]}
    assert names == {thread["tid"]: thread["name"] for thread in dead["threads"]
                     if thread["is_python"]}
    assert {thread["state"] for thread in dead["threads"]} == {"dumped"}
    # Who got the signal comes first.
    assert [thread["wait"] for thread in dead["threads"]].count("SIGABRT") == 1
    assert dead["threads"][0]["wait"] == "SIGABRT"


def test_without_options_the_thread_that_ended_it(start, any_py, tmp_path):
    target = start(Script, any_py, "threads.py", cwd=str(tmp_path))
    cores.allow(target)
    path = cores.dump_by_kernel(target, tmp_path)
    text = probing("--core", path, "backtrace").stdout
    assert text.startswith("Thread %d \"MainThread\" · dumped: SIGABRT" % target.pid), text
    tid = next(t["tid"] for t in read("--core", path, "bt", "-a")["threads"] if not t["is_main"])
    only, = read("--core", path, "bt", str(tid))["threads"]
    assert only["tid"] == tid and not only["is_main"] and only["frames"]


def test_of_a_debugger(start, any_py, tmp_path):
    target = start(Script, any_py, "locals.py")
    living = read(target.pid, "backtrace", "-l")
    dead = read("--core", cores.dump_by_gdb(target, tmp_path), "backtrace", "-l")
    assert stacks(dead) == stacks(living) and dead["threads"][0]["wait"] is None


PACKERS = [["zstd", "-q", "-c"], ["xz", "-1", "-c"], ["gzip", "-1", "-c"], ["lz4", "-q", "-c"],
           ["bzip2", "-c"]]


def test_compressed(start, any_py, tmp_path):
    """As systemd-coredump and others keep them; a half of one is no core file."""
    target = start(Script, any_py, "simple.py", cwd=str(tmp_path))
    cores.allow(target)
    path, tried = cores.dump_by_kernel(target, tmp_path), 0
    plain = probing("--core", path, "backtrace", "-l")
    assert plain.returncode == 0, plain
    for packer in PACKERS:
        if not shutil.which(packer[0]):
            continue
        packed = tmp_path / packer[0]
        with open(path, "rb") as core, open(str(packed), "wb") as out:
            subprocess.run(packer, stdin=core, stdout=out, check=True)
        answer = probing("--core", str(packed), "backtrace", "-l")
        assert (answer.returncode, answer.stdout) == (0, plain.stdout), answer
        packed.write_bytes(packed.read_bytes()[:packed.stat().st_size // 2])
        answer = probing("--core", str(packed), "backtrace")
        said = "probing: %s: %s could not unpack it\n" % (packed, packer[0])
        assert (answer.returncode, answer.stderr) == (1, said), answer
        tried += 1
    assert tried >= 2
    nowhere = probing("--core", str(tmp_path / "gzip"), "backtrace", env={"PATH": "/nowhere"})
    assert nowhere.returncode == 1 and "gzip, which unpacks it, is not here" in nowhere.stderr


def test_files_of_another_machine(start, any_py, tmp_path):
    """The program is elsewhere now, or another one: --exe says where, the first page which."""
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(any_py.command)))
    program, moved = tmp_path / "python", tmp_path / "moved"
    shutil.copy(os.path.realpath(any_py.command), str(program))
    target = start(Script, any_py, "simple.py", command=[str(program)], cwd=str(tmp_path),
                   env={"PYTHONHOME": prefix})
    cores.allow(target)
    path = cores.dump_by_kernel(target, tmp_path)
    look = ("--core", path, "backtrace", "-n")
    whole = probing(*look)
    assert whole.returncode == 0 and not whole.stderr and "ends early" not in whole.stdout, whole
    moved.mkdir()
    shutil.move(str(program), str(moved / "python"))
    assert "%s is not here; --exe takes the file" % program in probing(*look).stderr
    for place in (moved, moved / "python"):
        again = probing("--core", path, "--exe", str(place), "backtrace", "-n")
        assert (again.returncode, again.stdout, again.stderr) == (0, whole.stdout, ""), again
    shutil.copy(BIN, str(program))
    assert "%s is not the file that this process used" % program in probing(*look).stderr
    answer = probing("--core", path, "--exe", BIN, "backtrace", "-n")
    assert answer.returncode == 0 and "native stack ends early" in answer.stdout
    answer = probing("--exe", str(moved), "list")
    assert answer.returncode == 2 and "--exe: only with --core" in answer.stderr


def test_secrets_stay_hidden(start, any_py, tmp_path):
    (tmp_path / "job.py").write_text(
        "import os, time\n"
        "def login(password):\n"
        "    print('ready', os.getpid(), flush=True)\n"
        "    time.sleep(1000)\n"
        "login('tr0ub4dor')\n")
    target = start(Script, any_py, str(tmp_path / "job.py"), cwd=str(tmp_path))
    cores.allow(target)
    path = cores.dump_by_kernel(target, tmp_path)
    answer = probing("--core", path, "backtrace", "-l")
    assert answer.returncode == 0 and "password = ***" in answer.stdout, answer
    assert "tr0ub4dor" in probing("--core", path, "backtrace", "-l", "--secrets").stdout


def test_refusals(start, any_py, tmp_path):
    target = start(Script, any_py, "simple.py", cwd=str(tmp_path))
    cores.allow(target)
    path = cores.dump_by_kernel(target, tmp_path)
    for options, code, said in ((["--pause"], 2, "no living process"),
                                (["-w", "1"], 2, "no living process"),
                                (["-s"], 2, "no living process"),
                                (["1"], 4, "no thread 1")):
        answer = probing("--core", path, "backtrace", *options)
        assert answer.returncode == code and said in answer.stderr, answer
    size = os.path.getsize(path)
    for part in (10, 64, 4096, size // 2):  # cut off: what is there is shown, or the reason said
        cut = tmp_path / "cut"
        with open(path, "rb") as file:
            cut.write_bytes(file.read(part))
        answer = probing("--core", str(cut), "backtrace", "-a", "-l", "-n")
        assert answer.returncode in (0, 1), answer
        assert answer.stdout or answer.stderr.count("\n") == 1, answer
