"""
Trains and notes when each step ended, by the clock and by what the thread has computed:
torch_pace.py TIMES [options]. Ends when TIMES.stop is there, or by itself after a while, and leaves
the pairs in TIMES.
"""
import argparse
import array
import itertools
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(HERE)
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples"))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import gpt  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("times")
parser.add_argument("--tiny", action="store_true", help="a model of ten modules, 1 ms a step")
parser.add_argument("--least", action="store_true", help="a model of one module")
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--length", type=int, default=16)
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--device", default="cpu")
parser.add_argument("--seconds", type=float, default=120, help="after which it ends by itself")
parser.add_argument("--calls", type=int, default=0,
                    help="instead of training, all_reduce so many times a step")
parser.add_argument("--later", action="store_true", help="and wait for each by its handle")
parser.add_argument("--objects", type=int, default=0, help="that are alive beside the model")
args = parser.parse_args()


def build():
    if args.least:
        return nn.Linear(1, 1)
    if args.tiny:
        layers = [part for _ in range(4) for part in (nn.Linear(64, 64), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(64, 256))
    return gpt.GPT(width=args.width, length=args.length)


def predict(model):
    if args.least:
        return (model(torch.ones(1, 1, device=args.device)),
                torch.zeros(1, dtype=torch.long, device=args.device))
    if args.tiny:
        return model(torch.randn(64, 64)), torch.randint(0, 256, (64,))
    ids = torch.randint(0, 256, (args.batch, args.length + 1), device=args.device)
    return model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()


def capture():
    """A graph is captured and gives the same as without one."""
    small = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).cuda()
    x = torch.randn(4, 8, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            small(x)
    torch.cuda.synchronize()
    for _ in range(40):
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = small(x)
        graph.replay()
    torch.cuda.synchronize()
    print("graphs are good: %s" % bool(torch.equal(y, small(x))))


def communication():
    """A step that sends, in a job of one rank."""
    import torch.distributed as dist
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo", store=dist.HashStore(),
                            rank=0, world_size=1)
    data = torch.ones(16, device=args.device)

    def step():
        for _ in range(args.calls):
            work = dist.all_reduce(data, async_op=args.later)
            if work:
                work.wait()
        if args.device == "cuda":
            torch.cuda.synchronize()
    return step


def training(values):
    """A step of a model; every 20th notes its number, loss and norm."""
    model = build().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    numbers = itertools.count(1)

    def step():
        logits, labels = predict(model)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        number = next(numbers)
        if number % 20 == 0:
            values[:] = values[-2:] + [(number - 1, loss.item(), float(norm))]
    return step


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    times, values = array.array("d"), []
    make_step = communication() if args.calls else training(values)
    alive = [[number] for number in range(args.objects)]
    began = time.time()
    for number in itertools.count(1):
        make_step()
        times.extend((time.time(), time.thread_time()))
        if number == 10:
            print("ready %d" % os.getpid(), flush=True)
        if os.path.exists(args.times + ".stop") or times[-2] - began > args.seconds:
            break
    with open(args.times, "wb") as file:
        times.tofile(file)
    if args.device == "cuda":
        capture()
    print("step, loss, norm: %s; %d objects" % (values, len(alive)))


main()
