"""A training loop on the CPU with one thread of torch's own."""
import os
import sys

import torch


def build():
    layers = []
    for _ in range(4):
        layers += [torch.nn.Linear(512, 512), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(512, 10))


def train_step(model, optimizer, inputs, labels):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss


def main():
    torch.set_num_threads(1)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(256, 512), torch.randint(0, 10, (256,))
    train_step(model, optimizer, inputs, labels)
    print("ready", os.getpid())
    sys.stdout.flush()
    while True:
        train_step(model, optimizer, inputs, labels)


main()
