"""Ranks with some jitter: none is slow."""
# expect: healthy
# ranks: 3
import random
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(4)
print("stall", flush=True)
while True:
    time.sleep(random.uniform(0.01, 0.08))
    dist.all_reduce(x)
