"""A rank waits for a lock that its own thread holds."""
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

import threading  # noqa: E402

lock = threading.Lock()


def keeper():
    with lock:
        time.sleep(10000)  # here


if rank == 0:
    threading.Thread(target=keeper, daemon=True).start()
    time.sleep(0.2)
    with lock:
        pass
dist.all_reduce(x)
