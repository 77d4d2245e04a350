"""Rank 0 evaluates for some seconds each epoch, the others wait."""
# expect: healthy
# ranks: 2
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(4)
print("stall", flush=True)
while True:
    for _ in range(200):
        dist.all_reduce(x)
        time.sleep(0.01)
    if dist.get_rank() == 0:
        end = time.time() + 3
        i = 0
        while time.time() < end:
            i += 1
            torch.randn(64, 64).mm(torch.randn(64, 64))
    dist.barrier()
