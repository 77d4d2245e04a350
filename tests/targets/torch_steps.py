"""
Steps that are no plain calls of one optimizer: by hand, of two models, with modules in the data, in
threads. `job = "byhand"` makes the main thread run that one and put its book into `books`: what the
program itself knows of its losses and times (ms). Nothing in here knows of the tool.
"""
import gc
import os
import signal
import sys
import threading
import time

from interrupted_steps import Alarm, Signalled, alarm

# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

job, books = None, {}


class Net(nn.Module):
    def __init__(self, size=8, out=2, pause=0.001):
        super().__init__()
        self.one, self.two, self.pause = nn.Linear(size, 8), nn.Linear(8, out), pause

    def forward(self, x):
        time.sleep(self.pause)
        return self.two(torch.relu(self.one(x)))


class Reference(Net):
    pass


class Part(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, module in parts.items():
            self.add_module(name, module)

    def forward(self, x):
        for module in self.children():
            x = module(x)
        return x


class Outer(Part):
    pass


class Book:
    """Times are taken around each part, on this thread."""

    def __init__(self):
        self.rows, self.last, self.sums = [], None, {}

    def time(self, part, function, *args):
        began = time.perf_counter()
        result = function(*args)
        self.sums[part] = self.sums.get(part, 0.0) + (time.perf_counter() - began) * 1000
        return result

    def backward(self, loss):
        self.sums["loss"] = self.sums.get("loss", 0.0) + float(loss.detach())
        self.time("backward", loss.backward)

    def step(self, **more):
        now = time.perf_counter()
        whole = None if self.last is None else (now - self.last) * 1000
        self.rows.append(dict(self.sums, step=whole, **more))
        self.last, self.sums = now, {}


def data(number=4):
    return torch.randn(number, 8), torch.randint(0, 2, (number,))


def by_hand(accumulate=1, clear="none", criterion=None, model=None, steps=12):
    """Gradients are applied by the loop itself, and cleared in one of the ways that there are."""
    torch.manual_seed(1)
    model, book = model or Net(), Book()
    for _ in range(steps):
        if clear == "before":
            model.zero_grad()
        for _ in range(accumulate):
            x, y = data()
            out = book.time("forward", model, x)
            loss = (criterion(out, y) if criterion else F.cross_entropy(out, y)) / accumulate
            if clear == "between":
                model.zero_grad()
            book.backward(loss)
        book.step()
        with torch.no_grad():
            for p in model.parameters():
                if clear in ("between", "before"):
                    p.data.add_(p.grad, alpha=-0.1)
                else:
                    p -= 0.1 * p.grad
                if clear == "none":
                    p.grad = None
                elif clear == "zero":
                    p.grad.zero_()
        time.sleep(0.001)
    return book.rows


def no_modules():
    """Tensors alone, as in a first lesson."""
    torch.manual_seed(1)
    weight, book = torch.randn(8, 2, requires_grad=True), Book()
    for _ in range(10):
        x, y = data(16)
        loss = F.cross_entropy(x @ weight, y)
        weight.grad = None
        book.backward(loss)
        book.step()
        weight.data -= 0.1 * weight.grad
        time.sleep(0.001)
    return book.rows


class Images(Dataset):
    """What is read goes through modules before it is a sample."""

    def __init__(self):
        self.change = nn.Sequential(nn.Linear(8, 8), Net(out=8, pause=0.0005))

    def __len__(self):
        return 24

    def __getitem__(self, at):
        with torch.no_grad():
            return self.change(torch.full((8,), float(at))), at % 2


def transforms(epochs=2):
    """A loader whose transforms are modules, an evaluation after each pass."""
    torch.manual_seed(1)
    model, book, images = Net(), Book(), Images()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        batches = iter(DataLoader(images, batch_size=4))
        while True:
            try:
                x, y = book.time("data", next, batches)
            except StopIteration:
                break
            loss = F.cross_entropy(book.time("forward", model, x), y)
            optimizer.zero_grad()
            book.backward(loss)
            book.time("optimizer", optimizer.step)
            book.step(epoch=epoch)
        model.eval()
        with torch.no_grad():
            for x, _ in DataLoader(images, batch_size=8):
                model(x)
        model.train()
    return book.rows


def sampled(first, told=True, epochs=3, accumulate=1):
    """Goes on with an epoch that is not the first one; whether or not the sampler is told."""
    from torch.utils.data.distributed import DistributedSampler
    torch.manual_seed(1)
    model, book, images = Net(), Book(), Images()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = DistributedSampler(images, num_replicas=2, rank=0)
    loader = DataLoader(images, batch_size=4 if accumulate == 1 else 1, sampler=sampler)
    number = first * len(loader) // accumulate
    for epoch in range(first, first + epochs):
        if told:
            sampler.set_epoch(epoch)
        for place, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            book.backward(loss)
            if place % accumulate == accumulate - 1:
                optimizer.step()
                optimizer.zero_grad()
                book.step(epoch=epoch, number=number)
                number += 1
    return book.rows


class Told(Dataset):
    """In an order of its own for each epoch, which it is told."""
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 12

    def __getitem__(self, at):
        return torch.full((8,), float(at + self.epoch)), at % 2


def told(first=5, epochs=3):
    """The data set has the epoch, and no sampler knows it."""
    model, book, images = Net(), Book(), Told()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(images, batch_size=4)
    for epoch in range(first, first + epochs):
        images.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            book.backward(F.cross_entropy(model(x), y))
            optimizer.step()
            book.step(epoch=epoch)
    return book.rows


def twice(epochs=2):
    """Two steps with each batch."""
    model, book, images = Net(), Book(), Told()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for x, y in DataLoader(images, batch_size=2):
            for _ in range(2):
                optimizer.zero_grad()
                book.backward(F.cross_entropy(model(x), y))
                optimizer.step()
                book.step()
    return book.rows


class Sometimes(nn.Module):
    """Every fifth call takes long, in a part of its own."""

    def __init__(self):
        super().__init__()
        self.always, self.seldom, self.calls = nn.Linear(8, 2), Net(pause=0.01), 0

    def forward(self, x):
        self.calls += 1
        out = self.always(x)
        return out + self.seldom(x) if self.calls % 5 == 0 else out


def sometimes(steps=60, accumulate=1):
    model, book = Sometimes(), Book()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            x, y = data()
            book.backward(F.cross_entropy(model(x), y))
        optimizer.step()
        book.step()
    return book.rows


def closures(kind="SGD", steps=8):
    """Forward, backward and the data happen inside of the optimizer's step, which is short."""
    torch.manual_seed(1)
    model, book, images = Net(), Book(), iter(DataLoader(Images(), batch_size=2))
    more = {"max_iter": 3} if kind == "LBFGS" else {}
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01, **more)

    def closure():
        x, y = book.time("data", next, images) if kind == "SGD" else the_same
        optimizer.zero_grad()
        book.sums["loss"] = 0.0
        book.backward(F.cross_entropy(book.time("forward", model, x), y))
        return torch.tensor(book.sums["loss"])

    the_same = data()
    for _ in range(steps):
        book.time("whole", optimizer.step, closure)
        inner = sum(book.sums.get(part, 0) for part in ("data", "forward", "backward"))
        book.sums["optimizer"] = book.sums.pop("whole") - inner
        book.step()
    return book.rows


