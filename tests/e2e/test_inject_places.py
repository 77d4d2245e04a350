"""Targets in other namespaces, of other users, and those that are refused."""
import os
import signal
import subprocess
import sys
import time

import pytest

import interpreters
from harness import ENV, Script, Target, die_with_parent, probing, states
from injecting import eject, inject, moves_on, threads_become, traces
from test_refusals import as_nobody, nobody, refused, yama_scope  # noqa: F401

ROOT = os.getuid() == 0
SLEEP = ("import os, time; os.write(1, ('ready %s\\n' % os.readlink('/proc/self')).encode()); "
         "time.sleep(100000)")


def outer_pid(target):
    """The pid out here of the innermost child that a wrapper started."""
    pid = target.process.pid
    while True:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            children = file.read().split()
        if not children:
            return pid
        pid = int(children[0])


def unshared(start, *flags):
    target = start(Target, ["unshare"] + list(flags) + [interpreters.newest().command, "-c", SLEEP])
    target.pid = outer_pid(target)
    return target


@pytest.mark.skipif(not ROOT, reason="needs root")
@pytest.mark.parametrize("flags", [
    ("--mount",), ("--pid", "--fork", "--mount-proc"), ("--net", "--ipc", "--uts"),
    ("--pid", "--fork", "--mount-proc", "--net", "--ipc", "--uts", "--cgroup"),
])
def test_namespaces(start, flags):
    if interpreters.newest().wrapped:
        pytest.skip("the interpreter is wrapped itself")
    if subprocess.run(["unshare"] + list(flags) + ["true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this namespace cannot be made here")
    target = unshared(start, *flags)
    inject(target.pid)
    assert threads_become(target.pid, 2)
    eject(target.pid)
    assert threads_become(target.pid, 1)


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_own_tmp_and_shared_memory(start):
    if interpreters.newest().wrapped:
        pytest.skip("the interpreter is wrapped itself")
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no mount namespace can be made here")
    command = ["unshare", "--mount", "sh", "-c",
               "mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && exec \"$@\"", "sh",
               interpreters.newest().command, "-c", SLEEP]
    target = start(Target, command)
    inject(target.pid)
    eject(target.pid)
    assert traces(target) == []


def test_root_injects_into_another_users_process(start, nobody):  # noqa: F811
    target = as_nobody(start, nobody)
    inject(target.pid)
    assert threads_become(target.pid, 2)
    eject(target.pid)
    assert threads_become(target.pid, 1)


def test_user_injects_into_own_process(start, nobody):  # noqa: F811
    if yama_scope() > 0:
        pytest.skip("Yama allows children only")
    target = as_nobody(start, nobody)
    answer = nobody.probing(target.pid, "inject")
    assert answer.returncode == 0, answer.stderr
    assert threads_become(target.pid, 2)
    assert nobody.probing(target.pid, "eject").returncode == 0
    assert threads_become(target.pid, 1)


def test_user_injects_into_own_child(nobody):  # noqa: F811
    """The tool is the parent of the target, as where Yama allows nothing else."""
    usable = [item.command for item in interpreters.readable() if subprocess.run(
        nobody.prefix + ["sh", "-c", 'exec "$0" -c ""', item.command], cwd="/",
        stderr=subprocess.DEVNULL).returncode == 0]
    if not usable:
        pytest.skip("no interpreter that another user's shell may run")
    script = ('said=$(mktemp); "$1" -c "import os, time; os.write(1, b\'up\'); time.sleep(20)" '
              '> "$said" 2>&1 & while ! [ -s "$said" ]; do sleep 0.05; done; rm "$said"; '
              'exec "$0" $! inject')
    answer = subprocess.run(nobody.prefix + ["sh", "-c", script, nobody.tool, usable[-1]],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, cwd="/",
                            encoding="utf-8", timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert "Successfully injected" in answer.stdout


def test_another_users_process_is_refused(start, any_py, nobody):  # noqa: F811
    target = start(Script, any_py, "simple.py")
    refused(nobody.probing(target.pid, "inject"), 3, "not permitted", "owned by root", "sudo")


def test_not_python():
    process = subprocess.Popen(["sleep", "1000"], preexec_fn=die_with_parent)
    try:
        time.sleep(0.05)
        refused(probing(process.pid, "inject"), 1, "not a python process")
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_no_such_process():
    with open("/proc/sys/kernel/pid_max") as file:
        refused(probing(int(file.read()) - 1, "inject"), 4, "no such process")


def test_stopped(start, any_py):
    target = start(Script, any_py, "spin.py")
    os.kill(target.pid, signal.SIGSTOP)
    while set(states(target.pid)) != {"T"}:
        time.sleep(0.001)
    refused(probing(target.pid, "inject"), 1, "stopped", "kill -cont")
    assert set(states(target.pid)) == {"T"}
    os.kill(target.pid, signal.SIGCONT)
    assert moves_on(target.pid)
    inject(target.pid)


def test_traced_by_another(start, any_py):
    target = start(Script, any_py, "simple.py")
    code = ("import ctypes, os, sys\n"
            "libc = ctypes.CDLL(None)\n"
            "assert libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0\n"
            "os.write(1, ('ready %d\\n' % os.getpid()).encode())\n"
            "sys.stdin.read()\n")
    tracer = subprocess.Popen([sys.executable, "-c", code, str(target.pid)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              preexec_fn=die_with_parent)
    try:
        assert tracer.stdout.readline().startswith(b"ready")
        refused(probing(target.pid, "inject"), 1, "traced by process %d" % tracer.pid)
    finally:
        tracer.stdin.close()
        tracer.wait()
        tracer.stdout.close()
    inject(target.pid)


# A filter that allows everything: what matters is that there is one.
FILTERED = """
import ctypes, os, struct, time
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, prog, 0, 0) == 0, ctypes.get_errno()
os.write(1, ("ready %d\\n" % os.getpid()).encode())
while True:
    time.sleep(1000)
"""


def test_seccomp_needs_force(start, any_py, tmp_path):
    path = tmp_path / "filtered.py"
    path.write_text(FILTERED)
    target = start(Script, any_py, "filtered.py", path=str(path))
    refused(probing(target.pid, "inject"), 1, "seccomp", "--force")
    assert threads_become(target.pid, 1)
    inject(target.pid, "--force")
    assert target.process.poll() is None


def test_no_memory(start, any_py, tmp_path):
    path = tmp_path / "full.py"
    path.write_text("import os, resource, time\n"
                    "with open('/proc/self/statm') as file:\n"
                    "    used = int(file.read().split()[0]) * 4096\n"
                    "resource.setrlimit(resource.RLIMIT_AS, (used + 1000000, used + 1000000))\n"
                    "os.write(1, ('ready %d\\n' % os.getpid()).encode())\n"
                    "time.sleep(100000)\n")
    target = start(Script, any_py, "full.py", path=str(path))
    refused(probing(target.pid, "inject"), 1, "no memory", "ulimit -v")
    assert target.process.poll() is None


def test_no_safe_moment(start, any_py, tmp_path):
    """The only thread waits inside the loader: a clean failure that says so, and nothing broken."""
    source, library = tmp_path / "stuck.c", tmp_path / "stuck.so"
    source.write_text("#include <unistd.h>\n"
                      "__attribute__((constructor)) static void stuck(void)\n"
                      "{ char t[32]; int n = 0, p = getpid(), d[10], k = 0;\n"
                      "  for (const char *w = \"ready \"; *w; w++) t[n++] = *w;\n"
                      "  while (p) d[k++] = p % 10, p /= 10;\n"
                      "  while (k) t[n++] = (char)('0' + d[--k]);\n"
                      "  t[n++] = 10; if (write(1, t, n) < 0) return;\n"
                      "  for (;;) sleep(1000); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    script = tmp_path / "stuck.py"
    script.write_text("import ctypes\nctypes.CDLL(%r)\n" % str(library))
    target = start(Script, any_py, "stuck.py", path=str(script))
    began = time.monotonic()
    answer = probing(target.pid, "inject", "--timeout", "0.5")
    refused(answer, 5, "no safe moment", "allocator or the loader")
    assert time.monotonic() - began < 20
    assert threads_become(target.pid, 1)
    assert target.process.poll() is None


def test_statically_linked(tmp_path):
    """A program that calls itself python but has no loader."""
    source = tmp_path / "static.c"
    source.write_text("#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")
    program = tmp_path / "python3"
    if subprocess.run(["cc", "-static", str(source), "-o", str(program)],
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no static C library")
    process = subprocess.Popen([str(program)], preexec_fn=die_with_parent)
    try:
        time.sleep(0.05)
        answer = probing(process.pid, "inject")
        assert answer.returncode == 1, answer.stderr
        assert "static" in answer.stderr or "not a Python" in answer.stderr
    finally:
        process.kill()
        process.wait()


def test_descriptor_and_name_of_the_file_are_gone(start, any_py):
    target = start(Script, any_py, "simple.py")
    before = sorted(os.listdir("/proc/%d/fd" % target.pid))
    inject(target.pid)
    eject(target.pid)
    assert sorted(os.listdir("/proc/%d/fd" % target.pid)) == before

