"""
Kinds of training loops, each with its own book of what it did: `job = "plain"` makes the main
thread run that one and put its book into `books`. Nothing in here knows of the tool.
"""
import ctypes
import hashlib
import os
import sys
import time
import weakref

# The other targets have names of their own, which torch would import in place of Python's.
sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch.distributed.fsdp  # noqa: E402, F401: its clip_grad_norm_ is watched, too
from torch import distributed, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

CALL_SLOT = 128  # of a type, in every version so far
VECTORCALL = 48  # of a function of C
job, books = None, {}


class Pause(nn.Module):
    """Takes time, and says how much."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.took = seconds, []

    def forward(self, x):
        began = time.perf_counter()
        time.sleep(self.seconds)
        self.took.append((time.perf_counter() - began) * 1000)
        return x


class Block(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.act = act

    def forward(self, x):
        return self.act(self.lin(x))


class Net(nn.Module):
    """Nested modules, one of them in two places, and one that is nowhere."""

    def __init__(self, pause=0.002):
        super().__init__()
        act = nn.ReLU()
        self.blocks = nn.ModuleList([Block(act), Block(act)])
        self.pause = Pause(pause)
        self.tail = Block(nn.Tanh())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = nn.Identity()(x)
        return self.head(self.tail(self.pause(x)))


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls % 3 == 0:
            raise ValueError("call %d" % self.calls)
        return self.lin(x)


class Clock:
    """Milliseconds of the parts of a step."""

    def __init__(self):
        self.row, self.last = {}, time.perf_counter()

    def __call__(self, name):
        now = time.perf_counter()
        self.row[name] = self.row.get(name, 0) + (now - self.last) * 1000
        self.last = now


def loader(workers=0, samples=32, batch=4):
    torch.manual_seed(3)
    data = TensorDataset(torch.randn(samples, 8), torch.randint(0, 2, (samples,)))
    return DataLoader(data, batch_size=batch, num_workers=workers)


def plain(workers=0, accumulate=1, clip=None, scaler=None, epochs=3, wrap=None):
    """The usual loop; a row a step."""
    torch.manual_seed(1)
    model = Net()
    run = wrap(model) if wrap else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.5)
    book, clock, micro, batches, total = [], Clock(), 0, loader(workers), 0.0
    for epoch in range(epochs):
        for x, y in batches:
            clock("data")
            loss = F.cross_entropy(run(x), y) / accumulate
            clock("forward")
            (scaler.scale(loss) if scaler else loss).backward()
            clock("backward")
            micro, total = micro + 1, total + loss.item()
            if micro % accumulate:
                continue
            norm = None
            if clip:
                if scaler:
                    scaler.unscale_(optimizer)
                norm = float(clip(model.parameters(), 0.1))
            clock("other")
            scaler.step(optimizer) if scaler else optimizer.step()
            clock("optimizer")
            if scaler:
                scaler.update()
            book.append(dict(clock.row, epoch=epoch, loss=loss.item(), norm=norm, at=time.time(),
                             lr=optimizer.param_groups[0]["lr"], pause=model.pause.took[-1],
                             total=total))
            optimizer.zero_grad()
            schedule.step()
            clock.row, total = {}, 0.0
    return book


def scaled():
    kind = getattr(torch.amp, "GradScaler", None)
    return plain(scaler=kind("cpu", init_scale=1024.0)) if kind else None


def closure():
    """LBFGS computes the loss several times in a step."""
    torch.manual_seed(1)
    model, book = Net(0), []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))

    def again():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        seen.append(loss.item())
        return loss

    for _ in range(6):
        seen = []
        optimizer.step(again)
        book.append({"losses": seen, "lr": 0.1})
    return book


def two():
    """Two optimizers take turns."""
    torch.manual_seed(1)
    nets = [Net(0), Net(0)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1 / (i + 1)) for i, net in enumerate(nets)]
    book = []
    for _ in range(8):
        for net, optimizer in zip(nets, optimizers):
            optimizer.zero_grad()
            loss = net(torch.randn(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            book.append({"loss": loss.item(), "lr": optimizer.param_groups[0]["lr"]})
    return book


def inference():
    model = Net().eval()
    with torch.no_grad():
        for _ in range(12):
            model(torch.randn(2, 8))
    return [{"pause": took} for took in model.pause.took]


def slow():
    model = Net(0.4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model(torch.randn(2, 8)).sum().backward()
        optimizer.step()
    return []


def failing():
    """A forward that raises now and then, and a loop that goes on."""
    model, book = Broken(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        try:
            model(torch.randn(2, 8)).sum().backward()
            optimizer.step()
            book.append("")
        except ValueError as error:
            book.append(str(error))
    return book


def checkpointed():
    from torch.utils.checkpoint import checkpoint
    return plain(wrap=lambda model: lambda x: checkpoint(model, x, use_reentrant=False))


def digest(steps=200, pause=0.0):
    """Training whose result depends on every bit, of weights and of what is drawn by lot."""
    torch.manual_seed(20)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Dropout(0.1),
                      nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(64 * steps // 4, 32), torch.randint(0, 10, (16 * steps,)))
    for _ in range(4):
        for x, y in DataLoader(data, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            total = loss.detach().clone()
            distributed.all_reduce(total)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            time.sleep(pause)
    result = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for parameter in list(model.parameters()) + [total]:
        result.update(parameter.detach().numpy().tobytes())
    return result.hexdigest()


def classes(kind):
    yield kind
    for child in kind.__subclasses__():
        yield from classes(child)


def surroundings():
    """What the tool must leave as it was."""
    from torch.optim import optimizer as optim
    names = {name: getattr(torch.ops.profiler, "_record_function_" + name)
             for name in ("enter", "enter_new", "exit")}
    known = [torch.stack, torch.linalg.vector_norm, torch._C._set_grad_enabled, torch.max,
             torch._amp_foreach_non_finite_check_and_unscale_, torch._C._VariableFunctions.norm,
             torch.clamp]
    inner = [names["exit"]._RecordFunction._op] + [packet._op for packet in names.values()]
    return {
        "slots": {ctypes.c_void_p.from_address(id(kind) + CALL_SLOT).value
                  for kind in classes(nn.Module) if "__call__" not in vars(kind)},
        "engine": id(torch.autograd.Variable._execution_engine),
        "hooks": [len(getattr(optim, name, ())) for name in
                  ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")],
        "functions": [ctypes.c_void_p.from_address(id(one) + VECTORCALL).value
                      for one in known + inner if sys.version_info >= (3, 8)],
        "hashes": [hash(one) for one in known + (inner if sys.version_info >= (3, 9) else [])],
        "weak": weakref.getweakrefcount(keep.head),
    }


JOBS = {
    "plain": plain,
    "workers": lambda: plain(workers=2),
    "accumulate": lambda: plain(accumulate=4, epochs=4),
    "clip": lambda: plain(clip=nn.utils.clip_grad_norm_),
    "scaled": scaled,
    "closure": closure,
    "two": two,
    "inference": inference,
    "failing": failing,
    "slow": slow,
    "checkpointed": checkpointed,
    "digest": digest,
    "slow digest": lambda: digest(pause=0.02),
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
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
keep = Net(0)
engine = torch.autograd.Variable._execution_engine
bare = {"surroundings": surroundings(), "digest": digest()}
if __name__ == "__main__":
    main()
