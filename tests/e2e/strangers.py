"""Processes of users that are nobody's, for tests that run as root."""
import ctypes
import os
import shutil
import signal
import subprocess

import pytest

import harness
import interpreters

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become other users")
# Nobody's, and of this run alone.
FIRST = 65600 + os.getpid() % 2000 * 2
SECOND = FIRST + 1
PR_SET_PDEATHSIG = 1


def become(uid):
    """For a child: this user, and no longer alive than the test."""
    def change():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return change


def is_open(path):
    """Can others get at it at all?"""
    path = os.path.realpath(path)
    while path != "/":
        if not os.stat(path).st_mode & 0o001 and not os.path.isfile(path):
            return False
        path = os.path.dirname(path)
    return True


def python():
    """An interpreter that is not in somebody's home; skips the test when there is none."""
    ways = [item.command for item in interpreters.found()] + ["/usr/bin/python3"]
    way = next((way for way in ways if os.path.exists(way) and is_open(way)), None)
    if not way or not is_open(harness.BIN) or not is_open(harness.TARGETS):
        pytest.skip("other users cannot reach the tool, its targets or any Python")
    return way


def run(uid, *command, env=None, timeout=60):
    """Any command as that user."""
    return subprocess.run([str(word) for word in command], preexec_fn=become(uid), cwd="/",
                          env=dict(harness.ENV, **(env or {})), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                          encoding="utf-8", check=False)


class Stranger(harness.Target):
    """A script of tests/targets in a process of that user."""

    def __init__(self, uid, script, *args, env=None):
        self.uid = uid
        command = [python(), os.path.join(harness.TARGETS, script)] + [str(arg) for arg in args]
        super().__init__(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
                         + command, env=env, cwd="/")

    def stop(self):
        super().stop()
        shutil.rmtree("/dev/shm/probing-%d" % self.uid, ignore_errors=True)
