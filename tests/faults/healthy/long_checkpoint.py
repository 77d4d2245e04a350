"""A training that writes a long checkpoint now and then."""
# expect: healthy
import os
import tempfile
import time

import torch

model = torch.nn.Linear(64, 64)
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
f = tempfile.TemporaryFile()
print("stall", flush=True)
step = 0
while True:
    loss = model(torch.randn(32, 64)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    time.sleep(0.01)
    step += 1
    if step % 300 == 0:
        f.seek(0)
        f.write(os.urandom(20_000_000))
        os.fsync(f.fileno())
        time.sleep(3)
