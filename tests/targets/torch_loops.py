"""
Training loops as trainers make them: the same calls of torch in the same order. Each keeps a book
of its steps: `job = "ahead"` makes the main thread run that one and put its book into `books`.
Nothing in here knows of the tool.
"""
import collections
import gc
import os
import sys
import time

# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

job, books = None, {}
SAMPLES, BATCH = 22, 4  # the last batch of a pass is smaller


class Data(Dataset):
    def __init__(self, samples=SAMPLES, wrap=tuple):
        torch.manual_seed(samples)
        self.x, self.y = torch.randn(samples, 8), torch.randint(0, 2, (samples,))
        self.wrap = wrap

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        time.sleep(0.0002)
        return {"x": self.x[at], "y": self.y[at]} if self.wrap is dict else (self.x[at],
                                                                               self.y[at])


class Net(nn.Module):
    def __init__(self, seed=1):
        torch.manual_seed(seed)
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        time.sleep(0.001)
        return self.two(torch.relu(self.one(x)))


class Book:
    """What a loop knows of its steps; times in milliseconds."""

    def __init__(self):
        self.rows, self.last, self.began = [], None, 0.0
        self.clear()

    def clear(self):
        self.sums = {"data": 0.0, "forward": 0.0, "backward": 0.0, "samples": 0, "loss": 0.0}

    def starts(self):
        self.began = time.perf_counter()

    def took(self, part):
        self.sums[part] += (time.perf_counter() - self.began) * 1000

    def fetch(self, iterator):
        self.starts()
        try:
            return next(iterator)
        finally:
            self.took("data")

    def forward(self, model, batch, size=None):
        x, y = (batch["x"], batch["y"]) if hasattr(batch, "keys") else batch
        self.sums["samples"] += len(x) if size is None else size
        self.starts()
        out = model(x)
        self.took("forward")
        return F.cross_entropy(out, y)

    def backward(self, loss, say=None):
        self.sums["loss"] += float(loss if say is None else say)
        self.starts()
        loss.backward()
        self.took("backward")

    def step(self, epoch, lr, norm=None):
        now = time.perf_counter()
        whole = None if self.last is None else (now - self.last) * 1000
        self.rows.append(dict(self.sums, epoch=epoch, lr=lr, norm=norm, step=whole))
        self.last = now
        self.clear()


def rate(optimizer):
    return optimizer.param_groups[0]["lr"]


def one_ahead(book, loader):
    """Knows which batch is the last one, as it has asked for the next one before."""
    batches = iter(loader)
    current = book.fetch(batches)
    while True:
        try:
            following = book.fetch(batches)
        except StopIteration:
            yield current, True
            return
        yield current, False
        current = following


def evaluate(model, data):
    """In a row of its own if anything: it is no part of a step."""
    model.eval()
    with torch.no_grad():
        for batch in DataLoader(data, batch_size=11):
            x, y = (batch["x"], batch["y"]) if hasattr(batch, "keys") else batch
            F.cross_entropy(model(x), y)
    model.train()


def ahead(accumulate=2, epochs=3):
    """Wrapped loader and optimizer; a step every few batches and with the last one."""
    model, book, data = Net(), Book(), Data()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    for epoch in range(epochs):
        for number, (batch, last) in enumerate(one_ahead(book, loader)):
            steps = last or (number + 1) % accumulate == 0
            book.backward(book.forward(model, batch) / accumulate)
            if not steps:
                continue
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
            lr = rate(optimizer)
            optimizer.step()
            book.step(epoch, lr, norm)
            schedule.step()
            optimizer.zero_grad()
        evaluate(model, data)
    return book.rows


def closures(accumulate=1, epochs=3, limit=None, clip=None):
    """Everything happens inside of the optimizer's step, after a check of the evaluation."""
    model, book, data = Net(), Book(), Data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    loader, others = DataLoader(data, batch_size=BATCH), Data(33)
    evaluate(model, others)
    for epoch in range(epochs):
        batches, number = iter(loader), 0
        while number < (limit or len(loader)):
            batch, number, norm = book.fetch(batches), number + 1, []

            def closure():
                loss = book.forward(model, batch) / accumulate
                if number % accumulate == 1 % accumulate:
                    optimizer.zero_grad()
                book.backward(loss)
                if clip:
                    norm.append(float(nn.utils.clip_grad_norm_(model.parameters(), clip)))
                return loss
            if number % accumulate == 0 or number == len(loader):
                optimizer.step(closure=closure)
                book.step(epoch, rate(optimizer), norm[0] if norm else None)
            else:
                with torch.enable_grad():
                    closure()
        schedule.step()
        evaluate(model, others)
    return book.rows


def together(accumulate=2, epochs=2):
    """The batches of a step are fetched first, one more ahead, and are mappings."""
    model, book, data = Net(), Book(), Data(wrap=dict)
    one_by_one = {"foreach": False} if hasattr(torch, "compile") else {}  # before that always
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    def collate(items):
        return collections.UserDict({key: torch.stack([item[key] for item in items])
                                     for key in items[0]})
    loader = DataLoader(data, batch_size=BATCH, collate_fn=collate)
    for epoch in range(epochs):
        batches, last = one_ahead(book, loader), False
        while not last:
            group = []
            while len(group) < accumulate and not last:
                batch, last = next(batches)
                group.append(batch)
            for batch in group:
                book.backward(book.forward(model, batch) / len(group))
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), 1.0, **one_by_one))
            lr = rate(optimizer)
            optimizer.step()
            book.step(epoch, lr, norm)
            schedule.step()
            model.zero_grad()
        evaluate(model, Data(wrap=dict))
    return book.rows


