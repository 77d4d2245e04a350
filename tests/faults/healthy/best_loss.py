"""A training with plateaus that keeps the best loss, infinite at first."""
# expect: healthy
import logging

import torch

logging.basicConfig(level=logging.INFO, filename="/dev/null")
model = torch.nn.Linear(64, 64)
opt = torch.optim.SGD(model.parameters(), lr=1e-9)
best_loss = val_loss = float("inf")
print("stall", flush=True)
step = 0
while True:
    loss = model(torch.randn(256, 64)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
    if step % 50 == 0:
        logging.info("step %d loss %f", step, loss.item())
