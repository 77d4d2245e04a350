"""
Backward passes of all kinds, each with its own book of how long every module took: `job = "plain"`
makes the main thread run that one and put its book into `books`. Nothing in here knows of the tool.
"""
import hashlib
import os
import sys
import threading
import time

# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

STEPS = 12
job, books = None, {}


class Nap(torch.autograd.Function):
    """Its backward takes time, and says how much."""

    @staticmethod
    def forward(ctx, x, owner):
        ctx.owner = owner
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        began = time.perf_counter()
        time.sleep(ctx.owner.seconds)
        ctx.owner.took.append((time.perf_counter() - began) * 1000)
        return grad, None


class Sleepy(nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.seconds, self.took = seconds, []

    def forward(self, x):
        return Nap.apply(self.lin(x), self)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.quick, self.slow = Sleepy(0.001), Sleepy(0.004)

    def forward(self, x):
        time.sleep(0.002)  # what a checkpoint does again
        return self.slow(self.quick(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.pair, self.frozen = Sleepy(0.002), Pair(), nn.Linear(4, 4)
        self.through = lambda module, x: module(x)
        for parameter in self.frozen.parameters():
            parameter.requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            x = self.frozen(x)
        return self.through(self.pair, self.first(x))

    def sleepy(self):
        return {"first": self.first, "pair.quick": self.pair.quick, "pair.slow": self.pair.slow}


class Loss(nn.Module):
    def forward(self, x):
        return x.square().mean()


def train(through=None, passes=lambda loss: loss.backward(), micro=1, model=None):
    """A row a step: milliseconds that each module's backward has slept, call by call."""
    torch.manual_seed(1)
    model = model or Net()
    model.through = through or model.through
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss, book = Loss(), []
    for _ in range(STEPS):
        for module in model.sleepy().values():
            module.took = []
        began = time.perf_counter()
        for _ in range(micro):
            passes(loss(model(torch.randn(3, 4))))
        whole = (time.perf_counter() - began) * 1000
        optimizer.step()
        optimizer.zero_grad()
        book.append(dict({name: module.took for name, module in model.sleepy().items()},
                         whole=whole))
    return book


def twice(loss):
    loss.backward(retain_graph=True)
    loss.backward()


def penalty():
    """The gradient of a gradient."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        x = torch.randn(3, 4, requires_grad=True)
        y = model(x).sum()
        grad, = torch.autograd.grad(y, x, create_graph=True)
        (y + grad.square().sum()).backward()
        time.sleep(0.02)  # else telling modules apart is dear beside the step, and rare
        optimizer.step()
        optimizer.zero_grad()
    return []


def spread(module, x):
    """Forward in a thread of its own, which counts its operations by itself."""
    out = []
    thread = threading.Thread(target=lambda: out.append(module(x)))
    thread.start()
    thread.join()
    return out[0]


def two_at_once():
    """Two loops in two threads, whose passes begin together."""
    barrier = threading.Barrier(2)

    def together(loss):
        barrier.wait()
        loss.backward()
    threads = [threading.Thread(target=train, kwargs={"passes": together}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return []


def failing():
    """A backward that raises, and a loop that goes on."""
    model, seen = Net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(STEPS):
        model.first.seconds = -1.0 if number % 3 == 2 else 0.0
        try:
            model(torch.randn(3, 4)).sum().backward()
        except ValueError as error:
            seen.append(str(error))
        optimizer.step()
    return seen


class Greedy(nn.Module):
    """Wants more than there is, now and then."""

    def __init__(self):
        super().__init__()
        self.big, self.small = nn.Linear(1000, 1000), nn.Linear(1000, 10)
        self.inner = nn.Sequential(nn.Identity(), nn.Linear(10, 10))
        self.wants = 0
        self.inner[0].forward = self.ask

    def ask(self, x):
        if self.wants:
            torch.empty(self.wants, dtype=torch.uint8)
        return x

    def forward(self, x):
        return self.inner(self.small(self.big(x)))


class Hungry(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        torch.empty(3 << 50, dtype=torch.uint8)


def too_much():
    """In forward, in backward, and something else that goes wrong."""
    model, seen = Greedy(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(6):
        model.wants = (5 << 50) if number == 3 else 0
        try:
            y = model(torch.randn(2, 1000))
            (Hungry.apply(y) if number == 4 else y).sum().backward()
            if number == 2:
                model(torch.randn(2, 7))
        except RuntimeError as error:
            frames, at = [], error.__traceback__
            while at:
                frames.append(at.tb_frame.f_code.co_name)
                at = at.tb_next
            seen.append([number, str(error), frames[-1], error.__context__ is None])
        optimizer.step()
    return seen


def leaking():
    """Keeps the graph of every step."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.Linear(512, 4))
    optimizer, kept = torch.optim.SGD(model.parameters(), lr=0.01), []
    for _ in range(100):
        loss = model(torch.randn(64, 256)).square().mean()
        loss.backward(retain_graph=True)
        kept.append(loss)
        optimizer.step()
        optimizer.zero_grad()
    return []


def digest():
    """Training whose result depends on every bit."""
    torch.manual_seed(20)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Dropout(0.1),
                          nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(100):
        x, y = torch.randn(64, 32), torch.randint(0, 10, (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    total = hashlib.sha256()
    for parameter in model.parameters():
        total.update(parameter.detach().numpy().tobytes())
    return total.hexdigest()


def compiled():
    """How many graphs there are after the same work."""
    torch._dynamo.reset()
    graphs = []

    def backend(module, _inputs):
        graphs.append(len(list(module.graph.nodes)))
        return module.forward
    model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in (4, 4, 6, 4, 4, 4):
        model(torch.randn(size, 4)).sum().backward()
        optimizer.step()
    return graphs


JOBS = {
    "plain": train,
    "checkpoint": lambda: train(lambda m, x: checkpoint(m, x, use_reentrant=False)),
    "older checkpoint": lambda: train(lambda m, x: checkpoint(m, x, use_reentrant=True)),
    "twice": lambda: train(passes=twice),
    "accumulate": lambda: train(micro=3),
    "penalty": penalty,
    "spread": lambda: train(spread),
    "two at once": two_at_once,
    "failing": failing,
    "too much": too_much,
    "leaking": leaking,
    "digest": digest,
    "compiled": compiled,
}


def main():
    global job
    os.write(1, ("ready %d\n" % os.getpid()).encode())
    while True:
        if job:
            books[job] = JOBS[job]()
            job = None
        time.sleep(0.005)


torch.set_num_threads(1)
engine = torch.autograd.Variable._execution_engine
bare = {"digest": digest()}
if __name__ == "__main__":
    main()
