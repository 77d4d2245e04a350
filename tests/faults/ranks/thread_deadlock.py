"""A logging thread and main of one rank wait for each other."""
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

import threading

a, b = threading.Lock(), threading.Lock()


def logger():
    with b:
        time.sleep(0.3)
        with a:  # here
            pass


if rank == 0:
    threading.Thread(target=logger, daemon=True).start()
    with a:
        time.sleep(0.6)
        with b:  # here
            pass
dist.all_reduce(x)
