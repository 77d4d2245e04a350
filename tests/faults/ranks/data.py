"""The data loader's worker of one rank hangs."""
# expect: hang
# ranks: 2
# rank: 0
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

from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Shards(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if rank == 0 and i == 20:
            time.sleep(9000)  # here
        return torch.ones(3)


for batch in DataLoader(Shards(), batch_size=4, num_workers=2):
    dist.all_reduce(x)
