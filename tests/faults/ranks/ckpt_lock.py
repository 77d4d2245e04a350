"""Rank 0 saves a checkpoint behind a file lock that a helper keeps."""
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

import fcntl
import subprocess
import sys
import tempfile

path = tempfile.mktemp()


def save():
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # here


if rank == 0:
    p = subprocess.Popen([sys.executable, "-c", "import fcntl,sys,time; f=open(sys.argv[1],'w');"
                          "fcntl.flock(f, 2); print(1, flush=True); time.sleep(9000)", path],
                         stdout=subprocess.PIPE)
    p.stdout.readline()
    save()
dist.all_reduce(x)
