"""Ranks wait while rank 0 writes a checkpoint every few steps."""
# expect: healthy
# ranks: 2
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

step = 0
while True:
    dist.all_reduce(x)
    step += 1
    time.sleep(0.1)
    if step % 10 == 0:
        if rank == 0:
            time.sleep(0.3)
        dist.barrier()
