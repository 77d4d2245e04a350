"""Long matrix products."""
# expect: healthy
import torch

torch.set_num_threads(1)
a = torch.randn(1500, 1500)
print("stall", flush=True)
while True:
    a = (a @ a).clamp(-1, 1)