def in_backward(steps=12):
    """An optimizer for each parameter, stepped as soon as its gradient is there."""
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        return None
    torch.manual_seed(1)
    model, book = nn.Sequential(*[nn.Linear(8, 8) for _ in range(6)]), Book()
    optimizers = {each: torch.optim.Adam([each], lr=0.001) for each in model.parameters()}

    def apply(parameter):
        book.time("optimizer", optimizers[parameter].step)
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(apply)
    for _ in range(steps):
        out = book.time("forward", model, torch.randn(4, 8))
        book.backward(out.sub(1).square().mean())
        book.sums["backward"] -= book.sums["optimizer"]
        book.step()
    return book.rows


def many(steps=12):
    """One after the other, each for a layer."""
    torch.manual_seed(1)
    model, book = nn.Sequential(*[nn.Linear(8, 8) for _ in range(12)]), Book()
    optimizers = [torch.optim.Adam(layer.parameters(), lr=0.001) for layer in model]
    for _ in range(steps):
        out = book.time("forward", model, torch.randn(4, 8))
        book.backward(out.sub(1).square().mean())
        for optimizer in optimizers:
            optimizer.step()
            if optimizer is optimizers[0]:
                book.step()
            optimizer.zero_grad()
    return book.rows


def beside(steps=60):
    """Two trainings in one process, each in a thread of its own; the slower one's rate is 0.002."""
    kept = []

    def train(rate):
        model = Net(pause=rate)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for _ in range(steps):
            x, y = data()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            kept.append({"lr": rate, "loss": float(loss.detach())})
            loss.backward()
            time.sleep(rate / 2)
            optimizer.step()

    threads = [threading.Thread(target=train, args=(rate,)) for rate in (0.002, 0.001)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return kept


def inside(steps=6):
    """A step of several passes, in the midst of one of which it waits to be told."""
    global waiting
    torch.manual_seed(1)
    model, book, (x, y) = Net(), Book(), data()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=4, tolerance_change=0)

    def closure():
        global waiting
        book.sums["calls"] = book.sums.get("calls", 0) + 1
        waiting = len(book.rows) == 1 and book.sums["calls"] == 2
        while waiting:
            time.sleep(0.005)
        optimizer.zero_grad()
        book.sums["loss"] = 0.0
        book.backward(F.cross_entropy(model(x), y))
        return torch.tensor(book.sums["loss"])

    for _ in range(steps):
        optimizer.step(closure)
        book.step()
    return book.rows


