"""The ways an interpreter can stand on disk, or no longer stand there."""
import json
import os
import shutil
import struct
import subprocess
import time

import pytest

import embedding
import interpreters
import patience
from harness import (ENV, TARGETS, Script, Target, backtrace, die_with_parent, frames, main_thread,
                     natives, probing)

pytestmark = pytest.mark.few

EXPECTED = [("leaf", "leaf"), ("middle", "middle"), ("main", "main"), ("<module>", "module")]


class Copy:
    """An interpreter's executable, and its libpython if it has one, in a folder of their own."""

    def __init__(self, py, folder):
        self.exe = os.path.join(folder, "bin", "python-copy")
        self.lib = None
        os.makedirs(os.path.join(folder, "bin"))
        os.makedirs(os.path.join(folder, "lib"))
        shutil.copy(py.command, self.exe)
        os.chmod(self.exe, 0o755)
        library = shared_library(py.command)
        if library:
            self.lib = os.path.join(folder, "lib", os.path.basename(library))
            shutil.copy(library, self.lib)
            os.chmod(self.lib, 0o755)
        self.files = [path for path in (self.exe, self.lib) if path]
        self.env = {"PYTHONHOME": py.facts["prefix"],
                    "LD_LIBRARY_PATH": os.path.join(folder, "lib")}

    def start(self, start, py):
        target = start(Script, py, "simple.py", command=[self.exe], env=self.env)
        with open("/proc/%d/maps" % target.pid) as file:
            maps = file.read()
        if any(path not in maps for path in self.files):
            pytest.skip("this interpreter insists on its own library")
        return target


def shared_library(exe):
    out = subprocess.run(["ldd", exe], stdout=subprocess.PIPE, encoding="utf-8").stdout
    found = [line.split("=>")[1].split()[0] for line in out.splitlines()
             if "libpython" in line and "/" in line]
    return os.path.realpath(found[0]) if found else None


@pytest.fixture
def copy(py, tmp_path):
    if py.wrapped:
        pytest.skip("its files are not at hand out here")
    return Copy(py, str(tmp_path))


def check(target, *options):
    thread = main_thread(backtrace(target.pid, *options))
    assert frames(thread) == [target.at(*pair) for pair in EXPECTED]
    return thread


def test_stripped(py, copy, start):
    for path in copy.files:
        subprocess.run(["strip", "-s", path], check=True)
    target = copy.start(start, py)
    check(target)
    check(target, "-l")
    assert natives(check(target, "-n"))
    assert {thread["name"] for thread in backtrace(target.pid, "-a")["threads"]} == \
        {"MainThread", "helper"}


def test_deleted(py, copy, start):
    target = copy.start(start, py)
    for path in copy.files:
        os.unlink(path)
    check(target)
    assert natives(check(target, "-n"))


def test_replaced_by_other_bytes(py, copy, start):
    target = copy.start(start, py)
    for path in copy.files:
        with open(path + ".new", "wb") as file:
            file.write(b"\x7fELF" + os.urandom(1 << 16))
        os.rename(path + ".new", path)
    check(target)
    check(target, "-n")


def test_upgraded_in_place(py, copy, start):
    """The path now holds another version; the process still runs the old one."""
    others = [item for item in interpreters.chosen() if item.minor != py.minor
              and not item.wrapped and shared_library(item.command)]
    if not others or not copy.lib:
        pytest.skip("needs two interpreters with a shared library")
    target = copy.start(start, py)
    shutil.copy(shared_library(others[0].command), copy.lib + ".new")
    os.rename(copy.lib + ".new", copy.lib)
    shutil.copy(others[0].command, copy.exe + ".new")
    os.rename(copy.exe + ".new", copy.exe)
    assert backtrace(target.pid)["python"] == py.text_version
    check(target)
    check(target, "-n")


