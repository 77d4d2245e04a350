"""The agent of this process: is it there, starting and stopping it. Imported at every start."""
import os
import time

ROOTS = ("/dev/shm", "/tmp")
SECONDS = 5


class AgentError(RuntimeError):
    """The agent could not be started or did not answer."""


class SettingError(AgentError, ValueError, KeyError):
    """No such setting, or not a value for it."""

    __str__ = Exception.__str__


def own_name():
    """This process's name among all since the machine started: <pid>-<starttime>."""
    with open("/proc/self/stat", "rb") as file:
        pid, _, rest = file.read().partition(b" ")
    start = rest.rpartition(b")")[2].split()[19]
    return "%s-%s" % (pid.decode(), start.decode())


def folders(root):
    """Folders of this user: one, unless somebody else took its name (src/base/home.h)."""
    name = "probing-%d" % os.geteuid()
    try:
        others = [entry for entry in os.listdir(root) if entry.startswith(name + "-")]
    except OSError:
        others = []
    for entry in [name] + sorted(others):
        path = os.path.join(root, entry)
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if status.st_uid == os.geteuid() and status.st_mode & 0o170077 == 0o040000:
            yield path


def sockets():
    """Where the agent may listen. A file alone proves nothing: exec leaves it behind."""
    name = own_name() + "/control"
    paths = [os.path.join(folder, name) for root in ROOTS for folder in folders(root)]
    return [path for path in paths if os.path.exists(path)]


def is_enabled():
    """Is an agent running in this process?"""
    paths = sockets()
    if not paths:
        return False
    from . import _wire
    line = _wire.connect(paths)
    if line:
        line.close()
    return line is not None


def entry():
    """The library's start function: options as text in, 0 or 1 or a negative errno out."""
    try:
        from . import libprobing
        return libprobing.start
    except ImportError as error:
        # An interpreter that takes no extension module of this name may still have ctypes.
        path = os.path.join(os.path.dirname(__file__), "libprobing.so")
        try:
            import ctypes
            library = ctypes.PyDLL(path)
        except (ImportError, OSError):
            raise AgentError(str(error))
        return lambda options: library.probing_start(options.encode())


def start(options=""):
    """True if it was not running; options are lines of key=value for an agent that starts."""
    begin = entry()
    try:
        result = begin(options)
        for _ in range(1000 * SECONDS):
            if result != 1 or is_enabled():
                break
            # It was running and cannot be reached: it is just being stopped.
            time.sleep(0.001)
            result = begin(options)
    except RuntimeError as error:
        raise AgentError(str(error))
    if result < 0:
        raise AgentError("the agent did not start: " + os.strerror(-result))
    return result == 0


def stop():
    """True if it was running."""
    if not is_enabled():
        return False
    from . import _wire
    _wire.ask(_wire.EJECT, "")
    return True
