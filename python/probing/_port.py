"""
PROBING_PORT: asks the node of this machine, which starts if need be, to listen on a port for this
process. The tool does it; this runs it and says what it says.
"""
import os
import signal
import sys
import time

from ._agent import own_name

SECONDS = 2


def serve(port):
    """Where it listens and how to connect, a line each; or one line that says why not."""
    address = port if ":" in port else "0.0.0.0:" + port
    tool = find()
    if not tool:
        return "probing: PROBING_PORT: the program probing is not installed with the package"
    status, out = run([tool, "serve", "--listen", address, "--owner", own_name()])
    lines = out.decode("utf-8", "replace").strip().split("\n")[:2]
    if lines[0] or status == 0:
        return "\n".join(lines if status == 0 else lines[:1])
    return "probing: PROBING_PORT: no answer in %d s" % SECONDS


def find():
    """The tool that came with this package; a search through $PATH comes last."""
    package = os.path.dirname(os.path.abspath(__file__))
    site = os.path.dirname(package)
    places = [os.environ.get("PROBING_EXECUTABLE", ""),
              os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(site))), "bin/probing"),
              os.path.join(site, "bin/probing"),  # pip install --target
              os.path.join(sys.prefix, "bin/probing")]
    places += [os.path.join(folder, "probing")
               for folder in os.environ.get("PATH", "").split(":") if folder]
    return next((path for path in places if path and os.access(path, os.X_OK)), None)


def run(command):
    """(exit status, output) of a command that has a moment; it is gone when this returns."""
    reader, writer = os.pipe()
    try:
        pid = spawn(command, writer)
    finally:
        os.close(writer)
    try:
        return listen(pid, reader)
    finally:
        os.close(reader)


def spawn(command, writer):
    if hasattr(os, "posix_spawn"):
        actions = [(os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, writer, 2)]
        return os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            os.execv(command[0], command)
        finally:
            os._exit(127)
    return pid


def listen(pid, reader):
    """Whoever waits for children of its own must not find ours: it is collected here, or killed."""
    os.set_blocking(reader, False)
    out, ended, end = b"", 0, time.monotonic() + SECONDS
    while not ended and time.monotonic() < end:
        time.sleep(0.002)
        ended, status = os.waitpid(pid, os.WNOHANG)
        try:
            out += os.read(reader, 4096)
        except BlockingIOError:
            pass
    if ended:
        return status, out
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 1, out
