"""Each step writes thousands of lines of logs."""
# expect: slow
import logging
import tempfile

import torch

log = logging.getLogger("train")
log.setLevel(logging.DEBUG)
log.addHandler(logging.FileHandler(tempfile.mktemp()))
model = torch.nn.Linear(64, 64)


def train():
    while True:
        loss = model(torch.randn(32, 64)).pow(2).mean()
        loss.backward()
        for name, p in model.named_parameters():
            for row in p.detach().flatten()[:200].tolist():
                log.debug("%s %f", name, row)  # here


print("stall", flush=True)
train()
