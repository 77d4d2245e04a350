"""
Trains a ResNet on ImageNet-like data, the classic first example.

    python examples/imagenet.py -a resnet18 --dummy -b 1

Needs torch only. Nothing in here knows of Probing: start it with PROBING=1, or look at it
with `probing PID …` while it runs.
"""
import argparse
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# name: (bottleneck blocks?, blocks in each of the four stages)
ARCHITECTURES = {
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
}


def conv(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class Block(nn.Module):
    """Two 3x3 convolutions, or 1x1, 3x3, 1x1 in a bottleneck, around a shortcut."""

    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = width * 4 if bottleneck else width
        if bottleneck:
            shape = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        else:
            shape = [(inputs, width, 3, stride), (width, width, 3, 1)]
        layers = []
        for a, b, size, step in shape:
            layers += [conv(a, b, size, step), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride),
                                          nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, bottleneck, counts, classes):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, stride=2, padding=1))
        inputs, stages = 64, []
        for number, count in enumerate(counts):
            width, blocks = 64 << number, []
            for index in range(count):
                stride = 2 if number and index == 0 else 1
                blocks.append(Block(inputs, width, stride, bottleneck))
                inputs = width * 4 if bottleneck else width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.pool(self.stages(self.stem(x))).flatten(1))


class Dummy(Dataset):
    """Random pictures, made when asked for."""

    def __init__(self, length, classes):
        self.length, self.classes = length, classes

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.randn(3, 224, 224), index % self.classes


def parse():
    parser = argparse.ArgumentParser(description="ResNet training on ImageNet-like data")
    parser.add_argument("-a", "--arch", default="resnet18", choices=sorted(ARCHITECTURES))
    parser.add_argument("--dummy", action="store_true", help="random data (the only kind here)")
    parser.add_argument("-b", "--batch-size", type=int, default=32)
    parser.add_argument("-j", "--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--images", type=int, default=1281167, help="length of an epoch")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--wd", "--weight-decay", type=float, default=1e-4, dest="decay")
    parser.add_argument("-p", "--print-freq", type=int, default=10)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if not args.dummy:
        parser.error("this example has no pictures of its own: add --dummy")
    return args


def train(loader, model, criterion, optimizer, epoch, args):
    model.train()
    end = time.time()
    for step, (images, target) in enumerate(loader):
        images = images.to(args.device, non_blocking=True)
        target = target.to(args.device, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.print_freq == 0:
            print("Epoch: [%d][%d/%d]  Time %.3f  Loss %.4e" % (
                epoch, step, len(loader), time.time() - end, loss.item()), flush=True)
        end = time.time()


def main():
    args = parse()
    if args.seed is not None:
        torch.manual_seed(args.seed)
    print("process %d: training %s" % (os.getpid(), args.arch), flush=True)
    model = ResNet(*ARCHITECTURES[args.arch], classes=1000).to(args.device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum,
                                weight_decay=args.decay)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    loader = DataLoader(Dummy(args.images, 1000), batch_size=args.batch_size,
                        num_workers=args.workers)
    for epoch in range(args.epochs):
        train(loader, model, criterion, optimizer, epoch, args)
        scheduler.step()


if __name__ == "__main__":
    main()
