"""DDP: one rank hangs in the forward pass."""
# expect: hang
# ranks: 2
# rank: 1
import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(4)
for _ in range(3):
    dist.all_reduce(x)
print("stall", flush=True)

from torch.nn.parallel import DistributedDataParallel  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)
        self.n = 0

    def forward(self, v):
        self.n += 1
        if rank == 1 and self.n > 3:
            time.sleep(5000)  # here
        return self.a(v)


model = DistributedDataParallel(Net())
for _ in range(10):
    model(torch.ones(2, 8)).sum().backward()
