"""Targets with an agent in them, and a client that speaks its protocol byte by byte."""
import os
import signal
import socket
import struct
import subprocess

import harness
import patience

MAGIC, HEAD = 0x31474250, struct.Struct("=IHHII")
HELLO, EVAL, INTERRUPT, COMPLETE, CONFIG, EJECT, STATUS = range(1, 8)
OUT, ERR, DONE = 16, 17, 18


class Probed(harness.Script):
    """tests/targets/probed.py; eval() and friends run the tool on it."""

    def __init__(self, interpreter, *args, **how):
        super().__init__(interpreter, "probed.py", *args, **how)

    def settle(self, seconds=patience.SECONDS):
        """It wakes up all the time."""
        return self

    def eval(self, *args, **how):
        return harness.probing(self.pid, "eval", *args, **how)

    def value(self, *args, **how):
        """What the code prints; it must succeed."""
        answer = self.eval(*args, **how)
        assert answer.returncode == 0, answer
        return answer.stdout

    def end(self):
        """Lets the job end by itself; what it printed, and its exit code."""
        self.eval("finish = True")
        out, err = self.process.communicate(timeout=patience.SECONDS)
        return self.process.returncode, out.decode(), err.decode()

    def home(self, pid=None):
        pid = pid or self.pid
        with open("/proc/%d/status" % pid) as file:
            inside = [line for line in file if line.startswith("NSpid")][0].split()[-1]
        return "/proc/%d/root/dev/shm/probing-%d/%s-%s" % (pid, os.getuid(), inside,
                                                           harness.start_time(pid))

    def threads(self):
        return len(os.listdir("/proc/%d/task" % self.pid))


class Wire:
    """A connection to an agent."""

    def __init__(self, home):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        try:
            self.connect(home)
            kind, _, text = self.read()
        except BaseException:
            self.socket.close()
            raise
        assert kind == HELLO
        self.hello = dict(line.split("=", 1) for line in text.decode().splitlines())

    def connect(self, home):
        """The path may be longer than the address of a socket."""
        folder = os.open(home, os.O_PATH)
        try:
            self.socket.connect("/proc/self/fd/%d/control" % folder)
        finally:
            os.close(folder)

    def send(self, kind, body=b"", number=1):
        self.socket.sendall(HEAD.pack(MAGIC, kind, 0, number, len(body)) + body)

    def take(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def read(self):
        magic, kind, _flags, number, size = HEAD.unpack(self.take(HEAD.size))
        assert magic == MAGIC
        return kind, number, self.take(size)

    def answer(self, number=1):
        """(result, stdout, stderr, why) of a question."""
        out = {OUT: b"", ERR: b""}
        while True:
            kind, got, body = self.read()
            if got != number:
                continue
            if kind == DONE:
                return struct.unpack("=II", body[:8])[0], out[OUT], out[ERR], body[8:].decode()
            out[kind] += body

    def ask(self, kind, body=b"", number=1):
        self.send(kind, body, number)
        return self.answer(number)

    def eval(self, code, flags=0, timeout_ms=0, number=1):
        self.send(EVAL, struct.pack("=IIii", flags, timeout_ms, 0, 0) + code.encode(), number)

    def close(self):
        self.socket.close()


def start_tool(*args):
    """The tool in the background, for Ctrl-C and streams."""
    return subprocess.Popen([harness.BIN] + [str(arg) for arg in args], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.ENV,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def computed(pid, tid):
    """Seconds that a thread has computed."""
    with open("/proc/%d/task/%s/schedstat" % (pid, tid)) as file:
        return int(file.read().split()[0]) / 1e9
