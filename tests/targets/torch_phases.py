"""
A training loop that stops where it is told: in each phase of a step it waits as long as `hold`
names that phase. Nothing in here knows of the tool.
"""
import os
import sys
import time

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

hold = None


def pause(where):
    while hold == where:
        time.sleep(0.01)


class Samples(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        pause("data")
        return torch.randn(4)


class Wait(nn.Module):
    def forward(self, x):
        pause("forward" if self.training else "eval")
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.inner = nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Wait())

    def forward(self, x):
        return self.inner(self.layer(x))


class Slow(torch.optim.Adam):
    def step(self, closure=None):
        pause("optimizer")
        return super().step(closure)


def main():
    model = Model()
    optimizer = Slow(model.parameters())
    model.layer.weight.register_hook(lambda grad: pause("backward"))
    print("ready", os.getpid(), flush=True)
    for batch in DataLoader(Samples(), batch_size=2):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(batch)
        model.train()
        pause("other")
        time.sleep(0.002)


main()
