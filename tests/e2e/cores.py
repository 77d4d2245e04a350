"""Core files of targets, written by the kernel or by a debugger."""
import os
import resource
import shutil
import signal
import subprocess

import pytest


def allow(target):
    resource.prlimit(target.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)


def dump_by_kernel(target, folder):
    """Ends the target, which must run in that folder, by a signal; the path of its core."""
    with open("/proc/sys/kernel/core_pattern") as file:
        pattern = file.read().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip("this kernel gives core files to somebody else: " + pattern)
    os.kill(target.pid, signal.SIGABRT)
    target.process.wait(60)
    found, = [name for name in os.listdir(folder) if name.startswith("core")]
    return str(folder / found)


def dump_by_gdb(target, folder):
    if not shutil.which("gcore"):
        pytest.skip("no gcore")
    subprocess.run(["gcore", "-o", str(folder / "core"), str(target.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return str(folder / ("core.%d" % target.pid))
