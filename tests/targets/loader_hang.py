"""
Two ranks that read samples through a worker each: that of rank 1 never gives the one with this
number. torchrun loader_hang.py SAMPLE
"""
import os
import sys
import time

# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Shards(Dataset):
    def __init__(self, stuck):
        self.stuck = stuck

    def __len__(self):
        return 100000

    def __getitem__(self, number):
        if number >= self.stuck:
            read_shard()
        return torch.zeros(1)


def read_shard():
    while True:
        time.sleep(1)  # the storage does not answer


def train(rank, stuck):
    data = torch.zeros(8)
    for batch in DataLoader(Shards(stuck if rank == 1 else 10 ** 9), batch_size=4, num_workers=1):
        dist.all_reduce(data)
        time.sleep(0.02)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    print("rank %d is process %d" % (dist.get_rank(), os.getpid()), flush=True)
    train(dist.get_rank(), int(sys.argv[1]))


main()
