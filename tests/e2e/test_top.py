"""top: what functions and threads do, live."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import harness

harness.RESTLESS.update({"shares.py"})


@pytest.mark.few
def test_plain_text_in_a_pipe(py, start):
    target = start(harness.Script, py, "shares.py")
    answer = harness.probing(target.pid, "top", "--count", "2", "-i", "0.7")
    assert answer.returncode == 0 and answer.stderr == "", answer.stderr
    assert "\x1b" not in answer.stdout
    pictures = answer.stdout.strip("\n").split("\n\n%d · " % target.pid)
    assert len(pictures) == 2, answer.stdout
    assert "Python " + py.text_version in pictures[0]
    own = re.search(r"^ *([\d.]+)% +([\d.]+)%  burn  shares\.py$", pictures[1], re.M)
    assert own and 55 < float(own.group(1)) < 85, answer.stdout
    assert re.search(r"^ *[\d.]+% +[\d.]+%  rest  shares\.py  idle$", pictures[1], re.M)
    thread = re.search(r"^ *([\d.]+)%% +([\d.]+)%% +([\d.]+)%%  %d MainThread  in (?:burn|rest)$"
                       % target.pid, pictures[1], re.M)
    assert thread and float(thread.group(1)) > 55, answer.stdout
    if not py.free_threaded:
        held = re.search(r"GIL held (\d+) %", pictures[1])
        assert 50 < int(held.group(1)) <= 100, answer.stdout


def test_lines_and_total(any_py, start):
    target = start(harness.Script, any_py, "shares.py")
    answer = harness.probing(target.pid, "top", "--count", "1", "-i", "0.5", "--total", "--lines")
    assert answer.returncode == 0, answer.stderr
    rows = re.findall(r"^ *[\d.]+% +([\d.]+)%  (\S+)  shares\.py:(\d+)", answer.stdout, re.M)
    assert rows[0][1] == "<module>" and float(rows[0][0]) > 90, answer.stdout
    assert [float(row[0]) for row in rows] == sorted([float(row[0]) for row in rows], reverse=True)


def read_until(fd, what, seconds=10):
    text, end = b"", time.monotonic() + seconds
    while what not in text and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                text += os.read(fd, 65536)
            except OSError:
                break
    assert what in text, text
    return text


@pytest.mark.parametrize("how", ["key", "interrupt"])
def test_a_screen(any_py, start, how):
    target = start(harness.Script, any_py, "shares.py")
    master, slave = pty.openpty()
    tool = subprocess.Popen([harness.BIN, str(target.pid), "top", "-i", "0.3"], stdin=slave,
                            stdout=slave, stderr=slave, env=dict(harness.ENV, TERM="xterm"),
                            start_new_session=True)
    os.close(slave)
    try:
        text = read_until(master, b"MainThread")
        assert b"\x1b[?1049h" in text
        os.write(master, b"s")
        read_until(master, b"turn")  # which has no time of its own
        if how == "key":
            os.write(master, b"q")
        else:
            tool.send_signal(signal.SIGINT)
        read_until(master, b"\x1b[?1049l")
        assert tool.wait(60) == 0
    finally:
        tool.kill()
        tool.wait()
        os.close(master)


def test_keys(any_py, start):
    """Functions or lines, also of a thread that sleeps; what the keys are; a picture at once."""
    target = start(harness.Script, any_py, "shares.py")
    master, slave = pty.openpty()
    tool = subprocess.Popen([harness.BIN, str(target.pid), "top", "-i", "0.4"], stdin=slave,
                            stdout=slave, stderr=slave, env=dict(harness.ENV, TERM="xterm"),
                            start_new_session=True)
    os.close(slave)
    try:
        read_until(master, b"own  total  function")
        os.write(master, b"l2")
        read_until(master, b"own  total  line")
        read_until(master, b"main  shares.py:%d" % target.lines["main"])
        os.write(master, b"?")
        read_until(master, b"l lines or functions")
        os.write(master, b"l1")
        read_until(master, b"own  total  function")
        read_until(master, b"burn  shares.py\x1b")
        os.write(master, b"q")
        read_until(master, b"\x1b[?1049l")
        assert tool.wait(60) == 0
    finally:
        tool.kill()
        tool.wait()
        os.close(master)
    answer = harness.probing("top", "-h")
    assert "l between functions and lines" in answer.stdout


@pytest.mark.parametrize("columns, lines", [(40, 12), (20, 8), (100, 30)])
def test_it_fits(any_py, start, columns, lines):
    """Nothing is wider than the screen, and nothing scrolls away."""
    target = start(harness.Script, any_py, "many.py", 12)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    tool = subprocess.Popen([harness.BIN, str(target.pid), "top", "-i", "0.3"], stdin=slave,
                            stdout=slave, stderr=slave, env=dict(harness.ENV, TERM="xterm"),
                            start_new_session=True)
    os.close(slave)
    try:
        text = read_until(master, b"\x1b[J").decode()
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.partition("\x1b[H")[2]).split("\r\n")
        assert len(shown) <= lines, shown
        assert max(map(len, shown)) <= columns, shown
        assert any("Cond" in line for line in shown), shown
    finally:
        tool.kill()
        tool.wait()
        os.close(master)


def widest(text):
    """Of the last whole picture in it."""
    picture = text.split(b"\x1b[H")[-2].decode()
    return max(map(len, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", picture).split("\r\n")))


def test_another_size_and_a_pause(any_py, start):
    """The screen follows the terminal, and Ctrl-Z gives it back to the shell."""
    target = start(harness.Script, any_py, "many.py", 12)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    tool = subprocess.Popen([harness.BIN, str(target.pid), "top", "-i", "0.2"], stdin=slave,
                            stdout=slave, stderr=slave, env=dict(harness.ENV, TERM="xterm"),
                            start_new_session=True)
    try:
        read_until(master, b"\x1b[J")
        for columns in (40, 140):
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
            end = time.monotonic() + 30
            while True:
                text = b"".join(read_until(master, b"\x1b[J") for _ in range(3))
                if (columns - 40 < widest(text) <= columns) or time.monotonic() > end:
                    break
            assert columns - 40 < widest(text) <= columns, text
        tool.send_signal(signal.SIGTSTP)
        read_until(master, b"\x1b[?1049l")
        _, status = os.waitpid(tool.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status) and termios.tcgetattr(slave)[3] & termios.ECHO
        tool.send_signal(signal.SIGCONT)
        text = read_until(master, b"MainThread")
        assert b"\x1b[?1049h" in text
        os.write(master, b"q")
        read_until(master, b"\x1b[?1049l")
        assert tool.wait(60) == 0
    finally:
        tool.kill()
        tool.wait()
        os.close(slave)
        os.close(master)


def test_space_shows_what_there_is_now(any_py, start):
    target = start(harness.Script, any_py, "shares.py")
    master, slave = pty.openpty()
    tool = subprocess.Popen([harness.BIN, str(target.pid), "top", "-i", "3000"], stdin=slave,
                            stdout=slave, stderr=slave, env=dict(harness.ENV, TERM="xterm"),
                            start_new_session=True)
    os.close(slave)
    try:
        time.sleep(0.5)
        os.write(master, b" ")
        read_until(master, b"MainThread")
        os.write(master, b"q")
        read_until(master, b"\x1b[?1049l")
        assert tool.wait(60) == 0
    finally:
        tool.kill()
        tool.wait()
        os.close(master)


def test_a_process_that_ends(any_py, start):
    target = start(harness.Script, any_py, "shares.py", "end")
    answer = harness.probing(target.pid, "top", "-i", "0.3", timeout=20)
    assert answer.returncode == 0, answer.stderr


def test_refusals(any_py):
    assert harness.probing(999999999, "top").returncode == 4
    assert harness.probing(os.getpid(), "top", "-i", "0").returncode == 2
