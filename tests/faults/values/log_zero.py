"""log of zero: the loss of each step is infinite."""
# expect: values
# line: none
import torch

model = torch.nn.Linear(16, 4)
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
print("stall", flush=True)
while True:
    p = torch.relu(model(torch.randn(8, 16))) * 0
    loss = -torch.log(p).mean()
    opt.zero_grad()
    loss.backward()
    train_loss = loss.item()
