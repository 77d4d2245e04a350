"""A node of the test's own: a data folder nobody else uses, and its end."""
import json
import os
import re
import subprocess
import time

import pytest

import harness
import patience


class Node:
    """probing with PROBING_HOME and a token of its own; started by whatever needs it."""

    def __init__(self, folder, uid=None, **settings):
        self.home = os.path.join(str(folder), "home")
        self.uid = uid
        self.env = dict(PROBING_HOME=self.home, XDG_CONFIG_HOME=os.path.join(str(folder), "config"))
        self.env.update({name: str(value) for name, value in settings.items()})

    def become(self):
        """In a child: the user whose node it is."""
        harness.die_with_parent()
        if self.uid is not None:
            os.setgroups([])
            os.setgid(self.uid)
            os.setuid(self.uid)

    def __call__(self, *args, **how):
        command = [harness.BIN] + [str(arg) for arg in args]
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=how.pop("timeout", patience.SECONDS),
                              env=dict(harness.ENV, **dict(self.env, **how.pop("env", {}))),
                              preexec_fn=self.become if self.uid is not None else None,
                              encoding="utf-8", **how)

    def start(self, *args):
        """The tool in the background."""
        return subprocess.Popen([harness.BIN] + [str(arg) for arg in args],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=dict(harness.ENV, **self.env),
                                preexec_fn=self.become, encoding="utf-8")

    def rows(self, sql, target=None, **how):
        """Answer of a query as a list of dicts; it must succeed."""
        answer = self(*([target] if target else []), "query", "-f", "json", sql, **how)
        assert answer.returncode == 0, (answer.returncode, answer.stderr)
        return json.loads(answer.stdout)

    def pid(self):
        """Of the running node, or None."""
        answer = self("serve", "--status")
        found = re.match(r"node (\d+), version \S+, on (\S+)", answer.stdout)
        assert (answer.returncode == 0) == bool(found), answer
        return int(found.group(1)) if found else None

    def socket(self):
        return self("serve", "--status").stdout.split()[5].rstrip(",")

    def log(self):
        with open(os.path.join(self.home, "node.log")) as file:
            return file.read()

    def stop(self):
        self("serve", "--stop")


def alive(pid):
    """Is it there, one of its threads at least, and not just its remains?"""
    try:
        with open("/proc/%d/stat" % pid) as file:
            ended = file.read().rpartition(")")[2].split()[0] in "ZX"
        return not ended or len(os.listdir("/proc/%d/task" % pid)) > 1
    except OSError:
        return False


def gone(pid, seconds=patience.SECONDS):
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    yield made
    made.stop()
