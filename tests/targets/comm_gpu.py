"""Operations as NCCL has them, on a GPU that is made up. usage: comm_gpu.py LIBCUDA LIBC10 GO_FILE

What torch's NCCL backend does around an operation is done here by hand: an event with its name
begins on the stream of the program and ends on NCCL's.
"""
import ctypes
import os
import sys
import threading
import time

sys.path.pop(0)  # other targets are named like modules that torch imports
cuda, c10 = [ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL) for path in sys.argv[1:3]]
cuda.fake_over.argtypes = [ctypes.c_uint64, ctypes.c_float]

import torch
import torch.distributed as dist
from torch.autograd.profiler import record_function

MINE, NCCL, OTHER = 11, 22, 33


def operation(name, stream=NCCL):
    c10.fake_stream(MINE)
    with record_function("nccl:" + name):
        c10.fake_stream(stream)
    c10.fake_stream(MINE)


def wait_for(name):
    while not os.path.exists(sys.argv[3] + name):
        time.sleep(0.02)


def main():
    assert dist.is_available()
    cuda.fake_context(1)
    print("ready", flush=True)
    wait_for("")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    optimizer.step()
    operation("all_reduce")
    cuda.fake_over(MINE, 1.0)
    operation("_all_gather_base")
    cuda.fake_over(MINE, 2.0)
    print("begun", flush=True)
    wait_for(".over")
    cuda.fake_over(NCCL, 9.5)
    operation("broadcast", OTHER)  # hangs
    cuda.fake_over(MINE, 10.0)
    optimizer.step()
    thread = threading.Thread(target=operation, args=("reduce",))  # no GPU of its own
    thread.start()
    thread.join()
    cuda.fake_capture(1)
    operation("reduce_scatter")
    cuda.fake_capture(0)
    print("done", flush=True)
    for _ in range(3000):  # works on, so that the agent gets a look in
        time.sleep(0.02)
        sum(range(1000))


main()
