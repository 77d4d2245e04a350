"""
What the torch collector costs a training loop: rows(quick) for the table of run.py.

Two parts that noise does not hide are added up: traced steps against those right beside them which
are not, and what a step costs in which nothing is traced, against the collector off, taken from a
training of one module, where a step is short. All by the time that the training thread has
computed: what else runs on the machine does not count in it. Beside it the whole in turns of off
and on, for as far as the machine lets it be told. The rival is the original tool from the package
index, loaded at start-up with its tracing of modules on.
"""
import importlib.util
import os
import signal
import statistics
import sys
import sysconfig
import tempfile
import time

import eval as evaluation
import measure
import pace

GPT, TINY, LEAST = (), ("--tiny",), ("--least",)
OFF, ON = ["torch.collect=off"], ["torch.collect=on", "torch.sample_rate=1"]
HALF = ["torch.collect=on", "torch.sample_rate=0.5"]
TRIES = 4
IDLE = ["torch.collect=on", "torch.sample_rate=0"]
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


def idle_cost(folder, seconds):
    """Milliseconds that a step costs in which no module is traced."""
    job = pace.Job(measure.tool_path(), folder, *LEAST)
    try:
        job.probing("inject")
        job.turn(ON, 1)
        turns = job.turns({"off": OFF, "on": IDLE}, seconds, 0.12)
        times, _ = job.end()
    finally:
        job.kill()
    return pace.compare(times, turns, "on", "off", pace.COMPUTED, statistics.median,
                        pace.difference)


def traced_stretch(job, seconds):
    """(from, to), one step in so many is traced in it, and in how many by the brake alone."""
    job.turn(ON, 1.5)
    for _ in range(TRIES):
        period = job.period()
        stretch = job.turn(ON if period > 1 else HALF, seconds)
        job.turn(ON, 0.5)
        if job.period() == period:
            return stretch, max(period, 2), period
    raise RuntimeError("the share of traced steps does not settle")


def cost(folder, options, idle, seconds):
    """The cost as a figure, its parts in words."""
    job = pace.Job(measure.tool_path(), folder, *options)
    try:
        job.probing("inject")
        job.turn(ON, 1.5)
        turns = job.turns({"off": OFF, "on": ON}, seconds * 0.3, 0.12)
        stretch, every, period = traced_stretch(job, seconds * 0.7)
        status = job.status()
        times, _ = job.end()
    finally:
        job.kill()
    bare = pace.pooled(times, turns, "off", pace.COMPUTED)
    traced = pace.traced(times, *stretch, every, pace.COMPUTED)
    turned = pace.compare(times, turns, "on", "off", pace.COMPUTED)
    words = ("bare %.1f ms a step; a usual traced step to those beside it %s, an untraced one "
             "%+.0f us; in turns %s; %s")
    return (traced.whole(period, idle, bare),
            words % (bare, traced, 1000 * idle.middle, turned, status))


def original_cost(folder, seconds):
    """
    What the original costs when it traces every module of every step; None: it cannot be had. It
    is there from the start of a process or not at all, so two of them run in turn: one is stopped
    while the other runs.
    """
    rival = evaluation.original()
    if not rival:
        return None
    pace.say("the original, beside a process without it")
    env = {"PYTHONPATH": sysconfig.get_paths()["purelib"]}
    traced = dict(env, PROBING="1", PROBING_TORCH_PROFILING="random")
    jobs = {}
    try:
        for name, its in (("off", env), ("on", traced)):
            jobs[name] = pace.Job(rival[1], folder, python=rival[0], env=its, quiet=True)
            os.kill(jobs[name].pid, signal.SIGSTOP)
        turns = {name: [] for name in jobs}
        until = time.time() + seconds
        while time.time() < until:
            for name, job in jobs.items():
                os.kill(job.pid, signal.SIGCONT)
                began = time.time()
                time.sleep(0.5)
                turns[name].append((began, time.time()))
                os.kill(job.pid, signal.SIGSTOP)
        paces = {name: stopped_pace(jobs[name], turns[name]) for name in jobs}
        return pace.Figure(on / off for on, off in zip(paces["on"], paces["off"]))
    except (OSError, RuntimeError, statistics.StatisticsError):
        return None
    finally:
        for job in jobs.values():
            job.kill()


