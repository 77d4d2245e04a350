"""The node: started, found, ended, killed, replaced."""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

import harness
import interpreters
import patience
from nodes import Node, alive, gone, node  # noqa: F401 (node is a fixture)

STRANGER = 54000 + os.getpid() % 5000  # nobody, and of this run alone


def start_id(pid):
    with open("/proc/%d/stat" % pid) as file:
        return "%d-%s" % (pid, file.read().rpartition(")")[2].split()[19])


def remains(node):
    """Folders of nodes with this history."""
    found = []
    for path in glob.glob("/dev/shm/probing-%d/*/meta" % os.getuid()):
        with open(path, errors="replace") as file:
            if "data=%s\n" % node.home in file.read():
                found.append(path)
    return found


def test_starts_in_the_background_and_stops(node):
    answer = node("serve")
    assert answer.returncode == 0, answer.stderr
    pid, path = re.match(r"node (\d+), version \S+, on (\S+)\n$", answer.stdout).groups()
    assert os.readlink("/proc/%s/cwd" % pid) == "/"
    assert os.getsid(int(pid)) == int(pid)
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert os.stat(node.home).st_mode & 0o777 == 0o700
    assert node("serve").stdout == answer.stdout
    assert node.pid() == int(pid)
    assert node("serve", "--stop").returncode == 0
    assert gone(int(pid))
    assert not os.path.exists(path)
    assert node.pid() is None
    assert "ends: a signal" in node.log()
    again = node("serve", "--stop")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "no node is running\n")


def test_status_without_a_node(node):
    answer = node("serve", "--status")
    assert answer.returncode == 1
    assert answer.stderr == "probing: no node is running for %s\n" % node.home


def test_status_waits_for_the_addresses(node):
    """Whoever starts one under a supervisor asks by --status whether it can be used."""
    served = node.start("serve", "--foreground", "--listen", "127.0.0.1:0")
    try:
        end, answer = time.monotonic() + 30, None
        while time.monotonic() < end and (answer is None or answer.returncode == 1):
            answer = node("serve", "--status")
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.endswith(", 1 TCP address\n"), answer.stdout
    finally:
        served.terminate()
        served.communicate(timeout=60)


def test_several_start_at_once(node):
    started = [node.start("serve") for _ in range(6)]
    answers = [one.communicate(timeout=60) for one in started]
    assert [one.returncode for one in started] == [0] * 6, answers
    assert len({out for out, _ in answers}) == 1, answers


def test_killed_node_is_no_obstacle(node):
    for _ in range(3):
        assert node("serve").returncode == 0
        pid, path = node.pid(), node.socket()
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)
        assert os.path.exists(path)
        assert node.pid() is None
    answer = node("serve")
    assert answer.returncode == 0, answer.stderr
    assert node.pid() != pid
    # What the killed ones wrote becomes history, and then nothing of them is left.
    assert remains(node)
    end = time.monotonic() + 30
    while remains(node) and time.monotonic() < end:
        # A row that was being written when its writer died is given up after a second.
        time.sleep(1.1)
        node.stop()
        if remains(node):
            node("serve")
    assert not remains(node)


def test_removed_socket_is_noticed(node):
    node("serve")
    pid = node.pid()
    os.unlink(node.socket())
    assert gone(pid)
    assert "its socket was removed" in node.log()
    assert node("serve").returncode == 0


def test_foreground_ends_in_good_order(node):
    served = node.start("serve", "--foreground", "--listen", "127.0.0.1:0")
    line = served.stdout.readline()
    assert re.match(r"Probing server listening on 127\.0\.0\.1:\d+\n$", line), served.stderr.read()
    assert node.pid() == served.pid
    second = node("serve", "--foreground")
    assert second.returncode == 1
    assert second.stderr == ("probing: a node is running for %s already. End it with: probing "
                             "serve --stop\n" % node.home)
    path = node.socket()
    served.send_signal(signal.SIGTERM)
    _, err = served.communicate(timeout=60)
    assert served.returncode == 0
    assert "ends: a signal" in err
    assert not os.path.exists(path)


def test_listen_asks_the_running_node(node):
    node("serve")
    pid = node.pid()
    answer = node("serve", "--listen", "127.0.0.1:0", "-l", "0")
    assert answer.returncode == 0, answer.stderr
    ports = re.findall(r"Probing server listening on 127\.0\.0\.1:(\d+)\n", answer.stdout)
    assert len(ports) == 2 and node.pid() == pid
    for port in ports:
        socket.create_connection(("127.0.0.1", int(port)), 5).close()
    taken = node("serve", "--listen", "127.0.0.1:" + ports[0])
    assert taken.returncode == 0, taken.stderr  # its own: that is what was asked for


def test_address_that_is_taken(node):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        answer = node("serve", "--listen", "127.0.0.1:%d" % other.getsockname()[1])
    assert answer.returncode == 1
    assert re.match(r"probing: .*(in use|taken).*\n$", answer.stderr), answer.stderr


def test_folder_that_cannot_be_made(node):
    answer = node("serve", env={"PROBING_HOME": "/proc/nowhere/at/all"})
    assert answer.returncode == 1
    assert re.match(r"probing: cannot make /proc/nowhere: .* Set PROBING_HOME to a folder for "
                    r"history\n$", answer.stderr), answer.stderr


def test_owner_needs_an_address(node):
    answer = node("serve", "--owner", "1")
    assert answer.returncode == 2
    assert "--owner goes with --listen" in answer.stderr


