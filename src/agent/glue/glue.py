# The agent's Python part. Runs once, in a dictionary of its own that holds emit(job, fd, bytes)
# tid_of(ident) and tools beforehand; the agent then calls begin, run, complete, end, forget,
# let_go and reset.
# Valid from 3.6 on. What is imported here is imported into the host, so there is little of it.
import _ast
import _thread
import sys

FILE = "<eval>"
MAIN, FRAME, REPL, OWN = 1, 2, 4, 8
OK, EXCEPTION, REFUSED, INTERRUPTED, MORE = 0, 1, 2, 5, 6
ONLY_AST = 0x400
PIECE = 8192

ident = _thread.get_ident
lock = _thread.allocate_lock()
jobs = {}      # evaluating thread -> Job
last = {}      # client -> value of `_`


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
    """Stands in for a stream of sys while code is evaluated: for the evaluating thread it is
    the tool's, for every other thread it is what it was."""

    def __init__(self, fd, real):
        self.__dict__.update(fd=fd, real=real)

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
        return len(text) if self.real is None else self.real.write(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        job = jobs.get(ident())
        if job is not None:
            job.flush(self.fd or 1)
        elif self.real is not None:
            self.real.flush()

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


NAMES = ("stdin", "stdout", "stderr")


def begin(number):
    with lock:
        jobs[ident()] = Job(number)
        for fd, name in enumerate(NAMES):
            if not isinstance(getattr(sys, name, None), Stream):
                setattr(sys, name, Stream(fd, getattr(sys, name, None)))


def end():
    job = jobs[ident()]
    for fd in (1, 2):
        job.flush(fd)
    with lock:
        del jobs[ident()]
        if not jobs:
            put_back()
    forget_thread()


def put_back():
    """What the code itself put in place of a stream stays."""
    for name in NAMES:
        stream = getattr(sys, name, None)
        if isinstance(stream, Stream):
            setattr(sys, name, stream.real)


def reset():
    """In a forked child: the threads that evaluated are not here."""
    global lock
    lock = _thread.allocate_lock()
    own = jobs.get(ident())
    jobs.clear()
    if own is None:
        put_back()
    else:
        jobs[ident()] = own


def forget(client):
    last.pop(client, None)


def let_go():
    """The agent stops: nothing of the host is kept."""
    last.clear()


def forget_thread():
    """threading makes an entry for a foreign thread that asks who it is, and keeps it."""
    threading = sys.modules.get("threading")
    if threading is None or ident() == main_ident():
        return
    with threading._active_limbo_lock:
        if isinstance(threading._active.get(ident()), threading._DummyThread):
            del threading._active[ident()]


def main_ident():
    threading = sys.modules.get("threading")
    return threading.main_thread().ident if threading else None


def import_threading():
    """Up to 3.12 the thread that imports threading first is taken for the main thread. Ours is
    not: the oldest thread is, which _current_frames() names last."""
    before = "threading" in sys.modules
    import threading
    if before or sys.version_info >= (3, 13):
        return
    main, own = threading._main_thread, ident()
    others = [other for other in sys._current_frames() if other != own]
    if main._ident != own or not others:
        return
    old, new = main._tstate_lock, _thread.allocate_lock()
    new.acquire()
    main._ident = others[-1]
    main._tstate_lock = new
    if hasattr(main, "_native_id"):
        main._native_id = tid_of(main._ident)
    locks = getattr(threading, "_shutdown_locks", None)
    if locks is not None and old in locks:
        locks.discard(old)
        locks.add(new)
    threading._active.pop(own, None)
    threading._active[main._ident] = main


class Prompt(dict):
    """The local names of a prompt: those of the module, and `_`."""

    def __init__(self, names, client):
        dict.__init__(self)
        self.names, self.client = names, client

    def __missing__(self, name):
        return last[self.client] if name == "_" and name not in self.names else self.names[name]

    def __setitem__(self, name, value):
        self.names[name] = value

    def __delitem__(self, name):
        del self.names[name]

    def __contains__(self, name):
        return name in self.names

    def __iter__(self):
        return iter(self.names)

    def keys(self):
        return self.names.keys()

    def items(self):
        return self.names.items()

    def values(self):
        return self.names.values()

    def __len__(self):
        return len(self.names)


class Refusal(Exception):
    pass


def frame_names(depth, tid):
    """The names that the code in a frame sees: its variables over its module's."""
    wanted = main_ident()
    frames = sys._current_frames()
    if tid:
        wanted = next((other for other in frames if tid_of(other) == tid), None)
    frame = frames.get(wanted)
    del frames
    if frame is None:
        raise Refusal("no Python thread %d" % tid if tid else "the main thread has no frames")
    for _ in range(depth):
        frame = frame.f_back
        if frame is None:
            raise Refusal("frame %d does not exist" % depth)
    if frame.f_locals is frame.f_globals:
        return frame.f_globals
    names = dict(frame.f_globals)
    names.update(frame.f_locals)
    return names


def dedent(code):
    """A script that is indented as a whole, as it happens in shell scripts."""
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    margin = first[:len(first) - len(first.lstrip())]
    if not margin or not all(line.startswith(margin) for line in lines if line.strip()):
        return code
    return "\n".join(line[len(margin):] if line.strip() else "" for line in lines)


def is_print_loop(node):
    """[print(x) for x in y]: written for what it prints, not for its list of None."""
    return (isinstance(node, (_ast.ListComp, _ast.SetComp))
            and isinstance(node.elt, _ast.Call) and isinstance(node.elt.func, _ast.Name)
            and node.elt.func.id == "print")


def execute(tree, names, local, show):
    body = tree.body
    tail = None
    if body and isinstance(body[-1], _ast.Expr):
        tail = _ast.Expression(body.pop().value)
    if body:
        exec(compile(tree, FILE, "exec", 0, True), names, local)
    if tail is not None:
        value = eval(compile(tail, FILE, "eval", 0, True), names, local)
        if value is not None and not is_print_loop(tail.body):
            show(value)


def run(code, flags, depth, tid, client):
    job = jobs[ident()]
    try:
        return evaluate(code, flags, depth, tid, client)
    except Refusal as why:
        return REFUSED, str(why)
    except SystemExit as leave:
        if leave.code is None or leave.code == 0:
            return (EXCEPTION if flags & REPL else OK), "SystemExit"
        if not isinstance(leave.code, int):
            job.write(2, "%s\n" % (leave.code,))
        return EXCEPTION, "SystemExit"
    except BaseException as error:
        job.flush(1)
        job.write(2, describe(error))
        return (INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXCEPTION), ""


def evaluate(code, flags, depth, tid, client):
    if flags & OWN:
        names = dict(tools, __name__="probing", __builtins__=sys.modules["builtins"])
    elif flags & FRAME:
        names = frame_names(depth, tid)
    else:
        names = sys.modules["__main__"].__dict__
    local = names
    if flags & REPL:
        import codeop
        if codeop.compile_command(code, FILE, "single") is None:
            return MORE, ""
        local = Prompt(names, client)
    else:
        code = dedent(code)

    def show(value):
        sys.stdout.write(repr(value) + "\n")
        if flags & REPL:
            last[client] = value

    execute(compile(code, FILE, "exec", ONLY_AST, True), names, local, show)
    return OK, ""


def describe(error):
    """The traceback as the prompt shows it, without our own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == "<probing>":
        trace = trace.tb_next
    try:
        import traceback
        return "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        return "%s\n" % type(error).__name__
    finally:
        del trace, error


def complete(text, flags, depth, tid, client):
    """Names that the last word of text may become, one a line."""
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] in "._"):
        start -= 1
    word = text[start:]
    path, dot, stem = word.rpartition(".")
    try:
        found = attributes(path, stem) if dot else globals_like(stem)
    except Exception:
        found = []
    job = jobs[ident()]
    job.write(1, "".join(path + dot + name + "\n" for name in sorted(set(found))[:500]))
    return OK, ""


def attributes(path, stem):
    parts = path.split(".")
    names = sys.modules["__main__"].__dict__
    builtin = sys.modules["builtins"].__dict__
    value = names[parts[0]] if parts[0] in names else builtin[parts[0]]
    for part in parts[1:]:
        value = getattr(value, part)
    return [name for name in dir(value)
            if name.startswith(stem) and (stem or not name.startswith("_"))]


def globals_like(stem):
    import keyword
    names = set(keyword.kwlist)
    names.update(sys.modules["builtins"].__dict__)
    names.update(sys.modules["__main__"].__dict__)
    return [name for name in names
            if isinstance(name, str) and name.startswith(stem)
            and (stem or not name.startswith("_"))]


import_threading()
