# The agent's Python part, behind streams.py, strays.py and names.py. Runs once, in a dictionary of
# its own that holds emit(job, fd, bytes), tid_of(ident), was_thrown(job), tools and the functions
# of streams.c beforehand; the agent then calls begin, run, complete, end, raise_stray, hand_back,
# forget, release_host and reset.
# Valid from 3.6 on. What is imported here is imported into the host, so there is little of it.
FILE = "<eval>"
MAIN, FRAME, REPL, OWN = 1, 2, 4, 8
OK, EXCEPTION, REFUSED, INTERRUPTED, MORE = 0, 1, 2, 5, 6
ONLY_AST = 0x400
last = {}      # client -> value of `_`
held = {}      # client -> (frame that its prompt looks at, what was assigned there)


def forget(client):
    last.pop(client, None)
    held.pop(client, None)


def release_host():
    """The agent stops: nothing of the host is kept."""
    last.clear()
    held.clear()


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
    """The local names of a prompt: those of the module, and `_`. What is assigned goes to the
    module, or stays with the prompt where that looks at a frame."""

    def __init__(self, names, client, own):
        dict.__init__(self)
        self.names, self.client, self.own = names, client, own

    def __missing__(self, name):
        return last[self.client] if name == "_" and name not in self.names else self.names[name]

    def __setitem__(self, name, value):
        self.names[name] = self.own[name] = value

    def __delitem__(self, name):
        del self.names[name]
        self.own.pop(name, None)

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


def run(code, flags, depth, tid, client, name):
    job = jobs[ident()]
    try:
        return evaluate(code, flags, depth, tid, client, name)
    except BaseException as error:
        if is_of_program(error, job, code):
            strays.append(error)
            return REFUSED, "a signal came meanwhile; %s goes to the program" % type(error).__name__
        return outcome_of(error, job, flags)


def outcome_of(error, job, flags):
    """What the tool is told of code that has raised."""
    if isinstance(error, Refusal):
        return REFUSED, str(error)
    if isinstance(error, SystemExit):
        if error.code is None or error.code == 0:
            return (EXCEPTION if flags & REPL else OK), "SystemExit"
        if not isinstance(error.code, int):
            job.write(2, "%s\n" % (error.code,))
        return EXCEPTION, "SystemExit"
    job.flush(1)
    job.write(2, describe(error))
    if type(error) is NameError and not flags & (FRAME | OWN):
        job.write(2, whose_variable(error))
    return (INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXCEPTION), ""


def names_for(flags, depth, tid, client, name):
    """The names that the code sees, and what the prompt keeps for itself."""
    if flags & OWN:
        return dict(tools, __name__="probing", __builtins__=sys.modules["builtins"]), {}
    if not flags & FRAME:
        return sys.modules["__main__"].__dict__, {}
    if not flags & REPL:
        return names_in(find_frame(depth, name, tid), {}), {}
    if client not in held:
        held[client] = find_frame(depth, name, tid), {}
    frame, own = held[client]
    return names_in(frame, own), own


def evaluate(code, flags, depth, tid, client, name):
    names, own = names_for(flags, depth, tid, client, name)
    local = names
    if flags & REPL:
        import codeop
        if codeop.compile_command(code, FILE, "single") is None:
            return MORE, ""
        local = Prompt(names, client, own)
    else:
        code = dedent(code)

    def show(value):
        view(1).write(repr(value) + "\n")
        if flags & REPL:
            last[client] = value

    tree = compile(code, FILE, "exec", ONLY_AST, True)
    await_imports(tree)
    import_on_demand(tree, local)
    execute(tree, names, local, show)
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


def complete(text, flags, depth, tid, client, name):
    """Names that the last word of text may become, one a line."""
    names = names_in(*held[client]) if client in held else sys.modules["__main__"].__dict__
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] in "._"):
        start -= 1
    word = text[start:]
    path, dot, stem = word.rpartition(".")
    try:
        found = attributes(names, path, stem) if dot else names_like(names, stem)
    except Exception:
        found = []
    job = jobs[ident()]
    job.write(1, "".join(path + dot + name + "\n" for name in sorted(set(found))[:500]))
    return OK, ""


def attributes(names, path, stem):
    parts = path.split(".")
    if parts[0] in names:
        value = names[parts[0]]
    else:
        value = sys.modules["builtins"].__dict__.get(parts[0], sys.modules.get(parts[0]))
    for part in parts[1:]:
        value = getattr(value, part)
    return [name for name in dir(value)
            if name.startswith(stem) and (stem or not name.startswith("_"))]


def names_like(names, stem):
    import keyword
    every = set(keyword.kwlist)
    every.update(sys.modules["builtins"].__dict__)
    every.update(names)
    return [name for name in every
            if isinstance(name, str) and name.startswith(stem)
            and (stem or not name.startswith("_"))]


import_threading()
