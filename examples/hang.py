"""
A job that hangs: one rank misses a collective, the others wait for it for ever.

    torchrun --nproc-per-node 4 examples/hang.py --rank 2 --step 20
"""
import argparse
import os
import time

import torch
import torch.distributed as dist


def parse():
    parser = argparse.ArgumentParser(description="one rank misses a collective")
    parser.add_argument("--rank", type=int, default=1, help="the one that gets stuck")
    parser.add_argument("--step", type=int, default=20, help="when")
    return parser.parse_args()


def wait_for_storage():
    """Stands for what really happens: a file system that does not answer."""
    while True:
        time.sleep(1)


def main():
    args = parse()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    print("rank %d is process %d" % (rank, os.getpid()), flush=True)
    gradients = torch.ones(1024)
    step = 0
    while True:
        if rank == args.rank and step == args.step:
            wait_for_storage()
        dist.all_reduce(gradients)
        gradients /= dist.get_world_size()
        time.sleep(0.02)
        step += 1


if __name__ == "__main__":
    main()
