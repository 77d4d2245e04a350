"""The tool may die at any instant, and the target runs on."""
import json
import random
import signal
import subprocess
import time

import pytest

import patience
from harness import BIN, ENV, Script, probing, states, tracer

KILLS = 60


def runs(pid):
    """CPU time of the process moves on."""
    def ticks():
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before, end = ticks(), time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(0.02)
        if ticks() > before:
            return True
    return False


@pytest.mark.parametrize("options", [("-a", "--pause"), ("-a", "-n"), ("-a",)])
def test_killed_at_random_instants(start, any_py, options):
    target = start(Script, any_py, "spin.py")
    chance = random.Random(7)
    command = [BIN, str(target.pid), "backtrace", "-w", "0"] + list(options)
    for _ in range(KILLS):
        tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env=ENV)
        time.sleep(chance.uniform(0, 0.02))
        tool.kill()
        tool.wait()
        assert tracer(target.pid) == 0
    assert not set(states(target.pid)) & set("tT")
    assert runs(target.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_signal(start, any_py, number):
    target = start(Script, any_py, "spin.py")
    command = [BIN, str(target.pid), "backtrace", "-w", "0", "-a", "--pause"]
    for _ in range(5):
        tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV)
        time.sleep(0.02)
        tool.send_signal(number)
        _out, error = tool.communicate(timeout=60)
        assert error == b""
    assert not set(states(target.pid)) & set("tT")
    assert runs(target.pid)


INTERRUPTIBLE = """
import ctypes, os, select, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
broken = []

def epoll():
    fd = libc.epoll_create1(0)
    room = ctypes.create_string_buffer(64)
    return libc.epoll_wait(fd, room, 4, 100000000)

def receive():
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 100000, 0))
    room = ctypes.create_string_buffer(64)
    return libc.recv(left.fileno(), room, 1, 0)

def watch(call):
    result = call()
    broken.append("%s %d errno %d" % (call.__name__, result, ctypes.get_errno()))

for call in (epoll, receive):
    threading.Thread(target=watch, args=(call,), daemon=True).start()
time.sleep(0.1)
os.write(1, ("ready %d\\n" % os.getpid()).encode())
while True:
    time.sleep(0.01)
    if broken:
        os.write(2, ("\\n".join(broken)).encode())
        os._exit(9)
"""


@pytest.mark.parametrize("options", [("-a",), ("-a", "-n"), ("-a", "--pause"), ("-a", "-l")])
def test_blocked_calls_are_not_broken(start, any_py, tmp_path, options):
    """epoll_wait and timed receives would end with EINTR if their thread were stopped."""
    path = tmp_path / "interruptible.py"
    path.write_text(INTERRUPTIBLE)
    target = start(Script, any_py, "interruptible.py", path=str(path))
    for _ in range(40):
        assert probing(target.pid, "backtrace", *options).returncode == 0
    patience.meanwhile(0.05)
    assert target.process.poll() is None, target.process.stderr.read().decode()


def test_output_to_a_closed_pipe(start, any_py):
    target = start(Script, any_py, "many.py", "200")
    for _ in range(5):
        tool = subprocess.Popen([BIN, str(target.pid), "backtrace", "-a", "-w", "0"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
        tool.stdout.read(100)
        tool.stdout.close()
        error = tool.stderr.read()
        tool.stderr.close()
        tool.wait(timeout=60)
        assert error == b""
    assert not set(states(target.pid)) & set("tT")


def test_many_tools_at_once(start, any_py):
    target = start(Script, any_py, "spin.py")
    tools = [subprocess.Popen([BIN, str(target.pid), "backtrace", "-f", "json"], env=ENV,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
    for tool in tools:
        out, error = tool.communicate(timeout=60)
        assert tool.returncode == 0, error
        thread = json.loads(out.decode())["threads"][0]
        assert thread["torn"] or thread["frames"][-1]["func"] == "<module>"
    assert runs(target.pid)
