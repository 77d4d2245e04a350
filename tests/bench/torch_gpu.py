"""
What the torch collector costs a training loop on a GPU, and what it writes there.

    python3 tests/bench/torch_gpu.py [TOOL]

Needs the tool and a python3 with torch and CUDA. One process trains the GPT of examples/gpt.py; the
collector is switched off and on in turn, and steps of neighbouring turns are compared.
"""
import argparse
import array
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import rings  # noqa: E402  (its folder is put on the path above)

CHILD = """
import array, os, sys, time
sys.path.insert(0, sys.argv[1])
import torch, gpt
from torch.nn import functional as F
device = sys.argv[4]
torch.manual_seed(0)
model = gpt.GPT(width=int(sys.argv[3]), heads=12, length=128).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
times, losses = array.array("d"), {}
print("ready", os.getpid(), flush=True)
step = 0
while not os.path.exists(sys.argv[2] + ".stop"):
    ids = torch.randint(0, 256, (4, 129), device=device)
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    step += 1
    if step % 20 == 0:
        losses[step] = (loss.item(), float(norm))
    times.append(time.time())
with open(sys.argv[2], "wb") as file:
    times.tofile(file)
if device == "cuda":
    # A graph is captured as without us.
    small, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).cuda(), None
    x = torch.randn(4, 8, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            small(x)
    torch.cuda.synchronize()
    for _ in range(40):
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = small(x)
        graph.replay()
    torch.cuda.synchronize()
    print("graphs", bool(torch.equal(y, small(x))))
print("losses", sorted(losses.items()))
print("memory", torch.cuda.memory_allocated() / 2**20 if device == "cuda" else 0)
"""


class Job:
    """The training process and the tool."""

    def __init__(self, tool, folder, width, device):
        self.tool, self.path = tool, os.path.join(folder, "times")
        self.env = dict(os.environ, PROBING_HOME=folder)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, os.path.join(ROOT, "examples"), self.path, str(width),
             device], stdout=subprocess.PIPE, encoding="utf-8")
        self.pid = int(self.process.stdout.readline().split()[1])
        with open("/proc/%d/stat" % self.pid) as file:
            start = file.read().rpartition(")")[2].split()[19]
        self.home = "/dev/shm/probing-%d/%d-%s" % (os.getuid(), self.pid, start)

    def probing(self, *words):
        subprocess.run([self.tool, str(self.pid)] + list(words), check=True, env=self.env,
                       stdout=subprocess.DEVNULL)

    def status(self):
        return rings.lines(self.home, "status")["collector.torch"]

    def turn(self, state, seconds):
        """A turn with the collector on or off: (state, from, to) by the clock."""
        self.probing("config", "torch.collect=" + state)
        time.sleep(0.3)
        began = time.time()
        time.sleep(seconds)
        return state, began, time.time()

    def end(self):
        with open(self.path + ".stop", "w"):
            pass
        said = self.process.communicate(timeout=120)[0]
        times = array.array("d")
        with open(self.path, "rb") as file:
            times.frombytes(file.read())
        return list(times), said


def pace(times, began, ended):
    """Milliseconds a step between two instants."""
    inside = [t for t in times if began <= t <= ended]
    return (inside[-1] - inside[0]) / (len(inside) - 1) * 1000


def report(times, turns, bare):
    """Prints the ratio of each turn with the collector to those beside it without."""
    paces = [pace(times, began, ended) for _, began, ended in turns]
    ratios = [paces[i] / ((paces[i - 1] + paces[i + 1]) / 2) for i in range(1, len(paces) - 1, 2)]
    print("ms a step: %.2f before injection, %.2f off, %.2f on" % (
        pace(times, *bare), statistics.median(paces[::2]), statistics.median(paces[1::2])))
    print("on / off, neighbours: median %.4f of %d, from %.4f to %.4f" % (
        statistics.median(ratios), len(ratios), min(ratios), max(ratios)))
    return statistics.median(ratios)


def show(rows, title, count=6):
    print("%s: %d rows" % (title, len(rows)))
    for row in rows[:count]:
        print("  " + ", ".join("%s=%s" % (name, "%.4g" % value if isinstance(value, float)
                                          else value)
                               for name, value in row.items() if name != "timestamp"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", nargs="?", default=os.path.join(ROOT, "build", "dev", "probing"))
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = Job(args.tool, folder, args.width, args.device)
        time.sleep(4)
        bare = (time.time() - 2, time.time())
        job.probing("inject")
        turns = [job.turn("on" if number % 2 else "off", args.seconds)
                 for number in range(args.turns | 1)]
        job.probing("config", "torch.collect=on")
        time.sleep(3)
        print("status: " + job.status())
        trace, logs = (rings.rows(job.home, "python." + table)
                       for table in ("torch_trace", "training_logs"))
        times, said = job.end()
        report(times, turns, bare)
        print(said[:1500].strip())
        show(trace[-120:], "last rows of python.torch_trace")
        timed = [row for row in trace if row["gpu_ms"] is not None]
        show([row for row in timed if row["stage"] != "forward" or "." not in row["module"]],
             "with gpu_ms (%d in all)" % len(timed), 10)
        show([row for row in trace if row["allocated_delta"]], "with allocated_delta", 8)
        show([row for row in logs if row["step"] and (row["step"] + 1) % 20 == 0][-4:],
             "python.training_logs", 4)
        print("logs without a loss: %d of %d" % (sum(row["loss"] is None for row in logs),
                                                 len(logs)))


if __name__ == "__main__":
    main()
