"""A rank ends before it has joined the others."""
# expect: hang
# ranks: 2
# rank: 1
# line: none
import os
import sys

import torch.distributed as dist

print("stall", flush=True)
if os.environ["RANK"] == "1":
    sys.exit(0)
dist.init_process_group("gloo")
