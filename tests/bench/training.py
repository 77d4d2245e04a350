"""
What the torch collector costs a training loop: rows(quick) for the table of run.py.

One process; the collector is switched off and on in turn, and steps of neighbouring turns are
compared, by the time that the training thread has computed: what else runs on the machine does not
count in it. The rival is the original tool from the package index, loaded at start-up with its
tracing of modules on; it cannot be switched within a run, so processes with and without it take
turns.
"""
import importlib.util
import os
import statistics
import sys
import sysconfig
import tempfile
import time

import eval as evaluation
import measure
import pace

GPT, TINY = (), ("--tiny",)
COMPILE = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(),
                                         torch.nn.Linear(8, 8))
    def forward(self, x):
        return self.parts(x)
graphs = []
def backend(module, inputs):
    graphs.append(len(list(module.graph.nodes)))
    return module.forward
torch._dynamo.reset()
net = torch.compile(Net(), backend=backend)
for size in (4, 4, 6, 9, 4):
    net(torch.randn(size, 8)).sum().backward()
print(graphs)
"""


def cost(folder, options, quick):
    """(bare ms, ratios, status) of turns with the collector on and off."""
    job = pace.Job(measure.tool_path(), folder, *options)
    job.probing("inject")
    time.sleep(1)
    turns = job.turns(11 if quick else 101, 0.4)
    job.turn("on", 2)
    status = job.status()
    times, _ = job.end()
    ratios = pace.ratios(times, turns, statistics.mean, by=1)
    bare = statistics.median(sum((pace.steps(times, *turn, by=1) for turn in turns[::2]), []))
    return bare, ratios, status


def original_cost(folder, quick):
    """The original's ratio when it traces every module of every step; None: it cannot be had."""
    rival = evaluation.original()
    if not rival:
        return None
    env = {"PYTHONPATH": sysconfig.get_paths()["purelib"]}
    traced = dict(env, PROBING="1", PROBING_TORCH_PROFILING="random")
    found = {"bare": [], "traced": []}
    try:
        for number in range(2 if quick else 6):
            name = "traced" if number % 2 else "bare"
            job = pace.Job(rival[1], folder, python=rival[0],
                           env=traced if name == "traced" else env)
            began = time.time()
            time.sleep(3)
            ended = time.time()
            found[name].append(statistics.median(pace.steps(job.end()[0], began, ended)))
    except (OSError, RuntimeError, statistics.StatisticsError):
        return None
    return statistics.median(found["traced"]) / statistics.median(found["bare"])


def percent(ratio):
    return "%+.1f %%" % (100 * (ratio - 1))


def overhead(folder, quick):
    theirs = original_cost(folder, quick)
    for what, options, limit, rival in (
            ("113 modules, every module of every step", GPT, 1.01, theirs),
            ("a tiny model, held by the brake", TINY, 1.02, None)):
        bare, ratios, status = cost(folder, options, quick)
        middle = statistics.median(ratios)
        spread = ratios[len(ratios) * 3 // 4] - ratios[len(ratios) // 4]
        good, note = middle <= limit, "bare %.1f ms a step; %s" % (bare, status)
        if not good and spread > limit - 1:
            good, note = None, note + "; spread %.1f %%: too much other load" % (100 * spread)
        yield ("torch, " + what, percent(limit), percent(middle), percent(rival) if rival else "",
               good, note)


def kilobytes(pid, *names):
    with open("/proc/%d/status" % pid) as file:
        return sum(int(line.split()[1]) for line in file if line.split(":")[0] in names)


def attach(folder, quick):
    """Memory, time to the first row, longest pause: a process with a million objects."""
    waits, gaps, plain, grown = [], [], [], []
    for _ in range(1 if quick else 5):
        job = pace.Job(measure.tool_path(), folder, "--objects", 1000000)
        time.sleep(2)
        before = kilobytes(job.pid, "RssAnon", "RssFile")
        began = time.time()
        job.probing("inject")
        while not job.rows("python.torch_trace") and time.time() < began + 10:
            time.sleep(0.005)
        waits.append(time.time() - began)
        time.sleep(1)
        grown.append((kilobytes(job.pid, "RssAnon", "RssFile") - before) / 1024)
        times, _ = job.end()
        plain.append(max(pace.steps(times, began - 1.5, began)))
        usual = statistics.median(pace.steps(times, began - 1.5, began))
        gaps.append(max(pace.steps(times, began, began + 1.5)) - usual)
    yield ("torch, attach until the first row", "1 s", "%.2f s" % statistics.median(waits), "",
           statistics.median(waits) < 1, "")
    good = statistics.median(gaps) < 20 or None if statistics.median(plain) > 25 else \
        statistics.median(gaps) < 20
    yield ("torch, longest gap at attach, 1 M objects", "20 ms",
           "%.1f ms" % statistics.median(gaps), "", good,
           "longest step before it %.1f ms" % statistics.median(plain))
    yield ("torch, agent resident without rings", "8 MB", "%.1f MB" % statistics.median(grown), "",
           statistics.median(grown) < 8, "")


def graphs(folder):
    """The same work compiled twice in one process, with the collector off and on."""
    job = pace.Job(measure.tool_path(), folder, *TINY)
    found = []
    try:
        for state in ("off", "on"):
            job.turn(state, 0)
            run = measure.harness.probing(job.pid, "eval", "--timeout", "120", COMPILE,
                                          timeout=150)
            found.append(run.stdout.strip() if run.returncode == 0 else "failed")
    finally:
        job.end()
    yield ("torch.compile: graphs with the collector off, on", "the same", " ".join(found), "",
           found[0] == found[1] and found[0] not in ("", "failed"), "")


def rows(quick):
    if importlib.util.find_spec("torch") is None:
        yield "torch rows", "", "torch is not installed", "", None, ""
        return
    with tempfile.TemporaryDirectory() as folder:
        yield from overhead(folder, quick)
        yield from attach(folder, quick)
        yield from graphs(folder)


if __name__ == "__main__":
    for row in rows("--quick" in sys.argv):
        print(" | ".join(str(cell) for cell in row), flush=True)
