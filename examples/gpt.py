"""
Trains a small GPT on random tokens: 12 layers, 113 modules.

    python examples/gpt.py --steps 200
"""
import argparse
import os
import time

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1)) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = weights.masked_fill(mask, float("-inf")).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=256, width=64, heads=4, layers=12, length=64):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def parse():
    parser = argparse.ArgumentParser(description="a small GPT on random tokens")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("-b", "--batch-size", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--accumulate", type=int, default=1, help="micro-steps in a step")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    print("process %d" % os.getpid(), flush=True)
    model = GPT(width=args.width, layers=args.layers, length=args.length).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    for step in range(args.steps):
        began = time.time()
        optimizer.zero_grad(set_to_none=True)
        for _ in range(args.accumulate):
            ids = torch.randint(0, 256, (args.batch_size, args.length + 1), device=args.device)
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / args.accumulate
            loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 20 == 0:
            print("step %d  loss %.4f  %.1f ms" % (step, loss.item() * args.accumulate,
                                                    (time.time() - began) * 1000), flush=True)


if __name__ == "__main__":
    main()
