"""
Data-parallel training under torchrun, on CPUs (gloo) or GPUs (nccl).

    torchrun --nproc-per-node 4 examples/ddp.py

One rank can be made slow with --slow-rank 2 --slow-ms 50.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse():
    parser = argparse.ArgumentParser(description="data-parallel training")
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-ms", type=float, default=50)
    return parser.parse_args()


def main():
    args = parse()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if not cuda:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                          nn.Linear(256, 8)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 8, (4096,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    step = epoch = 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        for inputs, target in loader:
            if rank == args.slow_rank:
                time.sleep(args.slow_ms / 1000)
            loss = criterion(model(inputs.to(device)), target.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0 and step % 100 == 0:
                print("epoch %d step %d loss %.4f" % (epoch, step, loss.item()), flush=True)
            step += 1
            if step >= args.steps:
                break
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
