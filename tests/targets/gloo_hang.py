"""Two ranks; the second never joins the all_reduce. argv: meeting file, [rank]."""
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist


def meet(path, rank):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)


def late(path):
    meet(path, 1)
    time.sleep(100000)


def main():
    path = sys.argv[1]
    if len(sys.argv) > 2:
        return late(path)
    subprocess.Popen([sys.executable, os.path.abspath(__file__), path, "1"])
    meet(path, 0)
    print("ready", os.getpid())
    sys.stdout.flush()
    dist.all_reduce(torch.ones(1024))


main()
