"""The loss becomes NaN: the learning rate is far too high."""
# expect: values
# line: none
import torch

model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
opt = torch.optim.SGD(model.parameters(), lr=1e6)


def train():
    while True:
        loss = model(torch.randn(64, 16)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


print("stall", flush=True)
train()