def stopped_pace(job, turns):
    os.kill(job.pid, signal.SIGCONT)
    times, _ = job.end()
    return [pace.usual(pace.steps(times, *turn, by=pace.COMPUTED)) for turn in turns]


def overhead(folder, quick):
    theirs = original_cost(folder, 2 if quick else 5)
    pace.say("a step in which nothing is traced")
    idle = idle_cost(folder, 3 if quick else 10)
    for what, options, limit, seconds, rival in (
            ("113 modules, every module of every step", GPT, 1.01, 40, theirs),
            ("a tiny model, held by the brake", TINY, 1.02, 15, None)):
        pace.say("%s: %d s" % (what, 6 if quick else seconds))
        figure, words = cost(folder, options, idle, 6 if quick else seconds)
        yield ("torch, " + what, "+%.0f %%" % (100 * (limit - 1)), str(figure),
               str(rival) if rival else "", figure.holds(limit), words)


def mappings(pid):
    """{(from, to): kilobytes that are resident}; rings are shared memory and do not count."""
    found, key = {}, None
    with open("/proc/%d/smaps" % pid) as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                ends = tuple(int(word, 16) for word in words[0].split("-"))
                key = None if ".ring" in line else ends
            elif words[0] == "Rss:" and key:
                found[key] = int(words[1])
    return found


def grown(before, now):
    """Megabytes of the mappings that are new, and what came to those that have become larger."""
    kilobytes = 0
    for (begin, end), size in now.items():
        old = [was for (low, high), was in before.items() if low < end and begin < high]
        if not old or (begin, end) not in before:
            kilobytes += max(0, size - sum(old))
    return kilobytes / 1024


def attach_once(folder):
    """Seconds to the first row, longest step before and after, usual one, megabytes grown."""
    job = pace.Job(measure.tool_path(), folder, "--objects", 1000000, "--seconds", 60)
    try:
        time.sleep(1.5)
        before, began = mappings(job.pid), time.time()
        job.probing("inject")
        while not job.rows("python.torch_trace") and time.time() < began + 10:
            time.sleep(0.005)
        first = time.time() - began
        time.sleep(1.5)
        size = grown(before, mappings(job.pid))
        times, _ = job.end()
    finally:
        job.kill()
    plain, after = pace.steps(times, began - 1.4, began), pace.steps(times, began, began + 1.4)
    return first, max(plain), max(after), statistics.median(plain), size


def attach(folder, quick):
    """Memory, time to the first row, longest pause: a process with a million objects."""
    pace.say("attaches to processes with a million objects")
    found = [attach_once(folder) for _ in range(1 if quick else 2)]
    first, plain, after, usual, size = (statistics.median(one) for one in zip(*found))
    yield ("torch, attach until the first row", "1 s", "%.2f s" % first, "", first < 1, "")
    gap = after - usual
    # A gap that is no longer than those without us is nobody's fault.
    good = gap < 20 or (None if after <= plain or plain - usual > 20 else False)
    yield ("torch, longest gap at attach, 1 M objects", "20 ms", "%.1f ms" % gap, "", good,
           "longest step %.1f ms before it, usual %.1f ms" % (plain, usual))
    yield ("torch, agent resident without rings", "8 MB", "%.1f MB" % size, "", size < 8,
           "mappings that came with it")


def graphs(folder):
    """The same work compiled twice in one process, with the collector off and on."""
    pace.say("compiles")
    job = pace.Job(measure.tool_path(), folder, *TINY)
    found = []
    try:
        for state in ("off", "on"):
            job.turn(["torch.collect=" + state], 0)
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
