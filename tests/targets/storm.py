"""Programs that use their output in all the ways that programs do, and check it themselves.

Standard output and error carry numbered lines and nothing else; whatever the program sees changed
in its own process ends it with a reason. `finish = True` ends it with status 7.
"""
import builtins
import contextlib
import io
import logging
import os
import sys
import threading
import time
import types

finish = False
REAL, PRINT = sys.stdout, print


def check(good, *what):
    if not good:
        sys.__stderr__.write("WRONG %r\n" % (what,))
        os._exit(9)


def lines(write):
    """Numbered lines; a little sleep now and then, or nobody could read along."""
    number = 0
    while not finish:
        number += 1
        write(number)
        if number % 100 == 0:
            time.sleep(0.002)
    return number


def log_lines():
    """A handler keeps the stream that it found, for a while."""
    log = logging.getLogger("storm")
    log.propagate = False
    log.setLevel(logging.INFO)

    def write(number):
        if number % 50 == 1:
            log.handlers[:] = [logging.StreamHandler()]
        log.info("log %d", number)

    lines(write)


def thread_lines():
    """Short threads, each of which prints into its own place."""
    while not finish:
        places = [io.StringIO() for _ in range(3)]
        threads = [threading.Thread(target=print, args=(1, 2), kwargs={"file": place})
                   for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check([place.getvalue() for place in places] == ["1 2\n"] * 3, "threads")
        time.sleep(0.005)


def fork_children():
    """A child sees the streams of its parent, and ends as it says."""
    while not finish:
        pid = os.fork()
        if pid == 0:
            good = sys.__dict__["stdout"] is REAL and isinstance(sys, types.ModuleType)
            # Not to the real one: a child that fills its buffer writes its parent's lines, too.
            with contextlib.redirect_stdout(io.StringIO()) as place:
                print("kept", end="")
            os._exit(5 if good and place.getvalue() == "kept" else 6)
        check(os.waitpid(pid, 0)[1] == 5 << 8, "child")
        time.sleep(0.02)


def run_asyncio():
    import asyncio

    @types.coroutine
    def turn():
        yield

    async def count(to):
        for number in range(to):
            print(end="")
            await turn()
        return to

    while not finish:
        loop = asyncio.new_event_loop()
        check(loop.run_until_complete(count(20)) == 20, "asyncio")
        loop.close()
        time.sleep(0.01)


def own_print(*args, **named):
    """As programs of several ranks have it: some of them say nothing."""
    if named.pop("really", True):
        PRINT(*args, **named)


def as_it_was():
    return builtins.print is own_print and type(sys) is types.ModuleType


def many():
    """Threads that print, log, fork and wait, all at once."""
    builtins.print = own_print
    work = [log_lines, thread_lines, fork_children, run_asyncio]
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    lines(lambda number: print("print", number))
    for thread in threads:
        thread.join()
    end = time.time() + 60
    while time.time() < end and not as_it_was():  # the evaluation that ended us goes on
        time.sleep(0.01)
    check(as_it_was(), "left behind")


class Tee(object):
    """As progress bars put in place of a stream."""

    def __init__(self, behind):
        self.behind, self.seen = behind, 0

    def write(self, text):
        self.seen += len(text)
        return self.behind.write(text)

    def flush(self):
        self.behind.flush()


def rebind(number):
    """Takes a stream, puts another there, prints, and finds its own again."""
    kind = number % 3
    before = sys.stdout
    check(before is REAL and type(before) is type(REAL), "not the program's stream", before)
    if kind == 0:
        print("rebind", number)
    elif kind == 1:
        place = io.StringIO()
        with contextlib.redirect_stdout(place):
            print("kept", number)
            time.sleep(0)
            print("kept", number)
        check(place.getvalue() == "kept %d\n" % number * 2, "redirected", place.getvalue())
        print("rebind", number)
    else:
        sys.stdout = tee = Tee(before)
        print("rebind", number)
        check(sys.stdout is tee and tee.seen == len("rebind %d\n" % number), "tee", tee.seen)
        sys.stdout = before
    check(sys.stdout is before, "stream changed")


def alone():
    """One thread that rebinds its streams all the time."""
    lines(rebind)


class Bar(object):
    """As tqdm does it: keeps the stream that it found, writes under a lock, aside for print."""
    lock = threading.RLock()

    def __init__(self):
        self.stream = sys.stderr

    def show(self, number):
        with self.lock:
            self.stream.write("log %d\n" % number)
            self.stream.flush()

    def aside(self, *what):
        with self.lock:
            self.stream.flush()
            print(*what)


class Proxy(object):
    """As Rich puts in place of a stream while something is shown live."""

    def __init__(self, behind):
        self.behind, self.text = behind, []

    def __getattr__(self, name):
        return getattr(self.behind, name)

    def write(self, text):
        self.text.append(text)
        return len(text)

    def flush(self):
        text, self.text[:] = "".join(self.text), []
        self.behind.write(text)
        self.behind.flush()


class Live(object):
    """Both streams replaced for a while, and a thread that writes what they hold."""

    def __enter__(self):
        self.before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self.mine = Proxy(sys.stdout), Proxy(sys.stderr)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.refresh)
        self.thread.start()
        return self

    def refresh(self):
        while not self.over.wait(0.003):
            with Bar.lock:
                self.mine[0].flush()

    def __exit__(self, *what):
        check((sys.stdout, sys.stderr) == self.mine, "live", sys.stdout, sys.stderr)
        self.over.set()
        self.thread.join()
        for proxy in self.mine:
            proxy.flush()
        sys.stdout, sys.stderr = self.before


