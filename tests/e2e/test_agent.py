"""The agent itself: what it is made of, what it leaves behind, and who may talk to it."""
import glob
import os
import random
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys

import pytest

import agents
import harness
import interpreters
import patience
import rings
from agents import HEAD, MAGIC, Probed, Wire, computed
from harness import probing

LIBRARY = os.path.join(os.path.dirname(harness.BIN), "libprobing.so")


@pytest.fixture(autouse=True)
def _known_version(request):
    if "py" in request.fixturenames and request.getfixturevalue("py").minor < (3, 6):
        pytest.skip("the agent is for 3.6 and later")


@pytest.fixture
def plain_py():
    """An interpreter that sees the same files as we do."""
    found = [item for item in interpreters.chosen() if not item.wrapped]
    return found[-1] if found else pytest.skip("only wrapped interpreters")


@pytest.fixture
def probed(any_py, start):
    target = start(Probed, any_py)
    assert probing(target.pid, "inject").returncode == 0
    return target


def readelf(*args):
    return subprocess.run(["readelf", "-W"] + list(args) + [LIBRARY], stdout=subprocess.PIPE,
                          check=True, encoding="utf-8").stdout


def test_needs_libc_only():
    assert re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d")) == ["libc.so.6"]
    versions = {tuple(map(int, found.split(".")))
                for found in re.findall(r"GLIBC_([0-9.]+)", readelf("--version-info"))}
    assert versions and max(versions) <= (2, 17)