def scaled(fused=False):
    """Losses are scaled; a step whose gradients are not finite is left out."""
    kind = getattr(torch.amp, "GradScaler", None)
    if not kind:
        return None
    model, book, data = Net(), Book(), Data()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=fused)
    scaler = kind("cpu", init_scale=4096.0, growth_interval=3)
    for number, batch in enumerate(DataLoader(data, batch_size=BATCH)):
        optimizer.zero_grad()
        loss = book.forward(model, batch)
        if number == 2 and not fused:  # a fused one makes the step and changes nothing
            book.clear()
            book.sums["samples"] = BATCH
            loss = loss * float("inf")
            scaler.scale(loss).backward()
        else:
            book.backward(scaler.scale(loss), say=loss)
        scaler.unscale_(optimizer) if not fused else None
        scaler.step(optimizer)
        if number != 2 or fused:
            book.step(0, rate(optimizer))
        scaler.update()
    return book.rows


def adversaries():
    """Two optimizers take turns: the first one's steps count, with the sum of its two losses."""
    judge, maker, book = Net(), nn.Linear(4, 8), Book()
    one = torch.optim.Adam(judge.parameters(), lr=0.002)
    two = torch.optim.Adam(maker.parameters(), lr=0.001)
    for batch in DataLoader(Data(), batch_size=BATCH):
        one.zero_grad()
        book.backward(book.forward(judge, batch))
        made = maker(torch.randn(len(batch[0]), 4))
        book.backward(judge(made.detach())[:, 0].square().mean())
        one.step()
        book.step(0, rate(one))
        two.zero_grad()
        judge(made)[:, 1].square().mean().backward()
        two.step()
    return book.rows


def taught():
    """A model without gradients runs before the one that is trained, in every step."""
    teacher, model, book = Net(2).eval(), Net(), Book()
    optimizer, data = torch.optim.SGD(model.parameters(), lr=0.1), Data()
    for epoch in range(2):
        batches = iter(DataLoader(data, batch_size=BATCH))
        for number in range(3):  # and no pass comes to its end
            batch = book.fetch(batches)
            book.starts()
            with torch.no_grad():
                wanted = teacher(batch[0])
            book.took("forward")
            book.forward(model, batch)
            loss = F.mse_loss(model(batch[0]), wanted)
            optimizer.zero_grad()
            book.backward(loss)
            optimizer.step()
            book.step(epoch, rate(optimizer))
    return book.rows


def failing():
    """Steps that raise are none, also within the handler of another exception."""
    model, book = Net(), Book()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        book.backward(model(torch.ones(2, 8)).sum())
        if len(book.rows) == 2 and not failed:
            failed.append(True)
            raise ValueError("in a closure")
    failed = []
    while len(book.rows) < 5:
        try:
            raise KeyError("around the step")
        except KeyError:
            try:
                optimizer.zero_grad()
                optimizer.step(closure)
                book.step(0, 0.1)
            except ValueError:
                book.clear()
    return book.rows


class Compiled:
    """The pieces of a loop, each compiled; how often the compiler had to work."""

    def __init__(self):
        self.graphs, self.model = [], Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.layers = nn.Sequential(self.model.one, self.model.two)
        self.parameters = list(self.layers.parameters())
        self.forward = self.compile(self.layers, True)
        self.clip = self.compile(self.clipped, False)  # torch 2.8 breaks it in two
        self.whole = self.compile(self.everything, False)
        self.x, self.y = torch.ones(4, 8), torch.zeros(4, dtype=torch.long)

    def compile(self, function, full):
        return torch.compile(function, backend=self.backend, fullgraph=full)

    def backend(self, module, _inputs):
        self.graphs.append(len(list(module.graph.nodes)))
        return module.forward

    def clipped(self):
        return nn.utils.clip_grad_norm_(self.parameters, 1.0)

    def everything(self, x, y):
        loss = F.cross_entropy(self.layers(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def run(self):
        from torch._dynamo.utils import counters
        for _ in range(4):
            F.cross_entropy(self.forward(self.x), self.y).backward()
            self.clip()
            self.whole(self.x, self.y)
        return {"graphs": self.graphs[:], "stats": dict(counters["stats"]),
                "frames": dict(counters["frames"]), "breaks": sorted(counters["graph_break"])}


def compiled():
    """What was compiled the first time stays good when this runs again."""
    if not hasattr(torch, "compile"):
        return None
    pieces.append(Compiled()) if not pieces else None
    return pieces[0].run()


def compiled_anew():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    pieces[:] = [Compiled()]
    return pieces[0].run()


def compiled_steps():
    """Steps of an optimizer that was compiled with all around it."""
    book = Book()
    for _ in range(15):
        book.sums["loss"] = float(pieces[0].whole(pieces[0].x, pieces[0].y))
        book.step(0, 0.01)
    return book.rows


JOBS = {
    "ahead": ahead,
    "closures": lambda: closures(clip=0.5),
    "closures accumulate": lambda: closures(accumulate=2),
    "closures limited": lambda: closures(limit=3),
    "together": together,
    "scaled": scaled,
    "scaled fused": lambda: scaled(fused=True),
    "adversaries": adversaries,
    "taught": taught,
    "failing": failing,
    "compiled": compiled,
    "compiled anew": compiled_anew,
    "compiled steps": compiled_steps,
}


def main():
    global job
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        if job:
            books[job] = JOBS[job]()
            gc.collect()  # an optimizer and its schedule hold each other
            job = None
        time.sleep(0.005)


torch.set_num_threads(1)
engine = torch.autograd.Variable._execution_engine
pieces = []
if __name__ == "__main__":
    main()
