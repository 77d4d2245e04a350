"""A node of a test's own, and questions to it in SQL."""
import glob
import json
import os
import shutil
import subprocess

import harness


class Node:
    """Data folder and node that nothing else uses; started by the first question."""

    def __init__(self, folder, **env):
        self.folder = str(folder)
        self.env = dict({"PROBING_HOME": os.path.join(self.folder, "data"),
                         "XDG_CONFIG_HOME": os.path.join(self.folder, "config"),
                         "PATH": os.path.dirname(harness.BIN) + ":" + os.environ["PATH"]}, **env)

    def run(self, *words, env=None, **how):
        return harness.probing(*words, env=dict(self.env, **(env or {})), **how)

    def text(self, *words, **how):
        """stdout of a command that must succeed."""
        answer = self.run(*words, **how)
        assert answer.returncode == 0, answer
        return answer.stdout

    def rows(self, sql, target=None, **how):
        """The answer as a list of objects."""
        words = ([target] if target else []) + ["query", "-f", "json", sql]
        return json.loads(self.text(*words, **how))

    def shell(self, line, **env):
        """A command line as typed."""
        return subprocess.run(["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                              env=dict(harness.ENV, **self.env, **env), check=False)

    def stop(self):
        self.run("serve", "--stop")


def forget(pid):
    """Removes what a killed process left behind."""
    for folder in glob.glob("/dev/shm/probing-%d/%d-*" % (os.getuid(), pid)):
        shutil.rmtree(folder, ignore_errors=True)


def table(text):
    """(titles, rows) of a table as it is printed."""
    lines = text.splitlines()
    assert set(lines[1]) <= set("-|"), text
    # The bars under the titles say where the columns end; a cell may hold a bar itself.
    ends = [at for at, sign in enumerate(lines[1]) if sign == "|"]
    starts = [0] + [at + 1 for at in ends]

    def cells(line):
        return [line[a:b].strip() for a, b in zip(starts, ends + [None])]

    return cells(lines[0]), [cells(line) for line in lines[2:]]