def bars():
    """Progress bars, live displays, and prints between them."""
    bar = Bar()

    def write(number):
        bar.show(number)
        if number % 20 == 7:
            with Live():
                for part in range(3):
                    with Bar.lock:
                        print("print", 4 * (number // 20) + part + 1)
                    time.sleep(0.001)
            bar.aside("print", 4 * (number // 20) + 4)
            check(sys.stdout is REAL, "stream changed")
        if number % 50 == 0:
            bar.stream = sys.stderr

    lines(write)


def shown():
    """The real tqdm and Rich: a bar, a live display in place of both streams, a log handler."""
    from rich.console import Console
    from rich.logging import RichHandler
    from rich.progress import Progress
    from tqdm import tqdm
    console = Console(file=open(os.devnull, "w"), force_terminal=True)
    log = logging.getLogger("storm")
    log.propagate, log.handlers = False, [RichHandler(console=console)]

    def write(number):
        with Progress(console=console) as progress:
            task = progress.add_task("steps", total=3)
            for _ in tqdm(range(3), file=console.file):
                print("in the display")
                log.warning("beside it")
                progress.advance(task)
        check(sys.stdout is REAL, "stream changed", sys.stdout)
        tqdm.write("print %d" % number, file=sys.stdout)

    lines(write)


def torch_steps():
    """Training that prints each step."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        print("step", number)

    lines(step)


def load_agent(path):
    """An agent of another build, under the name by which it knows a module of its own."""
    from importlib import machinery, util

    global agent
    loader = machinery.ExtensionFileLoader("libprobing", path)
    agent = util.module_from_spec(util.spec_from_loader("libprobing", loader))
    loader.exec_module(agent)
    agent.start("")


if __name__ == "__main__":
    if sys.argv[1] == "torch":
        import torch
    if "STORM_AGENT" in os.environ:
        load_agent(os.environ["STORM_AGENT"])
    print("ready", os.getpid())
    sys.stdout.flush()
    {"many": many, "alone": alone, "bars": bars, "shown": shown,
     "torch": torch_steps}[sys.argv[1]]()
    sys.stdout.flush()
    sys.exit(7)
