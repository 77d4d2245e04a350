"""One rank of a job ends by an exception; the others fail for lack of it."""
# expect: crash
# class: KeyError
# ranks: 2
# rank: 0
# probes: yes
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(4)
dist.all_reduce(x)


def restore(state):
    return state["optimizer"]  # here


print("stall", flush=True)
os.read(0, 1)
if dist.get_rank() == 0:
    restore({"model": x})
dist.all_reduce(x)
