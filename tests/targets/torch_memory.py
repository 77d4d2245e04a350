"""
Loops whose tensors have known sizes: `job = "leaking"` makes the main thread run that one and put
its own book into `books`. With a library as argument, a device that is made up: torch_memory.py
LIBCUDA LIBC10_CUDA, whose counters stand for those of CUDA's allocator.
"""
import ctypes
import os
import sys
import threading
import time

# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from torch import nn  # noqa: E402

MB = 1 << 20
STEPS = 60
job, books, kept = None, {}, []
gpu = None


class Make(nn.Module):
    """Gives a new tensor of so many MB, and keeps another one."""

    def __init__(self, gives, keeps=0):
        super().__init__()
        self.gives, self.keeps = gives, keeps

    def forward(self, x):
        if self.keeps:
            kept.append(torch.empty(self.keeps * MB, dtype=torch.uint8))
        return x.new_empty(self.gives * MB // x.element_size())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.big, self.leak, self.small = Make(16), Make(2, keeps=3), Make(1)
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        for part in (self.big, self.leak, self.small):
            x = part(x)
        return x.sum() * 0 + self.weight.sum()


def leaking(stays=STEPS):
    """Three MB more with every step. The book: MB that are kept when a step ends."""
    model, book = Net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    del kept[:]
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.zeros(8)).backward()
        optimizer.step()
        del kept[stays:]
        book.append(3 * len(kept))
    return book


def flat():
    leaking(stays=0)
    return []


def filling():
    leaking(stays=STEPS // 4)
    return []


def threads():
    """Two at once, each with a model of its own and nothing that stays."""
    def work(model):
        for _ in range(STEPS):
            with torch.no_grad():
                model(torch.zeros(8))
            time.sleep(0.001)
    both = [threading.Thread(target=work, args=(nn.Sequential(Make(size)),)) for size in (4, 9)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    return []


def storm():
    """Tensors come and go in four threads while the collector is switched off and on."""
    end = time.time() + 3

    def work():
        mine = []
        while time.time() < end:
            mine.append(torch.empty(1000 + len(mine) * 7919 % 300000))
            if len(mine) > 50:
                del mine[::2]
        return mine
    all_of_them = [threading.Thread(target=work) for _ in range(4)]
    for one in all_of_them:
        one.start()
    for one in all_of_them:
        one.join()
    return []


class OnDevice(nn.Module):
    def __init__(self, gives, frees):
        super().__init__()
        self.gives, self.frees = gives, frees

    def forward(self, x):
        gpu.fake_allocate(self.gives * MB)
        gpu.fake_allocate(-self.frees * MB)
        return x


def level():
    """On the device as well, with as much in use after each step as before it."""
    return device(grows=False)


def device(grows=True):
    """The book: what the allocator itself tells, MB in use after each step."""
    model, book = nn.Sequential(OnDevice(8, 2), OnDevice(5, 5), OnDevice(1, 6)), []
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(STEPS):
        gpu.fake_allocate(MB if grows else -MB)
        (model(torch.zeros(1)) * weight).sum().backward()
        optimizer.step()
        book.append(torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["current"] / MB)
        time.sleep(0.005)
    return book


def pretend(driver, allocator):
    """Torch without CUDA is told that it has one, by what the tool asks it for."""
    global gpu
    torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)  # imports what would ask for more
    ctypes.CDLL(driver).fake_context(1)
    gpu = ctypes.CDLL(allocator)
    gpu.fake_allocate.argtypes = [ctypes.c_int64]
    for name in ("fake_allocated", "fake_peak", "fake_held"):
        getattr(gpu, name).restype = ctypes.c_int64
    torch.cuda.is_initialized = lambda: True
    torch._C._cuda_getDeviceCount = lambda: 1
    torch._C._cuda_memoryStats = lambda _: {
        "allocated_bytes": {"all": {"current": gpu.fake_allocated(), "peak": gpu.fake_peak()}},
        "reserved_bytes": {"all": {"current": gpu.fake_held()}}}


JOBS = {"leaking": leaking, "flat": flat, "filling": filling, "threads": threads, "storm": storm,
        "device": device, "level": level}


def main():
    global job
    if sys.argv[1:]:
        pretend(*sys.argv[1:])
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        if job:
            books[job] = JOBS[job]()
            job = None
        time.sleep(0.005)


torch.set_num_threads(1)
engine = torch.autograd.Variable._execution_engine
main()
