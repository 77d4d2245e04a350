"""A training whose two workers cannot keep up."""
# expect: slow
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, i):
        time.sleep(0.03)
        return torch.randn(512)


model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
opt = torch.optim.Adam(model.parameters(), lr=1e-3)


def train():
    for batch in DataLoader(Images(), batch_size=16, num_workers=2):  # here
        for _ in range(2):
            loss = model(batch).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


print("stall", flush=True)
train()
