"""
Says of itself and of its children of every kind whether an agent is in them.

usage: family.py [WORD...]; with children: fork subprocess spawn exec. Prints a JSON object for
each process, one a line, then ends with status 7.
"""
import json
import os
import subprocess
import sys
import time


def agent_here():
    """By its socket; a child that was just forked gets its own a little later."""
    with open("/proc/self/stat") as file:
        pid, _, rest = file.read().partition(" ")
    name = "probing-%d/%s-%s/control" % (os.geteuid(), pid, rest.rpartition(")")[2].split()[19])
    paths = [os.path.join(root, name) for root in ("/dev/shm", "/tmp")]
    return any(map(os.path.exists, paths))


def threads():
    return len(os.listdir("/proc/self/task"))


def wait_for_agent():
    """One that follows a fork has a thread at once (in 3.6 soon), and its socket a little later."""
    began = time.time()
    while not agent_here() and time.time() < began + (10 if threads() > 1 else 0.2):
        time.sleep(0.01)


def tell(kind):
    facts = {
        "kind": kind,
        "pid": os.getpid(),
        "agent": agent_here(),
        "imported": sorted(name for name in sys.modules if name.startswith("probing")),
        "threads": threads(),
        "probing": os.environ.get("PROBING"),
        "probe": os.environ.get("PROBE"),
        "pythonpath": os.environ.get("PYTHONPATH"),
        "path": sys.path,
        "site": os.path.abspath(getattr(sys.modules.get("sitecustomize"), "__file__", None) or "/"),
        "timeout": os.environ.get("PROBING_EVAL_TIMEOUT"),
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def forked():
    pid = os.fork()
    if pid == 0:
        wait_for_agent()
        tell("fork")
        os._exit(0)
    os.waitpid(pid, 0)


def spawned():
    import multiprocessing
    child = multiprocessing.get_context("spawn").Process(target=tell, args=("spawn",))
    child.start()
    child.join()


def main(words):
    if words[:1] == ["child"]:
        return tell(words[1])
    tell("main")
    if "fork" in words:
        forked()
    if "subprocess" in words:
        subprocess.call([sys.executable, os.path.abspath(__file__), "child", "subprocess"])
    if "spawn" in words:
        spawned()
    if "exec" in words:
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "child", "exec"])
    sys.exit(7)


if __name__ == "__main__":
    main(sys.argv[1:])