def test_virtual_environment(py, start, tmp_path):
    folder = str(tmp_path / "env")
    made = subprocess.run([py.command, "-m", "venv", "--without-pip", folder], env=ENV,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if made.returncode or py.wrapped:
        pytest.skip("this interpreter makes no virtual environment that works out here")
    target = start(Script, py, "simple.py", command=[os.path.join(folder, "bin", "python")])
    check(target)


def test_embedded(py, start, tmp_path):
    program = embedding.build(py, tmp_path, "embed.c")
    target = start(Script, py, "simple.py", command=[program], env=embedding.environment(py))
    check(target)
    names = natives(check(target, "-n"))
    assert "probing_embed_run" in names and "main" in names


def test_worker_forked_by_c_code(py, start, tmp_path):
    """As uWSGI does it: the interpreter still has the parent's threads and thread ids."""
    program = embedding.build(py, tmp_path, "embed_fork.c")
    target = start(Script, py, "simple.py", command=[program, "fork"],
                   env=embedding.environment(py))
    check(target)
    check(target, "-n")
    snapshot = backtrace(target.pid, "-a")
    assert {thread["name"] for thread in snapshot["threads"]} == {"MainThread", "helper"}
    assert main_thread(snapshot)["tid"] == target.pid


@pytest.mark.parametrize("mode", ["idle", "ended"])
def test_python_that_does_not_run(py, start, tmp_path, mode):
    program = embedding.build(py, tmp_path, "embed_fork.c")
    target = start(Target, [program, mode], env=embedding.environment(py))
    answer = probing(target.pid, "backtrace")
    assert answer.returncode == 1 and answer.stderr.count("\n") == 1
    assert answer.stderr == ("probing: %d: Python is loaded, but no interpreter runs: "
                             "not started yet, or ended\n" % target.pid)


def test_python_2(start):
    if not interpreters.python2():
        pytest.skip("no Python 2.7 here")
    target = start(Target, [interpreters.python2(), "-c", "import os, time\n"
                            "os.write(1, 'ready %d\\n' % os.getpid())\ntime.sleep(1000)"])
    answer = probing(target.pid, "backtrace")
    assert answer.returncode == 1 and answer.stderr.count("\n") == 1
    assert answer.stderr.startswith("probing: %d: Python 2.7." % target.pid), answer.stderr
    assert "not supported" in answer.stderr
    listed = [row for row in json.loads(probing("list", "-f", "json").stdout)
              if row["pid"] == target.pid]
    assert listed[0]["python"].startswith("2.7.")


def test_own_mount_and_pid_namespace(py, start, tmp_path):
    """Its interpreter lies on a file system that only it can see."""
    try:
        able = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    except FileNotFoundError:
        able = 1
    if able or py.wrapped:
        pytest.skip("no namespaces for us here")
    inside = Copy(py, str(tmp_path / "outside"))
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    script = ('mount -t tmpfs none "$1" && cp -r "$2"/. "$1" && shift 2 && exec "$0" "$@"')
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script,
               str(hidden / "bin" / "python-copy"), str(hidden), str(tmp_path / "outside")]
    target = start(Script, py, "simple.py", command=command,
                   env=dict(inside.env, LD_LIBRARY_PATH=str(hidden / "lib")))
    inner, target.pid = target.pid, child_of(target.process.pid)
    assert inner != target.pid and not (hidden / "bin").exists()
    snapshot = backtrace(target.pid, "-a")
    assert snapshot["pid"] == target.pid
    assert snapshot.get("ns_pid") == inner
    check(target)
    assert natives(check(target, "-n"))
    assert {thread["name"] for thread in snapshot["threads"]} == {"MainThread", "helper"}


def child_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return int(file.read().split()[0])


def test_starting_process(py):
    """From the first instant on: a stack, or one line that says why not."""
    for _ in range(3):
        process = subprocess.Popen([py.command, os.path.join(TARGETS, "simple.py")], env=ENV,
                                   stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
        try:
            end = time.monotonic() + 0.15
            while time.monotonic() < end:
                answer = probing(process.pid, "backtrace", "-a")
                assert answer.returncode in (0, 1), answer.stderr
                if answer.returncode:
                    assert answer.stderr.count("\n") == 1, answer.stderr
            patience.until(lambda: probing(process.pid, "backtrace", "-a").returncode == 0)
        finally:
            process.kill()
            process.wait()


def test_32_bit_process(tmp_path):
    path = str(tmp_path / "tiny32")
    code = b"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7"  # for (;;) pause();
    base, entry = 0x08048000, 0x08048000 + 84
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, entry, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    segment = struct.pack("<IIIIIIII", 1, 0, base, base, 84 + len(code), 84 + len(code), 5, 4096)
    with open(path, "wb") as file:
        file.write(header + segment + code)
    os.chmod(path, 0o755)
    try:
        process = subprocess.Popen([path], preexec_fn=die_with_parent)
    except OSError:
        pytest.skip("no 32-bit programs here")
    try:
        time.sleep(0.05)
        if process.poll() is not None:
            pytest.skip("no 32-bit programs here")
        answer = probing(process.pid, "backtrace")
        assert answer.returncode == 1 and "32-bit" in answer.stderr
        assert answer.stderr.count("\n") == 1
    finally:
        process.kill()
        process.wait()
