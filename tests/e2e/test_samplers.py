"""What the node measures from outside: system.*, gpu.*, and what it says when it cannot."""
import os
import subprocess
import sys
import time

import pytest

import harness
import interpreters
import nodes
import patience

GROWER = """
import os, sys, time
print("ready", os.getpid(), flush=True)
kept = []
with open(sys.argv[1], "wb") as file:
    while True:
        kept.append(bytearray(b"x") * (2 << 20))
        kept = kept[-20:]
        file.write(b"y" * 65536)
        file.flush()
        time.sleep(0.02)
"""


def fake_nvml(folder):
    """A folder with a libnvidia-ml.so.1 that makes its numbers up."""
    path = os.path.join(folder, "libnvidia-ml.so.1")
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", path,
                    os.path.join(harness.TARGETS, "fake_nvml.c")], check=True)
    return str(folder)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(node, target): a quick node with a made-up GPU, and a process that is only looked at."""
    folder = tmp_path_factory.mktemp("samplers")
    script = folder / "grower.py"
    script.write_text(GROWER)
    target = harness.Target([interpreters.newest().command, str(script), str(folder / "out")],
                            env={"RANK": "2", "WORLD_SIZE": "4"})
    node = nodes.Node(folder, PROBING_SAMPLE_INTERVAL="0.1", FAKE_NVML_PID=target.pid,
                      LD_LIBRARY_PATH=fake_nvml(folder))
    yield node, target
    node.stop()
    target.stop()


def until(node, sql, target=None, seconds=30):
    """Rows of a query as soon as there are any."""
    end = time.monotonic() + seconds
    while True:
        rows = node.rows(sql, target)
        if rows or time.monotonic() > end:
            assert rows, sql
            return rows
        time.sleep(0.05)


def test_cpu_of_a_process_that_is_only_looked_at(world):
    node, target = world
    row = until(node, "SELECT * FROM system.cpu WHERE cpu_pct IS NOT NULL AND minor_faults_s > 0 "
                      "ORDER BY timestamp DESC LIMIT 1", target.pid)[0]
    with open("/proc/%d/status" % target.pid) as file:
        rss = [int(line.split()[1]) for line in file if line.startswith("VmRSS")][0] / 1024
    assert (row["pid"], row["rank"], row["threads"]) == (target.pid, 2, 1)
    assert 0 <= row["cpu_pct"] < 200 and abs(row["rss_mb"] - rss) < 30, row
    assert row["vms_mb"] > row["rss_mb"] and row["wait_ms"] >= 0
    assert row["voluntary_s"] > 1 and row["state"] in ("waiting", "running", "disk")
    assert abs(row["cpu_pct"] - row["user_pct"] - row["system_pct"]) < 0.01


def test_threads_that_ran(world):
    node, target = world
    row = until(node, "SELECT * FROM system.thread WHERE cpu_pct > 0 LIMIT 1", target.pid)[0]
    assert (row["pid"], row["tid"], row["rank"]) == (target.pid, target.pid, 2)
    assert row["name"].startswith("python") and row["cpu_pct"] < 150


def test_io(world):
    node, target = world
    row = until(node, "SELECT * FROM system.io WHERE writes_s > 1 LIMIT 1", target.pid)[0]
    # 64 KiB fifty times a second, if it gets that far.
    assert 0.1 < row["asked_write_mb_s"] < 20 and row["writes_s"] < 500


def test_cgroup(world):
    node, target = world
    row = until(node, "SELECT * FROM system.cgroup LIMIT 1", target.pid)[0]
    assert row["cgroup"].startswith("/") and row["pid"] == target.pid
    assert row["memory_mb"] is None or row["memory_mb"] > 1
    assert row["memory_max_mb"] is None or row["memory_max_mb"] > 1


def test_the_machine(world):
    node, _ = world
    row = until(node, "SELECT * FROM system.machine WHERE cpu_pct > 0 LIMIT 1")[0]
    assert row["pid"] is None and row["cpus"] == os.cpu_count()
    assert 0 < row["cpu_pct"] <= 100 and row["load_1"] >= 0 and row["threads"] > 10
    assert 0 < row["memory_used_mb"] < row["memory_total_mb"]


@pytest.mark.skipif(not os.path.exists("/proc/pressure/cpu"), reason="this kernel has no pressure")
def test_pressure(world):
    node, _ = world
    rows = until(node, "SELECT DISTINCT resource FROM system.pressure ORDER BY 1")
    assert {row["resource"] for row in rows} <= {"cpu", "memory", "io"}


def test_gpu_device(world):
    node, _ = world
    rows = until(node, "SELECT DISTINCT ON (device) * FROM gpu.device ORDER BY device")
    new, old = rows
    assert (new["name"], new["uuid"], new["driver"], new["cuda"]) == \
        ("Fake H200", "GPU-a", "570.1", "12.8")
    assert (new["memory_total_mb"], new["pcie_gen"], new["pcie_width"]) == (141 * 1024, 5, 16)
    assert (new["ecc_corrected"], new["ecc_uncorrected"]) == (9, 0)
    # What an older GPU does not tell, and what the library does not have at all.
    assert (old["name"], old["memory_total_mb"]) == ("Fake V100", 16 * 1024)
    assert (old["pcie_gen"], old["pci_bus_id"], old["ecc_corrected"]) == (None, None, None)


def test_gpu_utilization(world):
    node, _ = world
    row = until(node, "SELECT * FROM gpu.utilization WHERE device = 0 AND sm_active_pct > 0 "
                      "AND xid IS NOT NULL LIMIT 1")[0]
    assert (row["gpu_util"], row["mem_util"], row["memory_used_mb"]) == (87, 42, 1024)
    assert (row["power_w"], row["power_limit_w"], row["temperature_c"]) == (312.5, 700, 61)
    assert (row["sm_clock_mhz"], row["mem_clock_mhz"]) == (1980, 3201)
    assert row["throttle"] == "power cap, hardware thermal"
    assert (row["sm_active_pct"], row["sm_occupancy_pct"], row["tensor_pct"], row["dram_pct"]) == \
        (2.5, 3.5, 5.5, 10.5)
    assert (row["pcie_rx_mb_s"], row["pcie_tx_mb_s"]) == (21.5, 20.5)
    assert row["nvlink_rx_mb_s"] > 0 and row["memory_c"] is None
    assert (row["ecc_corrected"], row["ecc_uncorrected"], row["xid"]) == (3, 0, 79)
    old = until(node, "SELECT * FROM gpu.utilization WHERE device = 1 LIMIT 1")[0]
    assert (old["gpu_util"], old["memory_used_mb"], old["power_w"]) == (5, 2048, None)
    assert (old["throttle"], old["sm_active_pct"], old["xid"]) == (None, None, None)
    assert (old["pcie_rx_mb_s"], old["pcie_tx_mb_s"]) == (2, 1)


def test_gpu_process(world):
    node, target = world
    row = until(node, "SELECT * FROM gpu.process LIMIT 1", target.pid)[0]
    assert (row["pid"], row["rank"], row["device"], row["memory_used_mb"]) == \
        (target.pid, 2, 0, 768)


def test_interval_changes_while_it_runs(world):
    node, target = world

    def looks():
        """How many rows this very node has made."""
        return node.rows("SELECT \"rows\" AS n FROM probing.cost WHERE what = 'system.machine'"
                         )[0]["n"]

    until(node, "SELECT * FROM system.cpu LIMIT 1", target.pid)
    assert node("query", "SET probing.sample.interval = 0.5").returncode == 0
    try:
        before, began = looks(), time.monotonic()
        patience.meanwhile(1.8)
        assert looks() - before <= (time.monotonic() - began) / 0.5 + 2
    finally:
        node("query", "SET probing.sample.interval = 0.1")
    before = looks()
    end = time.monotonic() + 30
    while looks() < before + 5:
        assert time.monotonic() < end


def test_what_is_off_says_why(tmp_path):
    node = nodes.Node(tmp_path, LD_LIBRARY_PATH=fake_nvml(tmp_path), FAKE_NVML="broken")
    try:
        rows = until(node, "SELECT collector, state, reason FROM probing.agents "
                           "WHERE collector LIKE 'gpu.%' AND state = 'off'")
        assert len(rows) == 3 and {row["reason"] for row in rows} == {"NVML: Driver Not Loaded"}
        on = node.rows("SELECT state FROM probing.agents WHERE collector = 'system.cpu'")
        assert on == [{"state": "on"}]
    finally:
        node.stop()


def test_the_page_of_tables_is_what_the_tool_says():
    tool = os.path.join(harness.ROOT, "tools", "tables-doc")
    made = subprocess.run([sys.executable, tool, harness.BIN], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    with open(os.path.join(harness.ROOT, "docs", "tables.md"), encoding="utf-8") as file:
        assert file.read() == made.stdout, "run: tools/tables-doc PROBING > docs/tables.md"
