"""Tensors in local variables, at rest."""
import os
import sys
import time

# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402


def holds():
    small = torch.tensor([[1.0, 2.5], [-3.0, 0.25]])
    weight = nn.Parameter(torch.ones(3))
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    result = weight * 2
    large = torch.zeros(8, 128, 64, dtype=torch.bfloat16)
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    numbers = torch.arange(10)
    part = numbers[2:5]
    turned = torch.arange(6).reshape(2, 3).t()
    flags = torch.tensor([True, False])
    alone = torch.tensor(7)
    empty = torch.empty(0, 4)
    deep = torch.zeros(1, 2, 1, 2, 1, 2, 1)
    nowhere = torch.empty(5, device="meta")
    array = numpy.array([[1, 2, 3], [4, 5, 6]], dtype=numpy.int32)
    many = numpy.linspace(0, 1, 33)
    slanted = numpy.arange(6.0).reshape(2, 3).T
    inside = {"batch": (small, [numbers])}
    print("ready %d" % os.getpid(), flush=True)
    while True:
        time.sleep(60)
    return (weight, frozen, result, large, half, part, turned, flags, alone, empty, deep, nowhere,
            array, many, slanted, inside)


holds()
