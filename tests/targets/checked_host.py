"""A program with the agent of another build in it: threads, tables, garbage, forks or torch.

usage: checked_host.py LIBRARY SECONDS [torch|fork]
"""
import gc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time

PATH, SECONDS = sys.argv[1], float(sys.argv[2])


def load():
    """The library under the name by which the agent knows a module of its own."""
    loader = importlib.machinery.ExtensionFileLoader("libprobing", PATH)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("libprobing", loader))
    loader.exec_module(module)
    return module


def work(agent, number):
    table = agent.table("python.checked", (("timestamp", 1), ("n", 2), ("word", 5)), 1024, 1, "")
    for n in range(1 << 60):
        if time.time() > END:
            return
        table.append(n, "word %d" % (n % 50))
        with agent.span("work", thread=number):
            agent.event("tick", n=n)
        cycle = []
        cycle.append(cycle)
        if n % 100 == 0:
            gc.collect()
            print("line", number, n, file=LINES)
        time.sleep(0.001)


def fork():
    while time.time() < END:
        child = os.fork()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        time.sleep(0.2)


def train():
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
    while time.time() < END:
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()


if "torch" in sys.argv:
    import torch  # noqa: F401  before the agent, as in a program that is under way
library = load()
END = time.time() + SECONDS
LINES = open(os.devnull, "w")
threads = [threading.Thread(target=work, args=(library, n)) for n in range(3)]
threads += [threading.Thread(target={"torch": train, "fork": fork}[kind]) for kind in sys.argv[3:]]
library.start("")
for thread in threads:
    thread.start()
print("ready", os.getpid(), flush=True)
for turn in range(1 << 60):
    if time.time() > END:
        break
    time.sleep(1.5)
    # Off and on again, while others write rows and are looked at.
    library.stop()
    library.start("memory.interval=0.1")
for thread in threads:
    thread.join()
library.stop()
print("done", flush=True)
