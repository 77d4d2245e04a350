# Uncaught exceptions, for crash reports. Runs once, in a dictionary of its own that holds
# send(bytes), excepthook and thread_hook beforehand; the agent calls enter, enter_threads, leave
# and at_end, and the hooks call exception and thread_exception. Valid from 3.6 on. Nothing of the
# program is called: values of types that are not known here are shown by type and address.
# threading is not imported here: up to 3.12 the thread that does so first is taken for the main
# thread, and this one is the agent's.
import sys

FRAMES, NAMES, ITEMS, TEXT = 100, 40, 3, 80
before = thread_before = None
told = None  # id of the exception that was sent last


def enter():
    global before
    if sys.excepthook is not excepthook:
        before, sys.excepthook = sys.excepthook, excepthook


def enter_threads():
    global thread_before
    threading = sys.modules["threading"]
    hook = getattr(threading, "excepthook", None)  # from 3.8 on
    if hook is not None and hook is not thread_hook:
        thread_before, threading.excepthook = hook, thread_hook


def leave():
    """What was put in place later stays, and may still call ours, which passes on."""
    if sys.excepthook is excepthook:
        sys.excepthook = before
    threading = sys.modules.get("threading")
    if getattr(threading, "excepthook", None) is thread_hook:
        threading.excepthook = thread_before


def exception(kind, value, trace):
    global told
    if value is None or issubclass(kind, (SystemExit, KeyboardInterrupt)) or told == id(value):
        return
    told = id(value)
    send(describe(kind, value, trace).encode("utf-8", "replace"))


def thread_exception(args):
    exception(args.exc_type, args.exc_value, args.exc_traceback)


def at_end():
    value = getattr(sys, "last_value", None)
    if value is not None and getattr(sys, "last_traceback", None) is not None:
        exception(type(value), value, sys.last_traceback)


def describe(kind, value, trace):
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    left_out = max(0, len(frames) - FRAMES)
    if left_out:
        frames = frames[:FRAMES // 2] + frames[-(FRAMES // 2):]
    try:
        message = str(value)
    except Exception:
        message = "<no text>"
    return '{"type":%s,"module":%s,"message":%s,"left_out":%d,"frames":[%s]}' % (
        quote(kind.__name__), quote(str(kind.__module__)), quote(message[:2000]), left_out,
        ",".join(frame_text(*frame) for frame in reversed(frames)))


def frame_text(frame, line):
    code = frame.f_code
    names = []
    try:
        top = frame.f_locals is frame.f_globals
        for name, value in list(frame.f_locals.items())[:400]:
            if len(names) < NAMES and isinstance(name, str) and not (top and hidden(name, value)):
                names.append("%s:%s" % (quote(name), quote(show(value))))
    except Exception:
        pass
    return '{"func":%s,"file":%s,"lineno":%d,"locals":{%s}}' % (
        quote(getattr(code, "co_qualname", code.co_name)), quote(code.co_filename), line or 0,
        ",".join(names))


def hidden(name, value):
    """Of a module: what it imports and defines tells nothing."""
    return name.startswith("__") or type(value).__name__ in (
        "module", "function", "type", "builtin_function_or_method")


def show(value, deep=0):
    kind = type(value)
    if kind is int:
        return repr(value) if value.bit_length() < 256 else "<int of %d bits>" % value.bit_length()
    if kind in (float, bool, complex, type(None)):
        return repr(value)
    if kind in (str, bytes):
        return repr(value[:TEXT]) + ("…" if len(value) > TEXT else "")
    if kind in (list, tuple, set, frozenset, dict) and deep < 2:
        return several(kind, value, deep)
    shape = dtype = None
    if (kind.__module__ or "").partition(".")[0] in ("torch", "numpy"):
        try:
            shape, dtype = tuple(value.shape), value.dtype
        except Exception:
            pass
    if shape is not None:
        return "<%s %s %s>" % (kind.__name__, shape, dtype)
    return "<%s.%s at 0x%x>" % (kind.__module__, kind.__qualname__, id(value))


def several(kind, value, deep):
    if kind is dict:
        parts = ["%s: %s" % (show(k, deep + 1), show(value[k], deep + 1))
                 for k in list(value)[:ITEMS]]
        ends = "{}"
    else:
        parts = [show(one, deep + 1) for one in list(value)[:ITEMS]]
        ends = {list: "[]", tuple: "()"}.get(kind, "{}")
    if len(value) > ITEMS:
        parts.append("… %d more" % (len(value) - ITEMS))
    elif kind is tuple and len(value) == 1:
        parts.append("")
    return ends[0] + ", ".join(parts) + ends[1]


def quote(text):
    out = ['"']
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c < " " or "\ud800" <= c <= "\udfff":
            out.append("\\u%04x" % ord(c) if c < " " else "?")
        else:
            out.append(c)
    return "".join(out) + '"'