def gan(steps=10):
    """Two models of one class and two optimizers of one class take turns."""
    torch.manual_seed(1)
    judge, maker, book = Net(), Net(4, 8), Book()
    one = torch.optim.Adam(judge.parameters(), lr=0.002)
    two = torch.optim.Adam(maker.parameters(), lr=0.001)
    for _ in range(steps):
        real = torch.randn(4, 8)
        one.zero_grad()
        first = judge(real)[:, 0].square().mean()
        first.backward()
        made = maker(torch.randn(4, 4))
        second = judge(made.detach())[:, 1].square().mean()
        second.backward()
        one.step()
        two.zero_grad()
        third = judge(made)[:, 1].sub(1).square().mean()
        third.backward()
        two.step()
        book.step(judge=[first.item(), second.item()], maker=third.item())
    return book.rows


def reference(steps=8):
    """A frozen copy answers after the policy does: backward is the policy's."""
    torch.manual_seed(1)
    policy, frozen, book = Net(), Reference().eval(), Book()
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for _ in range(steps):
        x, _ = data()
        ours = policy(x)
        with torch.no_grad():
            theirs = frozen(x)
        optimizer.zero_grad()
        book.backward((ours - theirs).square().mean())
        optimizer.step()
        book.step()
    return book.rows


def evaluated(steps=40):
    """A long evaluation after every other step."""
    torch.manual_seed(1)
    model, book = Net(), Book()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(steps):
        x, y = data()
        loss = F.cross_entropy(book.time("forward", model, x), y)
        optimizer.zero_grad()
        book.backward(loss)
        book.time("optimizer", optimizer.step)
        book.step()
        if number % 2:
            model.eval()
            with torch.no_grad():
                for _ in range(5):
                    book.time("evaluation", model, x)
            model.train()
    return book.rows


