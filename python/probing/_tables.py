"""
Tables of the program: probing.table(), span(), event().

What runs for each row is C, in libprobing.so. Without a running agent it does nothing, and an
interpreter for which there is no library gets functions that always do nothing.
"""
import os
import re

from . import _agent

try:
    from . import libprobing as native
except ImportError:
    native = None

# As in src/store/format.h.
TYPES = {"time": 1, "int": 2, "float": 3, "bool": 4, "str": 5, "text": 6}
ROWS = 65536
LONGEST, LONGEST_COLUMN, MOST = 63, 39, 64
WORD = re.compile(r"[a-z_][a-z0-9_]*\Z")
# Put to every row by whoever reads it.
ADDED = {"host", "pid", "rank", "_row"}
OURS = {"python.backtrace", "python.stacks", "python.threads", "python.torch_trace",
        "python.training_logs", "python.comm", "python.memory", "python.spans", "python.events",
        "python.samples", "python.stack_frames", "python.envs"}
OUR_SCHEMAS = {"probing", "system", "gpu", "information_schema", "pg_catalog", "main", "temp"}


def table(name, columns, rows=ROWS, doc=""):
    """
    A table that this program fills: its append() adds a row, by position or by name.

    A name without a schema is one of schema python. Columns are {name: type}, each type one of
    int, float, bool, str, "time" and "text" (str is for words that come again, "text" for free
    text). Each row also gets a timestamp, unless there is a column "timestamp" of type "time" and
    it is given. The same name and columns again give the same table. rows: how many are kept
    where no node collects them.
    """
    full = full_name(name)
    wanted = [column(*pair) for pair in dict(columns).items()]
    names = [found for found, _ in wanted]
    own_time = "timestamp" in names
    if own_time:
        wanted.sort(key=lambda pair: pair[0] != "timestamp")
        if wanted[0][1] != TYPES["time"]:
            raise ValueError("column timestamp: its type is \"time\"")
        if names[0] != "timestamp":
            raise ValueError("column timestamp: it is the first one")
    else:
        wanted.insert(0, ("timestamp", TYPES["time"]))
    if not names or len(wanted) > MOST:
        raise ValueError("table %s: it has 1 to %d columns" % (full, MOST))
    if native is None:
        return Nothing()
    try:
        return native.table(full, tuple(wanted), int(rows), int(not own_time), str(doc))
    except TypeError as error:
        raise ValueError(str(error)) from None


def full_name(name):
    full = name if "." in name else "python." + name
    schema, _, rest = full.partition(".")
    if not WORD.match(schema) or not WORD.match(rest) or len(full) > LONGEST:
        raise ValueError("table %r: a name is made of a-z, 0-9 and _, with one \".\" behind the "
                         "schema, and has at most %d characters" % (name, LONGEST))
    if full in OURS or schema in OUR_SCHEMAS:
        raise ValueError("table %s: the name is taken" % full)
    return full


def column(name, kind):
    kind = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    if not WORD.match(name) or len(name) > LONGEST_COLUMN:
        raise ValueError("column %r: a name is made of a-z, 0-9 and _ and has at most %d "
                         "characters" % (name, LONGEST_COLUMN))
    if name in ADDED:
        raise ValueError("column %s: every row gets one of this name anyway" % name)
    if kind not in TYPES:
        raise ValueError("column %s: %s is none of int, float, bool, str, \"time\", \"text\""
                         % (name, kind))
    return name, TYPES[kind]


class Nothing(object):
    """Stands in for tables and spans where nothing can be written."""

    name = ""

    def append(self, *values, **named):
        pass

    def set(self, **attributes):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self, function):
        return function


def nothing(name, **attributes):
    return name if callable(name) else Nothing()


def follow():
    """An agent that came from outside before this module did is another copy of the library."""
    try:
        paths = () if native.running() else _agent.sockets()
        if paths and _agent.is_enabled():
            from ._config import config
            native.follow(os.path.dirname(paths[0]), config.get("store.budget_mb", 0) << 20)
    except (OSError, _agent.AgentError):
        pass  # it is just leaving


if native is None:
    span, event = nothing, lambda name, **attributes: None
else:
    span, event = native.span, native.event
    follow()
