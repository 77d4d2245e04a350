"""A kernel that never ends, and the line that waits for it."""
# expect: hang
# needs: cuda
import torch


def step(x):
    torch.cuda._sleep(1 << 50)
    return (x * 2).sum().item()  # here


x = torch.ones(1 << 20, device="cuda")
for _ in range(3):
    (x * 2).sum().item()
print("stall", flush=True)
step(x)
