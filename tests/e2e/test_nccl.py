"""NCCL without a GPU: the end of its operations on a driver that is made up, its RAS service."""
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

import harness
import patience
import ranks
from harness import Target
from injecting import inject
from nodes import node  # noqa: F401: a fixture
from strangers import FIRST, Stranger, needs_root

torch = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="no torch")
def fake(folder, soname):
    path = os.path.join(str(folder), soname)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname," + soname, "-o", path,
                    os.path.join(harness.TARGETS, "fake_cuda.c")], check=True)
    return path


def says(target, what, seconds=30):
    end = time.monotonic() + seconds
    while what not in target.text():
        assert time.monotonic() < end, target.text()
        time.sleep(0.05)


class Gpu:
    """A process that works on a GPU which does not exist."""

    def __init__(self, folder, script):
        self.go, self.out = os.path.join(str(folder), "go"), os.path.join(str(folder), "out")
        command = [sys.executable, os.path.join(harness.TARGETS, script),
                   fake(folder, "libcuda.so.1"), fake(folder, "libc10_cuda.so"), self.go]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, env=harness.ENV,
                                            preexec_fn=harness.die_with_parent)
        self.pid = self.process.pid
        harness.STARTED.add(self.pid)

    def text(self):
        with open(self.out) as file:
            return file.read()

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def gpu(tmp_path, node, request):
    """With the agent in it, and begun."""
    made = Gpu(tmp_path, request.param)
    try:
        says(made, "ready")
        inject(made.pid, env=node.env)
        ranks.wait_for(node, "SELECT state FROM probing.agents WHERE pid = %d AND "
                             "collector = 'torch_comm' AND state = 'on'" % made.pid)
        open(made.go, "w").close()
        says(made, "begun")
        yield made
    finally:
        made.stop()


@torch
@pytest.mark.parametrize("gpu", ["comm_waited.py"], indirect=True)
def test_operations_that_are_waited_for(node, gpu):
    """The agent waits where the GPU takes nothing more, and Python goes on meanwhile."""
    assert node(gpu.pid, "eval", "6 * 7").stdout == "42\n"
    sql = "SELECT op, state, latency_ms, bytes FROM comm_metrics WHERE op != 'broadcast' " \
          "ORDER BY timestamp"
    assert "done" not in gpu.text()
    assert [tuple(row.values()) for row in node.rows(sql, gpu.pid)][1:] == [
        ("all_reduce", "enqueued", None, 24)]
    assert node(gpu.pid, "eval", "cuda.fake_full(0); cuda.fake_over(11, 9.0)").returncode == 0
    says(gpu, "done")
    assert node(gpu.pid, "eval", "cuda.fake_over(11, 9.0)").returncode == 0
    expected = [("all_reduce", "done", 4.5, 24), ("all_reduce", "done", 0.0, 24),
                    ("all_reduce", "dropped", None, 24)]
    end = time.monotonic() + 30
    while [tuple(row.values()) for row in node.rows(sql, gpu.pid)] != expected:
        assert time.monotonic() < end, node.rows(sql, gpu.pid)
        time.sleep(0.2)


@torch
@pytest.mark.parametrize("gpu", ["comm_gpu.py"], indirect=True)
def test_operations_end_when_the_gpu_has_done_them(node, gpu):
    sql = "SELECT op, state, latency_ms FROM comm_metrics ORDER BY timestamp"
    rows = [tuple(row.values()) for row in node.rows(sql, gpu.pid)]
    assert rows == [("all_reduce", "enqueued", None), ("all_gather_into_tensor", "enqueued", None)]
    open(gpu.go + ".over", "w").close()
    says(gpu, "done")
    rows = [tuple(row.values()) for row in node.rows(sql, gpu.pid)]
    assert rows == [("all_reduce", "done", 8.5), ("all_gather_into_tensor", "done", 7.5),
                    ("broadcast", "enqueued", None), ("reduce", "enqueued", None),
                    ("reduce_scatter", "captured", None)]
    # Both were at work at the same time, from 1.0 to 9.5 ms.
    steps = [row["comm_ms"] for row in node.rows(
        "SELECT comm_ms FROM python.training_logs ORDER BY step", gpu.pid)]
    assert len(steps) == 2 and steps[0] < 5 and 8.5 <= steps[1] < 13, steps
    patience.meanwhile(2.2)  # two looks later, what hangs still does
    assert [tuple(row.values()) for row in node.rows(sql, gpu.pid)] == rows


