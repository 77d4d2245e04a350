"""A training with a loader whose workers are idle: the model takes most of the time."""
# expect: healthy
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(100000, 256))
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(12)])
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
print("stall", flush=True)
while True:
    for (batch,) in DataLoader(data, batch_size=512, num_workers=1):
        loss = model(batch).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