def test_port_of_a_process_closes_with_it(node, any_py, start):
    target = start(harness.Script, any_py, "simple.py")
    answer = node("serve", "--listen", "127.0.0.1:0", "--owner", start_id(target.pid))
    assert answer.returncode == 0, answer.stderr
    port = int(re.match(r"Probing server listening on 127\.0\.0\.1:(\d+)\n$",
                        answer.stdout).group(1))
    socket.create_connection(("127.0.0.1", port), 5).close()
    target.stop()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            time.sleep(0.05)
        except ConnectionRefusedError:
            break
    else:
        pytest.fail("the port is still open")


def test_inject_listens(node, any_py, start):
    target = start(harness.Script, any_py, "simple.py")
    answer = node(target.pid, "inject", "-l", "127.0.0.1:0")
    assert answer.returncode == 0, answer.stderr
    assert re.match(r"Successfully injected probes into process %d\n"
                    r"Probing server listening on 127\.0\.0\.1:\d+\n$" % target.pid,
                    answer.stdout), answer.stdout
    again = node(target.pid, "inject", "-l", "127.0.0.1:0")
    assert again.stdout.startswith("Probes are already in process %d\nProbing server" % target.pid)


# Holds the lock of a data folder as a node of another version would; ends when told to.
OTHER_VERSION = """
import fcntl, os, signal, socket, sys
home, listeners = sys.argv[1:]
os.makedirs(home, 0o700)
door = socket.socket(socket.AF_UNIX)
door.bind(home + "/door")
door.listen(5)
lock = open(home + "/node-%s.lock" % socket.gethostname(), "w")
fcntl.flock(lock, fcntl.LOCK_EX)
lock.write("pid=%d\\nversion=0.0.0\\nsocket=%s/door\\nlisteners=%s\\nactive=0\\n"
           % (os.getpid(), home, listeners))
lock.flush()
print("ready", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("listeners", [0, 1])
def test_node_of_another_version(node, listeners):
    """One that nobody uses makes room; one that is used stays."""
    other = subprocess.Popen(["python3", "-c", OTHER_VERSION, node.home, str(listeners)],
                             stdout=subprocess.PIPE, preexec_fn=harness.die_with_parent)
    try:
        assert other.stdout.readline() == b"ready\n"
        answer = node("serve")
        if listeners:
            assert answer.returncode == 1
            assert answer.stderr == ("probing: node %d of probing 0.0.0 is in use. End it with: "
                                     "probing serve --stop\n" % other.pid)
            assert other.poll() is None
        else:
            assert answer.returncode == 0, answer.stderr
            assert other.wait(60) == -signal.SIGTERM
            assert node.pid() != other.pid
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def as_stranger(folder, **settings):
    """A node of a user who has nothing else; root only."""
    if os.getuid() != 0:
        pytest.skip("needs root to become another user")
    folder = os.path.join(str(folder), "stranger")
    os.mkdir(folder)
    os.chown(folder, STRANGER, STRANGER)
    above = folder
    while above not in ("/tmp", "/"):
        os.chmod(above, os.stat(above).st_mode | 0o011)
        above = os.path.dirname(above)
    return Node(folder, uid=STRANGER, **settings)


@pytest.fixture
def stranger(tmp_path):
    made = []

    def make(**settings):
        made.append(as_stranger(tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.stop()
    shutil.rmtree("/dev/shm/probing-%d" % STRANGER, ignore_errors=True)


def test_ends_when_unused(stranger):
    node = stranger(PROBING_SERVE_IDLE=3)
    assert node("serve").returncode == 0
    pid = node.pid()
    patience.meanwhile(0.5)
    assert alive(pid)
    assert gone(pid)
    assert "ends: nothing uses it" in node.log()


def start_as(node):
    """A target of the node's user, under an interpreter that is everybody's."""
    with open(os.path.join(harness.TARGETS, "simple.py"), "rb") as file:
        code = file.read()
    for item in interpreters.found():
        try:
            return subprocess.Popen([item.command, "-c", code], stdout=subprocess.PIPE,
                                    env=harness.ENV, preexec_fn=node.become, cwd="/")
        except (PermissionError, FileNotFoundError):
            continue
    return pytest.skip("no interpreter is everybody's")


def test_a_probed_process_keeps_it(stranger):
    node = stranger(PROBING_SERVE_IDLE=1)
    target = start_as(node)
    try:
        assert target.stdout.readline().startswith(b"ready")
        assert node(target.pid, "inject").returncode == 0
        answer = node("serve")
        assert answer.returncode == 0, answer
        pid = node.pid()
        assert pid, node.log()
        patience.meanwhile(3)
        assert alive(pid)
    finally:
        target.kill()
        target.wait()
        target.stdout.close()
    assert gone(pid)


def test_users_do_not_reach_each_other(node, stranger):
    """Neither by the socket nor by the folder."""
    node("serve")
    path, other = node.socket(), stranger()
    other("serve")
    assert other.pid() and other.pid() != node.pid()
    probe = ("import socket, sys\n"
             "try: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
             "except PermissionError: print('no')\n")
    answer = subprocess.run(["python3", "-c", probe, path], preexec_fn=other.become,
                            stdout=subprocess.PIPE, encoding="utf-8")
    assert answer.stdout == "no\n"
    wrong = other("serve", "--status", env={"PROBING_HOME": node.home})
    assert wrong.returncode != 0
