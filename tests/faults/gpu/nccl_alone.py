"""A collective on a GPU that the second rank never joins."""
# expect: hang
# needs: cuda
# ranks: 2
# rank: 1
import threading

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(0)
x = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
print("stall", flush=True)
if dist.get_rank() == 0:
    dist.all_reduce(x)
    torch.cuda.synchronize()
else:
    threading.Event().wait()  # here
