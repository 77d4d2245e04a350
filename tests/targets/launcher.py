"""A launcher with two ranks, each with a worker of its own: `launcher.py` starts itself again."""
import os
import subprocess
import sys
import time


def worker():
    os.write(1, b"w")
    time.sleep(100000)  # LINE:worker


def rank():
    if os.fork() == 0:
        worker()  # LINE:forked
    time.sleep(100000)  # LINE:rank


def launcher():
    read, write = os.pipe()
    for number in range(2):
        # The second one behind a shell, as launch scripts do it.
        command = [sys.executable, __file__, "rank"]
        if number == 1:
            command = ["/bin/sh", "-c", '"$0" "$@"; true'] + command
        subprocess.Popen(command, stdout=write, env=dict(os.environ, RANK=str(number),
                                                         WORLD_SIZE="2"))
    got = b""
    while len(got) < 2:
        got += os.read(read, 1)
    print("ready", os.getpid())
    sys.stdout.flush()
    time.sleep(100000)  # LINE:launcher


if sys.argv[1:] == ["rank"]:
    rank()  # LINE:start
else:
    launcher()  # LINE:module
