"""The Python package as a folder for PYTHONPATH, put together from the tree and the build."""
import glob
import os
import shutil

import harness

LIBRARY = os.path.join(os.path.dirname(harness.BIN), "libprobing.so")


def make(folder):
    """The folder's path, for PYTHONPATH."""
    target = os.path.join(str(folder), "probing")
    os.makedirs(target)
    for path in glob.glob(os.path.join(harness.ROOT, "python", "probing", "*.py")) + [LIBRARY]:
        shutil.copy(path, target)
    with open(os.path.join(target, "_version.py"), "w") as file:
        file.write('__version__ = "0"\n')
    return str(folder)


def home(pid):
    """Where the agent of a process of this machine keeps its tables."""
    return "/dev/shm/probing-%d/%s-%s" % (os.getuid(), pid, harness.start_time(int(pid)))
