"""
Activation by environment, at the start of an interpreter (docs/python.md has the rules).
Importing this does it: a .pth file has one line, and site reads it twice in a virtual environment.

PROBING=1 concerns the first Python process only, but a variable reaches every child. So that
process writes its name behind the value, PROBING=1:<pid>-<starttime>: whoever reads another's
name is a child, and a process that replaced itself by exec still reads its own.
"""
import os
import sys

MODES = {"1": "1", "followed": "1", "2": "2", "nested": "2"}
FORKS = "PROBING_AGENT_FOLLOW_FORKS"
# Short options of the interpreter that take the next word, or the rest of their own.
WITH_VALUE = "cmWX"


def run():
    """Does what the environment asks. False: it asks another process, not this one."""
    name = "PROBING" if os.environ.get("PROBING") else "PROBE"
    value = os.environ.get(name)
    if not value:
        if not os.environ.get("PROBING_PORT"):
            return True
        name, value = "PROBING", "1"
    try:
        return decide(name, value.strip())
    except Exception as error:  # whatever it is, the user's program goes on
        # Said once: the children do not try again.
        for variable in (name, "PROBING_PORT"):
            os.environ.pop(variable, None)
        say("probing: not enabled: %s" % error)
        return True


def decide(name, value):
    mode, _, owner = value.partition(":")
    if value == "0":
        return True
    if value.startswith("regex:"):
        return only_if(matches(value[len("regex:"):]))
    if mode in MODES:
        return by_mode(name, MODES[mode], owner)
    if value.endswith(".py"):
        return only_if(script() == os.path.basename(value))
    raise ValueError("%s=%s is none of 0, 1, 2, name.py, regex:PATTERN" % (name, value))


def by_mode(name, mode, owner):
    from ._agent import own_name
    me = own_name()
    if owner and owner != me and mode == "1":
        return False
    os.environ[name] = "%s:%s" % (mode, owner or me)
    # A forked child has no start of its own where it could decide.
    follow = "" if mode == "2" or FORKS in os.environ else "agent.follow_forks=off"
    activate(follow, loud=not owner)
    return True


def only_if(fits):
    if fits:
        activate("", loud=True)
    return True


def activate(options, loud):
    from ._agent import start
    if sys.implementation.name != "cpython":
        raise RuntimeError("only CPython has an agent")
    hook = sys.excepthook
    started = start(options + crash_options(options))
    if started and wants_crash():
        await_crash_hook(hook)
    if not started or not loud:
        return
    if not os.environ.get("PROBING_QUIET"):
        say("Probing enabled for process %d" % os.getpid())
    if os.environ.get("PROBING_PORT"):
        from ._port import serve
        say(serve(os.environ["PROBING_PORT"]))


def wants_crash():
    return os.environ.get("PROBING_CRASH", "0") != "0"


def crash_options(options):
    """PROBING_CRASH=1: the tool that makes the reports is the one that came with this package."""
    if not wants_crash():
        return ""
    import threading  # noqa: F401 (so that its first thread already has a stack for handlers)
    if os.environ.get("PROBING_CRASH_TOOL"):
        return ""
    from ._port import find
    tool = find()
    return ("\n" if options else "") + "crash.tool=" + tool if tool else ""


def await_crash_hook(before, seconds=0.5):
    """The agent's own thread puts the hook in place; a program may fail in its first line."""
    import time
    end = time.monotonic() + seconds
    while sys.excepthook is before and time.monotonic() < end:
        time.sleep(0.0005)


def say(line):
    """sys.stderr is None when the process was started without one."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except Exception:
        pass


def words():
    """The command line; sys.argv is not there yet in old versions."""
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def matches(pattern):
    import re
    return re.search(pattern, " ".join(words())) is not None


def script():
    """File name of what is run; train.py for `-m package.train` too, "" for none."""
    rest = words()[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option.startswith("--"):
            if option == "--check-hash-based-pycs":
                del rest[:1]
            continue
        for at, letter in enumerate(option[1:], 2):
            if letter not in WITH_VALUE:
                continue
            value = option[at:] or "".join(rest[:1])
            if letter == "c":
                return ""
            if letter == "m":
                return value.rpartition(".")[2] + ".py"
            if not option[at:]:
                del rest[:1]
            break
    return os.path.basename(rest[0]) if rest else ""


meant = run()
