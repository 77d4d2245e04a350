# What names mean in evaluated code: those of a frame, and modules that nobody has imported there.
# The second part of the script that begins with streams.py.
import _ast
import time

SKIPPED = ("__main__", "this", "antigravity")  # those do things when they are imported
IMPORT_WAIT = 2.0
# Fields that hold a word which is not a name of the code's own.
WORDS = ((_ast.Attribute, "attr"), (_ast.keyword, "arg"), (_ast.ImportFrom, "module"),
         (_ast.alias, "name"))


class Refusal(Exception):
    pass


def nodes_of(tree):
    """Every node with its fields: (node, [(field, value)])."""
    left = [tree]
    while left:
        node = left.pop()
        fields = [(name, getattr(node, name, None)) for name in node._fields]
        yield node, fields
        for _, value in fields:
            left.extend(one for one in (value if isinstance(value, list) else [value])
                        if isinstance(one, _ast.AST))


def is_loaded(node):
    return isinstance(node, _ast.Name) and isinstance(node.ctx, _ast.Load)


def bound_names(tree):
    """Names that the code itself gives a meaning, somewhere."""
    found = set()
    for node, fields in nodes_of(tree):
        if isinstance(node, _ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        if is_loaded(node) or type(node).__name__ in ("Constant", "Str"):
            continue
        for name, value in fields:
            if not any(isinstance(node, kind) and name == word for kind, word in WORDS):
                found.update(one for one in (value if isinstance(value, list) else [value])
                             if isinstance(one, str))
    return found


def is_module(name):
    """Loaded already, or of the standard library."""
    if name in SKIPPED:
        return False
    if isinstance(sys.modules.get(name), ModuleType):
        return True
    known = getattr(sys, "stdlib_module_names", None)  # from 3.10 on
    if known is not None or name in sys.builtin_module_names:
        return known is None or name in known
    from importlib.machinery import PathFinder
    place = sys.modules["os"].__file__.rpartition("/")[0]
    return PathFinder.find_spec(name, [place, place + "/lib-dynload"]) is not None


def import_of(node):
    """__import__('name') in place of a name."""
    if sys.version_info >= (3, 8):
        text = _ast.Constant(node.id, None)
    else:
        text = _ast.Str(node.id)
    function = _ast.Name("__import__", _ast.Load())
    call = _ast.Call(function, [text], [])
    for made in (text, function, call):
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            if hasattr(node, name):
                setattr(made, name, getattr(node, name))
    return call


def import_on_demand(tree, names):
    """A name that means nothing here but is a module's stands for it, in this code alone."""
    builtin = sys.modules["builtins"].__dict__
    used = {node.id for node, _ in nodes_of(tree) if is_loaded(node)}
    used = {name for name in used if name not in names and name not in builtin}
    if used:
        used -= bound_names(tree)
    used = {name for name in used if is_module(name)}
    if not used:
        return
    for node, fields in list(nodes_of(tree)):
        for name, value in fields:
            if isinstance(value, list):
                value[:] = [import_of(one) if is_loaded(one) and one.id in used else one
                            for one in value]
            elif is_loaded(value) and value.id in used:
                setattr(node, name, import_of(value))


def is_importing(module):
    names = module.__dict__ if isinstance(module, ModuleType) else {}
    return getattr(names.get("__spec__"), "_initializing", False)


def conflicts(tree):
    """Packages that are being imported and that the code would import from, too. One of two
    threads that wait for each other's modules gets an exception: it could be the program's."""
    wanted = set()
    for node, _ in nodes_of(tree):
        if isinstance(node, _ast.Import):
            wanted.update(one.name for one in node.names)
        elif isinstance(node, _ast.ImportFrom) and node.module and not node.level:
            wanted.add(node.module)
    wanted = {name.partition(".")[0] for name in wanted
              if name not in sys.modules or is_importing(sys.modules[name])}
    busy = {name.partition(".")[0] for name, module in list(sys.modules.items())
            if is_importing(module)} if wanted else set()
    return sorted(wanted & busy)


def await_imports(tree):
    end = time.monotonic() + (0 if ident() == main_ident() else IMPORT_WAIT)
    while conflicts(tree):
        if time.monotonic() >= end:
            raise Refusal("the program is importing %s just now; try again when it has"
                          % ", ".join(conflicts(tree)))
        time.sleep(0.01)


def has_name(frame, name):
    code = frame.f_code
    own = getattr(code, "co_qualname", None)  # from 3.11 on
    if own is None:
        name = name.rpartition(".")[2]
    return name in (own, code.co_name)


def frame_in(frame, depth, name):
    """The frame itself or one that called it; None: there is no such frame."""
    while frame is not None and (not has_name(frame, name) if name else depth):
        frame, depth = frame.f_back, depth - 1
    return frame


def by_name(frames, name):
    """[(thread, frame)] of the threads that have such a frame; of the main one, if it has."""
    main = main_ident()
    found = [(one, frame_in(frame, 0, name)) for one, frame in frames.items() if one not in jobs]
    found = [(one, frame) for one, frame in found if frame is not None]
    return [pair for pair in found if pair[0] == main] or found


def may_read_frames():
    return not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled()


def find_frame(depth, name, tid):
    if not may_read_frames():
        raise Refusal("without a GIL nobody but its own thread may read a frame; "
                      "backtrace -l shows variables")
    frames = sys._current_frames()
    if tid:
        frames = {one: frame for one, frame in frames.items() if tid_of(one) == tid}
        if not frames:
            raise Refusal("no Python thread %d" % tid)
    if name:
        found = by_name(frames, name)
        if len(found) > 1:
            raise Refusal("%s runs in threads %s: say which with --tid" % (
                name, ", ".join(str(tid_of(one)) for one, _ in sorted(found)[:8])))
        if not found:
            raise Refusal("no function %s is running%s" % (name, " there" if tid else ""))
        return found[0][1]
    frame = frames.get(main_ident()) if not tid else next(iter(frames.values()))
    if frame is None:
        raise Refusal("the main thread has no frames")
    frame = frame_in(frame, depth, "")
    if frame is None:
        raise Refusal("frame %d does not exist" % depth)
    return frame


def is_own(code):
    """Is it the program's code, not of a library or of Python itself?"""
    return not any(part in code.co_filename
                   for part in ("/site-packages/", "/dist-packages/", "/lib/python3"))


def whose_variable(error):
    """A line about a name that means nothing in __main__ but is a variable of a function that the
    main thread is in, the program's own before those of libraries; "" where there is none."""
    frame = sys._current_frames().get(main_ident()) if may_read_frames() else None
    name, found = (str(error).split("'") + [""])[1], []
    while frame is not None:
        code = frame.f_code
        if name in code.co_varnames + code.co_cellvars and code.co_filename[:1] != "<":
            found.append(code)
        frame = frame.f_back
    for code in [one for one in found if is_own(one)] or found:
        own = getattr(code, "co_qualname", code.co_name)  # from 3.11 on
        return "%s is a variable of %s: --frame %s\n" % (
            name, own, code.co_name if "<" in own else own)
    return ""


def names_in(frame, own):
    """The names that the code in a frame sees: its variables over its module's; over both what
    was assigned at the prompt."""
    if frame.f_locals is frame.f_globals:
        return frame.f_globals
    names = dict(frame.f_globals)
    names.update(frame.f_locals)
    names.update(own)
    return names


