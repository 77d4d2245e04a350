"""One rank of a job crashes; torchrun then ends the others."""
# expect: crash
# class: SIGSEGV
# ranks: 3
# rank: 1
# probes: yes
import ctypes
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(4)
dist.all_reduce(x)


def decode(rank):
    return ctypes.string_at(rank - 1)  # here


print("stall", flush=True)
os.read(0, 1)
if dist.get_rank() == 1:
    decode(1)
dist.all_reduce(x)
