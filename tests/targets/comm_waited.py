"""Operations that Python waits for, on a GPU that is made up.
usage: comm_waited.py LIBCUDA LIBC10 GO_FILE

Torch's own group that sends nothing, and tensors that are on no CPU. What NCCL would put on the
stream is not there; what the agent puts on it is.
"""
import ctypes
import os
import sys
import time

sys.path.pop(0)  # other targets are named like modules that torch imports
cuda, c10 = [ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL) for path in sys.argv[1:3]]
cuda.fake_over.argtypes = [ctypes.c_uint64, ctypes.c_float]

import torch
import torch.distributed as dist
from torch.autograd.profiler import record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

MINE, EVENTS = 11, 80


def wait_for(name):
    while not os.path.exists(sys.argv[3] + name):
        time.sleep(0.02)


def main():
    c10.fake_stream(MINE)
    cuda.fake_context(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    group, data = dist.group.WORLD, torch.empty(6, device="meta")
    options = dist.AllreduceOptions()
    options.asyncOp = False
    print("ready", flush=True)
    wait_for("")
    for _ in range(EVENTS):  # by then the agent knows what torch's events are good for
        with record_function("nccl:broadcast"):
            pass
    work = group.allreduce([data], options)
    cuda.fake_over(MINE, 1.0)
    dist.Work.wait(work)  # this group has one of its own, unlike NCCL's
    cuda.fake_over(MINE, 5.5)
    cuda.fake_full(1)
    print("begun", flush=True)
    dist.Work.wait(group.allreduce([data], options))
    cuda.fake_context(0)
    dist.Work.wait(group.allreduce([data], options))
    cuda.fake_context(1)
    print("done", flush=True)
    for _ in range(3000):  # works on, so that the agent gets a look in
        time.sleep(0.02)
        sum(range(1000))


main()
