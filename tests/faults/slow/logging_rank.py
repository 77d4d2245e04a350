"""One rank writes a log and syncs it to disk each step."""
# expect: slow
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
import tempfile  # noqa: E402

log = tempfile.TemporaryFile("w")


def note(step):
    for _ in range(20):
        log.write("step %d\n" % step)
        log.flush()
        os.fsync(log.fileno())  # here
        time.sleep(0.01)  # here


step = 0
while True:
    step += 1
    if rank == 0:
        note(step)
    dist.all_reduce(x)
