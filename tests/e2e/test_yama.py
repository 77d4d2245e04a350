"""Where Yama is on, a probed process may be read by the tool that asks its agent, not by all."""
import os

import pytest

import harness
from strangers import FIRST, Stranger, needs_root, python, run

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"


def scope():
    if not os.path.exists(SCOPE):
        return "0"
    with open(SCOPE) as file:
        return file.read().strip()


pytestmark = [needs_root, pytest.mark.skipif(scope() != "1", reason="no Yama, or not at 1")]
READ = ("import ctypes, sys\n"
        "class V(ctypes.Structure): _fields_ = [('at', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "buf = ctypes.create_string_buffer(8)\n"
        "maps = open('/proc/%s/maps' % sys.argv[1]).readline()\n"
        "here = V(ctypes.addressof(buf), 8); there = V(int(maps.split('-')[0], 16), 8)\n"
        "call = ctypes.CDLL(None).process_vm_readv\n"
        "print(call(int(sys.argv[1]), ctypes.byref(here), 1, ctypes.byref(there), 1, 0))\n")


def test_the_tool_and_nobody_else(start):
    target = start(Stranger, FIRST, "probed.py")
    assert run(FIRST, harness.BIN, target.pid, "backtrace").returncode == 3
    assert harness.probing(target.pid, "inject").returncode == 0
    assert run(FIRST, harness.BIN, target.pid, "backtrace").returncode == 0
    assert run(FIRST, python(), "-c", READ, target.pid).stdout == "-1\n"
    assert run(FIRST, harness.BIN, target.pid, "config",
               "agent.allow_ptrace=off").returncode == 0
    assert run(FIRST, harness.BIN, target.pid, "backtrace").returncode == 3
