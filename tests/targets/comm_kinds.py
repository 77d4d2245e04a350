"""Two ranks that send each other what libraries of torch send. usage: comm_kinds.py PORT GO_FILE

At the end they say what torch's own flight recorder has noted.
"""
import datetime
import json
import os
import sys
import time
import warnings

sys.path.pop(0)  # other targets are named like modules that torch imports
warnings.simplefilter("ignore")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

PARTS = []
NORMS = []  # of gradients, one for each step that cuts them


def part(function):
    PARTS.append(function)
    return function


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3))


def train(net, optimizer, steps=2, clip=None):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.ones(4, 12)).sum().backward()
        if clip:
            norm = clip(0.5)
            NORMS.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))
        optimizer.step()


@part
def plain(rank, pair):
    """Forms that no library is needed for."""
    data = torch.arange(6.0)
    dist.all_gather_into_tensor(torch.empty(12), data, group=pair)
    dist.reduce_scatter_tensor(torch.empty(3), data)
    dist.all_to_all_single(torch.empty(6), data, group=pair)
    dist.all_gather_object([None, None], {"rank": rank, "long": "x" * rank})
    dist.broadcast_object_list([rank], src=0, group=pair)
    dist.all_reduce_coalesced([torch.ones(3), torch.ones(4)])
    dist.barrier(group=pair)


@part
def together(rank, pair):
    with _coalescing_manager(group=pair, async_ops=True) as all_of_them:
        for count in (2, 3):
            dist.all_reduce(torch.ones(count), group=pair)
    all_of_them.wait()


@part
def functional(rank, pair):
    total = collectives.all_reduce(torch.ones(7), "sum", pair)
    parts = collectives.all_gather_tensor(torch.ones(9, dtype=torch.float64), 0, dist.group.WORLD)
    assert total.tolist() == [2.0] * 7 and len(parts) == 18


@part
def tensors(rank, pair):
    mesh = init_device_mesh("cpu", (2,))
    spread = distribute_tensor(torch.ones(8, 2), mesh, [Shard(0)])
    assert spread.redistribute(mesh, [Replicate()]).to_local().shape == (8, 2)


@part
def ddp(rank, pair):
    """Two models, each with a group of its own: what C++ sends alternates between them."""
    first = nn.parallel.DistributedDataParallel(model())
    second = nn.parallel.DistributedDataParallel(model(), process_group=pair)
    for _ in range(3):
        for net in (first, second):
            train(net, torch.optim.SGD(net.parameters(), lr=0.1), 1)


@part
def zero(rank, pair):
    net = nn.parallel.DistributedDataParallel(model())
    train(net, ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1))


@part
def fsdp(rank, pair):
    net = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    train(net, torch.optim.SGD(net.parameters(), lr=0.1), clip=net.clip_grad_norm_)


@part
def fsdp2(rank, pair):
    net = model()
    fully_shard(net)
    train(net, torch.optim.SGD(net.parameters(), lr=0.1),
          clip=lambda most: nn.utils.clip_grad_norm_(net.parameters(), most))


@part
def messages(rank, pair):
    """Last: torch counts some of them among the collectives."""
    other = 1 - rank
    ops = [dist.P2POp(how, torch.ones(5), other) for how in (dist.isend, dist.irecv)]
    for work in dist.batch_isend_irecv(ops if rank == 0 else ops[::-1]):
        work.wait()
    dist.monitored_barrier()


def recorded():
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    return json.loads(dump(True, False))["entries"] if dump else []


def tell(rank, book):
    """In one write: the ranks have the same file."""
    os.write(1, ("norms %d %s\nbook %d %s\nend of book %d\n" % (
        rank, json.dumps(NORMS), rank, json.dumps(book), rank)).encode())


def run(rank, port, go):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    pair = dist.new_group([0, 1])
    for _ in range(3):  # its numbers are not those of the other group
        dist.all_reduce(torch.ones(1), group=pair)
    print("rank %d is process %d" % (rank, os.getpid()), flush=True)
    while not os.path.exists(go):
        time.sleep(0.02)
    before = len(recorded())
    for function in PARTS:
        function(rank, pair)
    tell(rank, recorded()[before:])
    time.sleep(600)


def main():
    port, go = sys.argv[1:]
    for rank in range(2):
        if os.fork() == 0:
            run(rank, port, go)
    os.wait()


main()