def test_exports_exactly_three():
    names = set()
    for line in readelf("--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] not in ("UND", "Ndx"):
            names.add(fields[7].split("@")[0])
    assert names == {"probing_start", "probing_stop", "PyInit_libprobing"}


def test_no_writable_code():
    flags = re.findall(r"^ +(?:LOAD|GNU_STACK) .* ([RWE ]{3}) 0x", readelf("-l"), re.M)
    assert flags and not any("W" in flag and "E" in flag for flag in flags)


def test_at_rest(py, start):
    """One thread, asleep; little memory; nothing printed; signals and environment as before."""
    target = start(Probed, py)
    before = facts(target.pid)
    assert probing(target.pid, "inject").returncode == 0
    assert target.value("loss") == "0.0234\n"
    patience.until(lambda: target.threads() == 2)
    after = facts(target.pid)
    # A free-threaded interpreter keeps a heap for each thread.
    assert after["rss"] - before["rss"] < (8000 if py.free_threaded else 5000)
    assert {key: after[key] for key in ("SigCgt", "SigIgn", "environ")} \
        == {key: before[key] for key in ("SigCgt", "SigIgn", "environ")}
    agent = [tid for tid in os.listdir("/proc/%d/task" % target.pid) if int(tid) != target.pid][0]
    with open("/proc/%d/task/%s/comm" % (target.pid, agent)) as file:
        assert file.read() == "probing\n"
    used = computed(target.pid, agent)
    patience.meanwhile(0.5)
    assert computed(target.pid, agent) - used < 0.005
    assert target.end() == (0, "bye\n", "")


def facts(pid):
    with open("/proc/%d/status" % pid) as file:
        status = dict(line.split(":", 1) for line in file)
    with open("/proc/%d/environ" % pid, "rb") as file:
        environ = file.read()
    # The C library catches two signals of its own once there are threads, ignored before or not.
    caught, ignored = (int(status[key], 16) & ~(3 << 31) for key in ("SigCgt", "SigIgn"))
    return {"rss": int(status["VmRSS"].split()[0]), "SigCgt": caught, "SigIgn": ignored,
            "environ": environ}


def test_folder_is_private_and_goes_with_the_process(py, start):
    target = start(Probed, py)
    probing(target.pid, "inject")
    home = target.home()
    for folder in (home, os.path.dirname(home)):
        at = os.stat(folder)
        assert stat.S_IMODE(at.st_mode) == 0o700 and at.st_uid == os.getuid()
    # A new status is written beside the old one, and takes its name.
    patience.until(lambda: sorted(os.listdir(home)) == ["control", "meta", "status"])
    host = re.sub(r"^/proc/\d+/root", os.readlink("/proc/%d/root" % target.pid).rstrip("/"), home)
    assert os.path.exists(host)
    assert target.end() == (0, "bye\n", "")
    assert not os.path.exists(host)


def test_eject_and_start_again(py, start):
    target = start(Probed, py)
    for _ in range(3):
        probing(target.pid, "inject")
        home = target.home()
        assert target.value("loss") == "0.0234\n"
        assert probing(target.pid, "eject").returncode == 0
        assert not os.path.exists(home)
        patience.until(lambda: target.threads() == 1)
    assert probing(target.pid, "eject").returncode == 1
    assert target.end() == (0, "bye\n", "")


def fork(target):
    """The main thread forks; the child's number out here."""
    target.value("child = None; todo.append(fork)")
    patience.until(lambda: target.value("child") != "")
    with open("/proc/%d/task/%d/children" % (target.pid, target.pid)) as file:
        return int(file.read().split()[0])


def test_forked_child_has_its_own(py, start):
    target = start(Probed, py)
    probing(target.pid, "inject")
    child = fork(target)
    try:
        patience.until(lambda: os.path.exists(target.home(child)))
        assert target.home(child) != target.home()
        answer = probing(child, "eval", "import os; os.getpid()")
        assert answer.stdout.strip() == re.search(r"/(\d+)-\d+$", target.home(child)).group(1)
        assert answer.stderr == ""
        assert target.value("os.getpid()") != answer.stdout
        home = target.home(child)
        probing(child, "eval", "finish = True")
        assert target.value("os.waitpid(%s, 0)[1] >> 8" % answer.stdout.strip()) == "7\n"
        assert target.value("loss") == "0.0234\n"
        # It left by os._exit, which nobody sees: what it wrote stays, as after a kill.
        host = home.replace("/proc/%d/" % child, "/proc/%d/" % target.pid)
        assert rings.rows(host, "probing.audit")[0]["detail"] == "import os; os.getpid()"
    finally:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_forks_are_not_followed_when_told(any_py, start):
    target = start(Probed, any_py)
    probing(target.pid, "inject", "-D", "agent.follow_forks=off")
    child = fork(target)
    try:
        patience.meanwhile(0.3)
        assert not os.path.exists(target.home(child))
        assert len(os.listdir("/proc/%d/task" % child)) == 1
    finally:
        os.kill(child, signal.SIGKILL)


def test_subprocess_is_left_alone(plain_py, start):
    target = start(Probed, plain_py)
    probing(target.pid, "inject")
    code = ("import subprocess\n"
            "print(subprocess.check_output(['sh', '-c', 'ls /proc/$$/fd | wc -l']).split()[0])")
    assert int(re.search(r"\d+", target.value(code)).group()) <= 5


def test_exec_leaves_a_socket_that_nobody_believes_in(py, start):
    if py.wrapped:
        pytest.skip("the path of the interpreter is another one inside")
    target = start(Probed, py, "exec")
    probing(target.pid, "inject")
    home = target.home()
    target.eval("finish = True")
    patience.until(lambda: os.path.exists("/proc/%d/cmdline" % target.pid)
                   and b"idle" in open("/proc/%d/cmdline" % target.pid, "rb").read())
    assert os.path.exists(home)
    target.read_ready(patience.SECONDS)
    answer = target.eval("loss")
    assert answer.stdout == "0.0234\n"
    assert answer.stderr == "probing: injected into process %d\n" % target.pid
    assert target.end()[0] == 0


def test_a_killed_process_is_swept_up_and_a_live_one_is_not(plain_py, start):
    first, second, alive, third = (start(Probed, plain_py) for _ in range(4))
    for target in (first, second, alive):
        probing(target.pid, "inject")
    for dead, sweeper in ((first, alive.eval), (second, third.eval)):
        folder = re.sub(r"^/proc/\d+/root", "", dead.home())
        dead.stop()
        assert sweeper("loss").stdout == "0.0234\n"
        assert not os.path.exists(folder) and os.path.exists(alive.home())


def as_user(uid):
    """An interpreter that this user can run, as the start of a command line."""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root to act for another user")
    for item in interpreters.chosen():
        command = ["setpriv", "--reuid=%d" % uid, "--clear-groups", item.command]
        if item.minor >= (3, 6) and subprocess.run(
                command + ["-c", ""], stderr=subprocess.DEVNULL).returncode == 0:
            return command
    return pytest.skip("no interpreter that another user may run")


def test_refuses_a_folder_of_somebody_else(start, tmp_path):
    """The user's folder is a link: another name in the same place is taken."""
    uid = 54322
    command = as_user(uid)
    trap = "/dev/shm/probing-%d" % uid
    os.symlink(str(tmp_path), trap)
    try:
        target = start(harness.Target, command + [
            "-c", "import os, sys, time\nprint('ready', os.getpid())\nsys.stdout.flush()\n"
            "time.sleep(1000)"])
        answer = probing(target.pid, "eval", "1 + 1")
        assert answer.stdout == "2\n", answer
        assert os.listdir(str(tmp_path)) == []
        assert len(glob.glob(trap + "-*/%d-*/control" % target.pid)) == 1
        assert probing(target.pid, "eject").returncode == 0
        assert glob.glob(trap + "-*") == []
    finally:
        os.unlink(trap)


def test_only_the_owner_and_root(probed):
    """Another user may not even reach the socket; where he could, his credentials are refused."""
    if os.getuid() != 0:
        pytest.skip("needs root to act for another user")
    code = ("import os, socket, sys\n"
            "folder = os.open(sys.argv[1], os.O_PATH)\n"
            "s = socket.socket(socket.AF_UNIX)\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "s.settimeout(5)\n"
            "try:\n    s.connect('/proc/self/fd/%d/control' % folder); print(len(s.recv(100)))\n"
            "except OSError as error: print(type(error).__name__)\n")
    run = subprocess.run([sys.executable, "-c", code, probed.home()], stdout=subprocess.PIPE)
    assert run.stdout.strip() in (b"0", b"PermissionError", b"ConnectionResetError"), run.stdout
    assert probed.value("loss") == "0.0234\n"


def test_status(probed):
    wire = Wire(probed.home())
    assert wire.hello["state"] == "ready" and wire.hello["wire"] == "2"
    result, out, _err, _why = wire.ask(agents.STATUS)
    status = dict(line.split("=", 1) for line in out.decode().splitlines())
    assert result == 0 and status["clients"] == "1" and status["evaluations"] == "0"
    wire.close()


GARBAGE = [
    b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096,
    HEAD.pack(MAGIC, 2, 0, 1, 0xffffffff), HEAD.pack(MAGIC, 2, 0, 1, 3) + b"abc",
    HEAD.pack(MAGIC, 2, 0, 1, 16 << 20), HEAD.pack(MAGIC, 16, 0, 1, 0),
    HEAD.pack(MAGIC, 99, 0, 1, 0), HEAD.pack(MAGIC, 3, 1, 1, 0), HEAD.pack(MAGIC, 6, 0, 1, 4),
    HEAD.pack(MAGIC, 2, 0, 1, 16) + struct.pack("=IIii", 0xffffffff, 0, 0, 0),
    HEAD.pack(MAGIC, 2, 0, 1, 16) + struct.pack("=IIii", 2, 0, -5, 0),
    HEAD.pack(MAGIC, 2, 0, 1, 18) + struct.pack("=IIii", 0, 0, 0, 0) + b"\xff\xfe",
    HEAD.pack(MAGIC, 5, 0, 1, 5) + b"a=b=c", HEAD.pack(MAGIC, 4, 0, 1, 3) + b"\xff..",
]


def test_garbage(probed):
    random.seed(4)
    for data in GARBAGE + [os.urandom(random.randrange(200)) for _ in range(100)]:
        client = Wire(probed.home())
        client.socket.sendall(data)
        if random.random() < 0.5:
            client.socket.settimeout(0.01)
            try:
                client.socket.recv(1000)
            except (socket.timeout, OSError):
                pass
        client.close()
    assert probed.value("loss") == "0.0234\n"
    patience.until(lambda: probed.threads() == 2)


def test_more_clients_than_places(probed):
    """Half-open clients do not keep others out: the one that is silent for longest goes."""
    idle = [Wire(probed.home()) for _ in range(60)]
    for client in idle[-3:]:
        client.socket.sendall(HEAD.pack(MAGIC, 2, 0, 1, 1000) + b"half")
    assert probed.value("loss") == "0.0234\n"
    for client in idle:
        client.close()


def test_more_evaluations_than_places(probed):
    wire = Wire(probed.home())
    for number in range(1, 21):
        wire.eval("import time; time.sleep(0.5)", number=number)
    ends = [wire.answer(number) for number in range(17, 21)]
    assert all(result == 2 and "too many" in why for result, _out, _err, why in ends)
    wire.close()
    patience.until(lambda: probed.threads() == 2)
    assert probed.value("loss") == "0.0234\n"


def test_a_client_that_does_not_read(probed):
    """Output waits for it, then ends with it; others are served meanwhile."""
    wire = Wire(probed.home())
    wire.eval("while True: print('x' * 1000)")
    patience.meanwhile(0.5)
    assert probed.value("loss") == "0.0234\n"
    wire.close()
    patience.until(lambda: probed.threads() == 2)


def test_end_while_evaluating(py, start):
    """The interpreter ends while code runs in it, and while it is asked."""
    for code in ("while True: pass", "import time; time.sleep(30)"):
        target = start(Probed, py)
        probing(target.pid, "inject")
        tools = [agents.start_tool(target.pid, "eval", "print('go')\n" + code) for _ in range(2)]
        assert [tool.stdout.readline() for tool in tools] == [b"go\n"] * 2
        assert target.end() == (0, "bye\n", "")
        for tool in tools:
            tool.communicate(timeout=60)
            assert tool.returncode in (1, 5)


def test_importable(py, tmp_path):
    """The library is a module, too."""
    if py.wrapped:
        pytest.skip("the library is not to be found inside")
    code = ("import sys; sys.path.insert(0, %r)\nimport libprobing as p, os\n"
            "print(p.running(), p.start('eval.timeout=3'), p.start(), p.running(), p.stop(), "
            "p.stop(), p.running())\n"
            "try:\n    p.start('nonsense=1')\nexcept RuntimeError as error: print(error)\n"
            % os.path.dirname(LIBRARY))
    run = subprocess.run([py.command, "-W", "error", "-c", code], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, env=harness.ENV)
    assert run.stdout.decode() == ("0 0 1 1 0 1 0\nprobing: a setting does not exist or is out of "
                                   "range\n")
    assert run.returncode == 0
