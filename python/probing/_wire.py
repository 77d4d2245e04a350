"""
Questions to the agent of this process.

They go over its socket, as the tool's do, rather than into the library: the agent may be
another copy of it, one that was injected. The messages are those of src/base/wire.h.
"""
import socket
import struct

from . import _agent

HEAD = struct.Struct("=IHHII")
MAGIC = 0x31474250
CONFIG, EJECT, OUT, DONE = 5, 6, 16, 18
OK, REFUSED = 0, 2
LONGEST = 1 << 20


def connect(paths):
    """A line to the agent, or None without one."""
    for path in paths:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(_agent.SECONDS)
        try:
            line.connect(path)
            return line
        except OSError:
            line.close()
    return None


def ask(kind, text):
    """The agent's answer to one question."""
    line = connect(_agent.sockets())
    if not line:
        raise _agent.AgentError("the agent is not running: probing.enable() starts it")
    body = text.encode()
    try:
        line.sendall(HEAD.pack(MAGIC, kind, 0, 1, len(body)) + body)
        result, why, out = collect(line)
    except OSError as error:
        raise _agent.AgentError("the agent did not answer: %s" % error)
    finally:
        line.close()
    if result == REFUSED:
        raise _agent.SettingError(why)
    if result != OK:
        raise _agent.AgentError(why or "the agent answered %d" % result)
    return out


def collect(line):
    """(result, reason, output) of question 1, whatever else arrives before its end."""
    out = b""
    while True:
        magic, kind, _, number, length = HEAD.unpack(exactly(line, HEAD.size))
        if magic != MAGIC or length > LONGEST:
            raise OSError("not a message of this version")
        body = exactly(line, length)
        if number == 1 and kind == OUT:
            out += body
        elif number == 1 and kind == DONE and length >= 8:
            result, _ = struct.unpack_from("=II", body)
            return result, body[8:].decode("utf-8", "replace"), out.decode("utf-8", "replace")


def exactly(line, count):
    data = b""
    while len(data) < count:
        piece = line.recv(count - len(data))
        if not piece:
            raise OSError("it closed the line")
        data += piece
    return data