def held():
    """Gradients of four passes add up; in the midst of the second step it waits to be told."""
    global waiting
    model, book = Net(), Book()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        for number in range(4):
            waiting = step == 1 and number == 2
            while waiting:
                time.sleep(0.005)
            x, y = data()
            book.backward(F.cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
        book.step()
    return book.rows


class Judge(Net):
    """Waits between its layers when it is told to."""

    def forward(self, x):
        global waiting
        x = torch.relu(self.one(x))
        waiting = self.held
        while waiting:
            time.sleep(0.005)
        return self.two(x)


def entered(steps=6):
    """As a GAN, which waits in the midst of a model's call, and behind the other model's."""
    torch.manual_seed(1)
    judge, maker, book = Judge(), Net(4, 8), Book()
    one = torch.optim.Adam(judge.parameters(), lr=0.002)
    two = torch.optim.Adam(maker.parameters(), lr=0.001)
    for number in range(steps):
        made = maker(torch.randn(4, 4))
        one.zero_grad()
        judge.held = number == 1
        judge(torch.randn(4, 8)).square().mean().backward()
        judge.held = False
        judge(made.detach())[:, 1].square().mean().backward()
        one.step()
        two.zero_grad()
        judge(made)[:, 1].sub(1).square().mean().backward()
        two.step()
        book.step()
    return book.rows


def deep():
    """Modules in modules in modules."""
    inner = Part(one=nn.Linear(8, 8), two=nn.Linear(8, 2))
    return by_hand(model=Outer(outer=Part(first=nn.Linear(8, 8), inner=inner)), steps=30)


def server(threads=4, requests=8):
    """Requests are answered by threads at the same time; each counts its own."""
    model, book = Net(pause=0.003).eval(), []

    def serve(number):
        for request in range(requests):
            began = time.perf_counter()
            with torch.no_grad():
                model(torch.randn(2, 8))
            book.append({"tid": threading.get_native_id() if hasattr(threading, "get_native_id")
                         else None, "number": number, "request": request,
                         "took": (time.perf_counter() - began) * 1000})
    all_of_them = [threading.Thread(target=serve, args=(number,)) for number in range(threads)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    return book


class Trainer:
    """Counts its steps and epochs by itself, and goes on from a checkpoint."""

    def __init__(self):
        self.global_step, self.current_epoch = 7000, 40

    def fit(self, steps=12):
        torch.manual_seed(1)
        model, book = Net(), Book()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(steps):
            x, y = data()
            optimizer.zero_grad()
            book.backward(F.cross_entropy(model(x), y))
            optimizer.step()
            book.step(number=self.global_step, epoch=self.current_epoch)
            self.global_step += 1
            self.current_epoch += number % 4 == 3
        return book.rows


def trained():
    global trainer
    trainer = Trainer()
    return trainer.fit()


def signalled(steps=12):
    global trainer
    signal.signal(signal.SIGUSR1, alarm)
    trainer, model, caught = Signalled(), Net(), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        try:
            x, y = data()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            trainer.done += 1
        except Alarm:
            caught += 1
    return caught


JOBS = {
    "trained": trained,
    "signalled": signalled,
    "by hand": by_hand,
    "by hand zero": lambda: by_hand(clear="zero"),
    "by hand before": lambda: by_hand(clear="before"),
    "by hand between": lambda: by_hand(clear="between"),
    "by hand accumulate": lambda: by_hand(accumulate=3),
    "by hand layer": lambda: by_hand(model=nn.Linear(8, 2), criterion=nn.CrossEntropyLoss()),
    "by hand module loss": lambda: by_hand(criterion=nn.CrossEntropyLoss()),
    "no modules": no_modules,
    "transforms": transforms,
    "closures": closures,
    "closures again": lambda: closures("LBFGS"),
    "gan": gan,
    "reference": reference,
    "resumed": lambda: sampled(7),
    "forgotten": lambda: sampled(0, told=False),
    "resumed in fours": lambda: sampled(7, accumulate=4),
    "told by the data": told,
    "twice a batch": twice,
    "sometimes": sometimes,
    "sometimes accumulate": lambda: sometimes(steps=20, accumulate=5),
    "evaluated": evaluated,
    "quick": lambda: by_hand(steps=40, model=Net(pause=0.0001)),
    "deep": deep,
    "held": held,
    "in backward": in_backward,
    "inside": inside,
    "beside": beside,
    "many": many,
    "entered": entered,
    "server": server,
}


def main():
    global job
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        if job:
            books[job] = JOBS[job]()
            gc.collect()
            job = None
        time.sleep(0.005)


torch.set_num_threads(1)
engine, waiting = torch.autograd.Variable._execution_engine, False
if __name__ == "__main__":
    main()
