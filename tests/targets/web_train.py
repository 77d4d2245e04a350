"""A small language model trained by one process, or by several under torchrun (gloo).

usage: web_train.py [--step-ms N] [--steps N] [--lr X] [--slow-rank R] [--name-thread TEXT]
                    [--markup] [--hold FILE]
While FILE exists no step is made.
"""
import argparse
import os
import sys
import threading
import time

sys.path.pop(0)  # other targets are named like modules that torch imports

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--step-ms", type=float, default=100)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--name-thread", default="Prefetch")
parser.add_argument("--hold", default="")
parser.add_argument("--markup", action="store_true", help="names that are markup everywhere")
options = parser.parse_args()
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, words=256, width=64, depth=4):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Text(torch.utils.data.Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, at):
        if RANK == options.slow_rank:
            time.sleep(options.step_ms / 1000 / 8)
        return torch.arange(at, at + 33) * 7 % 256


def prefetch(stop):
    while not stop.wait(0.2):
        pass


def pace(began):
    """The loop is as slow as a real one, and leaves the machine to the tests."""
    time.sleep(max(0, options.step_ms / 1000 - (time.time() - began)))
    while options.hold and os.path.exists(options.hold):
        time.sleep(0.1)


def train_step(model, optimizer, batch):
    logits = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if WORLD > 1:
        dist.init_process_group("gloo")
    model = LanguageModel()
    if WORLD > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2000)
    stop = threading.Event()
    threading.Thread(target=prefetch, args=(stop,), name=options.name_thread, daemon=True).start()
    loader = torch.utils.data.DataLoader(Text(), batch_size=8, shuffle=True)
    print("rank %d is process %d" % (RANK, os.getpid()), flush=True)
    step = 0
    while not options.steps or step < options.steps:
        for batch in loader:
            began = time.time()
            train_step(model, optimizer, batch)
            schedule.step()
            pace(began)
            step += 1
            if options.steps and step >= options.steps:
                break


if options.markup:
    Block.__name__ = Block.__qualname__ = "<script>window.hacked=1</script>"
    NAME = "<img src=x onerror=window.hacked=2>"
    names = {"co_name": NAME, "co_qualname": NAME}
    prefetch.__code__ = prefetch.__code__.replace(
        **{key: text for key, text in names.items() if hasattr(prefetch.__code__, key)})
main()
