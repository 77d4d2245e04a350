"""
What gpu.* says of a real NVIDIA GPU, next to nvidia-smi. By hand, on a machine that has one:

    PROBING_BIN=build/release/probing python3 tests/bench/gpu_check.py

Where torch is installed, the GPU is given something to do meanwhile. Exits 1 when a number is far
from what nvidia-smi says.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

TOOL = os.environ.get("PROBING_BIN", "build/release/probing")
LOAD = """
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
end = time.time() + %d
print("ready", flush=True)
while time.time() < end:
    for _ in range(50):
        a = (a @ a).clamp(-1, 1)
    host.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
"""
# Column, field of nvidia-smi, how far they may be apart: absolute, or a share of the value.
PAIRS = [
    ("name", "name", 0, 0),
    ("uuid", "uuid", 0, 0),
    ("gpu_util", "utilization.gpu", 30, 0.3),
    ("mem_util", "utilization.memory", 30, 0.3),
    ("memory_used_mb", "memory.used", 64, 0.02),
    ("memory_total_mb", "memory.total", 64, 0.01),
    ("power_w", "power.draw", 60, 0.3),
    ("power_limit_w", "power.limit", 1, 0),
    ("temperature_c", "temperature.gpu", 4, 0.1),
    ("sm_clock_mhz", "clocks.sm", 200, 0.2),
    ("mem_clock_mhz", "clocks.mem", 200, 0.2),
    ("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total", 0, 0),
]


def query(sql, env):
    answer = subprocess.run([TOOL, "query", "-f", "json", sql], env=env, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    if answer.returncode:
        sys.exit("query: " + answer.stderr)
    return json.loads(answer.stdout)


def smi():
    fields = ",".join(field for _, field, _, _ in PAIRS)
    text = subprocess.run(["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits"],
                          stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


def agrees(ours, theirs, apart, share):
    try:
        theirs = float(theirs)
    except ValueError:
        return str(ours) == theirs or (ours is None and theirs.startswith("["))
    return ours is not None and abs(ours - theirs) <= max(apart, share * theirs)


def start_load(seconds):
    """The load and its pid, or None where there is no torch."""
    load = subprocess.Popen([sys.executable, "-c", LOAD % seconds], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    if not load.stdout.readline():
        print("no torch here: the GPU stays idle")
        return None
    return load


def compare(env, when):
    rows = query("SELECT DISTINCT ON (device) * FROM gpu.utilization ORDER BY device, "
                 "timestamp DESC", env)
    good = bool(rows)
    print("\n%s\n%-6s %-18s %-46s %s" % (when, "gpu", "column", "gpu.utilization", "nvidia-smi"))
    for row, cells in zip(rows, smi()):
        for (column, _, apart, share), theirs in zip(PAIRS, cells):
            same = agrees(row[column], theirs, apart, share)
            good = good and same
            print("%-6s %-18s %-46s %s%s" % (row["device"], column, row[column], theirs,
                                             "" if same else "   <-- FAR APART"))
        rest = [name for name in row if name not in [pair[0] for pair in PAIRS]]
        for name in rest:
            print("%-6s %-18s %s" % (row["device"], name, row[name]))
    return good


def check(env):
    query("SELECT 1", env)
    time.sleep(4)
    good = compare(env, "idle")
    load = start_load(20)
    if load:
        time.sleep(8)
        good = compare(env, "at work") and good
        used = query("SELECT pid, device, memory_used_mb, sm_util, mem_util FROM gpu.process "
                     "ORDER BY timestamp DESC LIMIT 4", env)
        print("\ngpu.process", json.dumps(used), "the load is", load.pid)
        print(subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory",
                              "--format=csv"], stdout=subprocess.PIPE, check=False,
                             encoding="utf-8").stdout)
        load.wait()
    print("gpu.device", json.dumps(query("SELECT * FROM gpu.device ORDER BY timestamp DESC LIMIT 1",
                                         env), indent=1))
    for row in query("SELECT collector, state, reason FROM probing.agents WHERE collector LIKE "
                     "'gpu.%' OR collector LIKE 'system.%'", env):
        print(row)
    for row in query("SELECT what, cpu_ms, \"rows\" FROM probing.cost", env):
        print(row)
    return good


def main():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, PROBING_HOME=folder, PROBING_SAMPLE_INTERVAL="1")
        try:
            good = check(env)
        finally:
            subprocess.run([TOOL, "serve", "--stop"], env=env, check=False)
    print("good" if good else "FAR APART")
    return not good


if __name__ == "__main__":
    sys.exit(main())