class Ras(threading.Thread):
    """The service as NCCL speaks it: lines, then everything and the end."""

    REPLY = {
        "nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
        "timestamp": "2026-01-01 00:00:00", "communicators_count": 1, "communicators": [{
            "hash": "0xabc", "secondary_hash": "0x1:0x2", "size": 3, "ranks_count": 2,
            "missing_ranks_count": 1, "ranks": [
                {"rank": 0, "host": "10.0.0.1", "pid": 0, "cuda_dev": 0, "nvml_dev": 0,
                 "status": {"init_state": 0, "async_error": 0, "finalize_called": False,
                            "destroy_flag": False, "abort_flag": False},
                 "collective_counts": {"Broadcast": 2, "AllReduce": 40, "Send": 0}},
                {"rank": 1, "host": "10.0.0.2", "pid": 5000099, "cuda_dev": 1, "nvml_dev": 1,
                 "status": {"init_state": 0, "async_error": 6, "finalize_called": False,
                            "destroy_flag": False, "abort_flag": True},
                 "collective_counts": {"Broadcast": 2, "AllReduce": 39, "Send": 0}}],
            "missing_ranks": [
                {"rank": 2, "host": "10.0.0.3", "pid": 5000077, "cuda_dev": 0, "nvml_dev": 0,
                 "status": {"unresponsive": True, "considered_dead": True}}]}],
        "ras": {"collection_time_sec": 0.01, "timeouts_count": 0}}

    def __init__(self, json_known):
        super().__init__(daemon=True)
        self.json_known = json_known
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.asked = []
        self.pid = 0

    def answer(self, line):
        if line.startswith("CLIENT PROTOCOL"):
            return "SERVER PROTOCOL 2\n"
        if line.startswith("TIMEOUT"):
            return "OK\n"
        if line == "SET FORMAT json":
            return "OK\n" if self.json_known else "ERROR: Unknown command SET FORMAT json\n"
        assert line == "VERBOSE STATUS"
        reply = json.loads(json.dumps(self.REPLY))
        reply["communicators"][0]["ranks"][0]["pid"] = self.pid
        return json.dumps(reply, indent=2) if self.json_known else "Job summary\n===========\n"

    def run(self):
        while True:
            link = self.door.accept()[0]
            with link, link.makefile("r") as lines:
                for line in lines:
                    self.asked.append(line.strip())
                    link.sendall(self.answer(line.strip()).encode())
                    if line.strip() == "VERBOSE STATUS":
                        break


@pytest.mark.parametrize("json_known", [True, False])
def test_ras(node, json_known):
    service = Ras(json_known)
    service.start()
    code = "import os, time; print('ready', os.getpid(), flush=True); time.sleep(60)"
    target = Target([sys.executable, "-c", code],
                    env={"NCCL_RAS_ADDR": "localhost:%d" % service.port})
    try:
        service.pid = target.pid
        sql = ("SELECT comm, comm_size, comm_rank, state, async_error, collectives, counts, "
               "address, version, report, pid FROM nccl.ras ORDER BY comm_rank")
        rows = [tuple(row.values()) for row in node.rows(sql)]
        if not json_known:
            assert rows == [(None,) * 9 + ("Job summary\n===========\n", None)]
            return
        assert rows == [
            ("0xabc", 3, 0, "running", 0, 42, '{"Broadcast":2,"AllReduce":40}', "10.0.0.1",
             "2.28.9", None, target.pid),
            ("0xabc", 3, 1, "abort", 6, 41, '{"Broadcast":2,"AllReduce":39}', "10.0.0.2", "2.28.9",
             None, 5000099),
            ("0xabc", 3, 2, "dead", None, None, None, "10.0.0.3", "2.28.9", None,
             5000077)]
        mine = node.rows("SELECT comm_rank FROM nccl.ras", target.pid)
        assert mine == [{"comm_rank": 0}]
    finally:
        target.stop()


@needs_root
def test_a_stranger_does_not_choose_whom_root_calls(node, start):
    """Neither the port that its environment names, nor a service of its own on ours."""
    service = Ras(True)
    service.start()
    start(Stranger, FIRST, "probed.py", env={"NCCL_RAS_ADDR": "localhost:%d" % service.port})
    assert node.rows("SELECT count(*) AS n FROM system.process WHERE \"user\" = '%d'"
                     % FIRST)[0]["n"] > 0
    assert node.rows("SELECT * FROM nccl.ras") == [] and service.asked == []
    with socket.create_server(("127.0.0.1", 0)) as door:
        os.fchown(door.fileno(), FIRST, FIRST)  # what /proc/net/tcp says of it
        code = "import os, time; print('ready', os.getpid(), flush=True); time.sleep(60)"
        start(Target, [sys.executable, "-c", code],
              env={"NCCL_RAS_ADDR": "localhost:%d" % door.getsockname()[1]})
        door.settimeout(1)
        assert node.rows("SELECT * FROM nccl.ras") == []
        with pytest.raises(socket.timeout):
            door.accept()


def test_nobody_is_asked_without_nccl(node):
    assert node.rows("SELECT * FROM nccl.ras") == []
