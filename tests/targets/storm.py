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
            print("lost", end="")  # buffered, and never written
            os._exit(5 if good else 6)
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
    time.sleep(0.3)  # the evaluation that ended us is over
    check(builtins.print is own_print and type(sys) is types.ModuleType, "left behind")


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


if __name__ == "__main__":
    if sys.argv[1] == "torch":
        import torch
    print("ready", os.getpid())
    sys.stdout.flush()
    {"many": many, "alone": alone, "torch": torch_steps}[sys.argv[1]]()
    sys.stdout.flush()
    sys.exit(7)
