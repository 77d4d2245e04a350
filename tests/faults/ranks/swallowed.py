"""An exception is swallowed and the rank retries for ever."""
# expect: hang
# ranks: 3
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



def load(step):
    if rank == 1 and step > 1:
        raise OSError("gone")
    return torch.ones(2)


step = 0
while True:
    try:
        batch = load(step)
        dist.all_reduce(x)
        step += 1
    except OSError:
        time.sleep(0.1)  # here
