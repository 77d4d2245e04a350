# What evaluated code prints goes to the tool. The first part of one script with glue.py, which
# says what is in its dictionary beforehand.
#
# Nothing here takes the place of an object that a thread of the program may be using: what is put
# in front of something is made once, is kept for ever, and passes on whatever is not ours.
import _thread
import sys

PIECE = 8192
NAMES = ("stdin", "stdout", "stderr")
ModuleType = type(_thread)
BuiltinType = type(_thread.get_ident)

ident = _thread.get_ident
lock = _thread.allocate_lock()
jobs = {}       # evaluating thread -> Job
kept = []       # what the program may hold on to
fronts = {}     # (name, id of what is behind) -> what is in front of it
passing = set() # threads that a stand-in passes on for
FRONTS_MAX = 64


class Job(object):
    """One evaluation: its number and what it printed but did not send yet."""

    def __init__(self, number):
        self.number = number
        self.held = {1: [], 2: []}
        self.size = 0

    def write(self, fd, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        self.held[fd].append(text)
        self.size += len(text)
        if "\n" in text or "\r" in text or self.size > PIECE:
            self.flush(fd)
        return len(text)

    def flush(self, fd):
        text, self.held[fd], self.size = "".join(self.held[fd]), [], 0
        if text:
            emit(self.number, fd, text.encode("utf-8", "backslashreplace"))


class Raw(object):
    """sys.stdout.buffer of evaluated code."""

    def __init__(self, job, fd):
        self.job, self.fd = job, fd

    def write(self, data):
        data = bytes(data)
        self.job.flush(self.fd)
        emit(self.job.number, self.fd, data)
        return len(data)

    def flush(self):
        pass


class Stream(object):
    """A stream of sys as evaluated code sees it. Code may keep it, or hand it to another thread:
    for one that evaluates nothing it is the program's stream."""

    def __init__(self, fd):
        self.__dict__.update(fd=fd, was=None)

    @property
    def real(self):
        """The program's own; the one before, once evaluated code has replaced that."""
        name = NAMES[self.fd]
        found = self.was if self.was is not None else sys.__dict__.get(name)
        if found is self or (ident(), self.fd) in passing:
            return sys.__dict__.get("__%s__" % name)
        return found

    def pass_on(self, name, *args):
        """The program's stream may write to this one in turn, if code has put it there."""
        real, key = self.real, (ident(), self.fd)
        if real is None:
            return None
        first = key not in passing
        passing.add(key)
        try:
            return getattr(real, name)(*args)
        finally:
            if first:
                passing.discard(key)

    def __getattr__(self, name):
        return getattr(self.real, name)

    def __setattr__(self, name, value):
        setattr(self.real, name, value)

    def __iter__(self):
        return iter(()) if ident() in jobs else iter(self.real)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write(self, text):
        job = jobs.get(ident())
        if job is not None:
            return job.write(self.fd, text)
        done = self.pass_on("write", text)
        return len(text) if done is None else done

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        job = jobs.get(ident())
        if job is not None:
            job.flush(self.fd or 1)
        else:
            self.pass_on("flush")

    def isatty(self):
        return False if ident() in jobs else self.real.isatty()

    def fileno(self):
        if ident() in jobs:
            raise OSError("not a file: the output of an evaluation")
        return self.real.fileno()

    @property
    def buffer(self):
        job = jobs.get(ident())
        return self.real.buffer if job is None else Raw(job, self.fd)

    @property
    def encoding(self):
        return "utf-8" if ident() in jobs else self.real.encoding

    # Reading: evaluated code has no input, and must not take the host's.
    def read(self, *args):
        return "" if ident() in jobs else self.real.read(*args)

    def readline(self, *args):
        return "" if ident() in jobs else self.real.readline(*args)


class Likeness(type):
    """Whoever asks for the class of sys just now gets one that does for ModuleType."""

    def __eq__(cls, other):
        return other is cls or cls is Sys and other is ModuleType

    def __hash__(cls):
        return hash(ModuleType) if cls is Sys else type.__hash__(cls)

    def __instancecheck__(cls, value):
        return isinstance(value, ModuleType) if cls is Sys else type.__instancecheck__(cls, value)

    def __subclasscheck__(cls, other):
        return issubclass(other, ModuleType) if cls is Sys else type.__subclasscheck__(cls, other)


def make_module(cls, *args, **named):
    if cls is Sys:
        return ModuleType(*args, **named)
    return ModuleType.__new__(cls, *args, **named)


def class_of_sys():
    parts = {"__module__": "builtins", "__doc__": ModuleType.__doc__, "__slots__": (),
             "__new__": make_module}
    for fd, name in enumerate(NAMES):
        parts[name] = property(bind("get", fd), bind("set", fd), bind("delete", fd))
    if sys.version_info >= (3, 14):
        parts["__getattribute__"] = method(bind("__getattribute__", ModuleType.__getattribute__))
    return Likeness("module", (ModuleType,), parts)


def print_here(*args, **named):
    """print() of evaluated code where the program has a print() of its own."""
    sep, end, file = named.get("sep"), named.get("end"), named["file"]
    file.write((" " if sep is None else sep).join(map(str, args)) + ("\n" if end is None else end))
    if named.get("flush"):
        file.flush()


def input_here(prompt=""):
    view(1).write(str(prompt))
    view(1).flush()
    line = view(0).readline()
    if not line:
        raise EOFError("EOF when reading a line")
    return line[:-1] if line.endswith("\n") else line


def front_of(name, real):
    """The function that stands in front of this print or input; None: there are too many."""
    front = fronts.get((name, id(real)))
    if front is None and len(fronts) < FRONTS_MAX:
        holder = ModuleType("builtins")
        plain = name == "print" and type(real) is BuiltinType
        holder.real, holder.ours = real, real if plain else HERE[name]
        front = fronts[name, id(real)] = bind(name, holder)
    return front


def put_in_front():
    if type(sys) is ModuleType:
        sys.__class__ = Sys
    names = sys.modules["builtins"].__dict__
    for name in HERE:
        real = names.get(name)
        front = None if real is None or is_front(real) else front_of(name, real)
        if front is not None:
            exchange(names, name, real, front)


def take_away():
    """What the program has put there meanwhile stays."""
    if type(sys) is Sys:
        sys.__class__ = ModuleType
    names = sys.modules["builtins"].__dict__
    for name in HERE:
        front = names.get(name)
        if is_front(front):
            exchange(names, name, front, front.__self__.real)


def is_front(function):
    return any(function is front for front in list(fronts.values()))


def keep(left):
    """What the code itself put in place of a stream stays; what it may have put around the
    stand-in goes on to the stream that was there."""
    for fd, name in enumerate(NAMES):
        if name in left:
            kept[fd].__dict__["was"] = sys.__dict__.get(name)
            kept.append(kept[fd])
            kept[fd] = Stream(fd)
            stand_in(fd, kept[fd])
            setattr(sys, name, left[name])


def begin(number):
    insist(lambda: enter(number))
    if ident() not in jobs:
        raise RuntimeError("too many threads evaluate")


def enter(number):
    with lock:
        if claim():
            jobs[ident()] = Job(number)
            put_in_front()


def end(finished):
    """Code that was interrupted had no chance to put back what it had put in place of a stream."""
    insist(flush_all)
    insist(lambda: leave(finished))
    forget_thread()


def flush_all():
    for fd in (1, 2):
        jobs[ident()].flush(fd)


def leave(finished):
    with lock:
        jobs.pop(ident(), None)
        left = release()
        if not jobs:
            take_away()
        if finished:
            keep(left)


def reset():
    """In a forked child: the threads that evaluated are not here."""
    global lock
    lock = _thread.allocate_lock()
    own = jobs.get(ident())
    jobs.clear()
    passing.clear()
    if own is None:
        take_away()
    else:
        jobs[ident()] = own


HERE = {"print": print_here, "input": input_here}
Sys = class_of_sys()
for fd in range(3):
    kept.append(Stream(fd))
    stand_in(fd, kept[fd])
