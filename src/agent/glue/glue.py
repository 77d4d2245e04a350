# The agent's Python part, behind streams.py. Runs once, in a dictionary of its own that holds
# emit(job, fd, bytes), tid_of(ident), tools and the functions of streams.c beforehand; the agent
# then calls begin, run, complete, end, forget, let_go and reset.
# Valid from 3.6 on. What is imported here is imported into the host, so there is little of it.
import _ast
import _thread
import sys

FILE = "<eval>"
MAIN, FRAME, REPL, OWN = 1, 2, 4, 8
OK, EXCEPTION, REFUSED, INTERRUPTED, MORE = 0, 1, 2, 5, 6
ONLY_AST = 0x400
last = {}      # client -> value of `_`


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
        view(1).write(repr(value) + "\n")
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
        whole = traceback.TracebackException(type(error), error, trace)
        part = whole
        while part is not None:
            part.stack[:] = [frame for frame in part.stack if frame.filename != "<probing>"]
            part = part.__cause__ or part.__context__
        return "".join(whole.format())
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
