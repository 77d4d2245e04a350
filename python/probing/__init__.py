"""
Probing inside a Python program.

    import probing
    probing.enable()                        # now `probing PID eval ...` and the rest work at once
    probing.config["eval.timeout"] = 5

    losses = probing.table("losses", {"step": int, "loss": float})
    losses.append(3, 0.25)                  # SELECT * FROM python.losses
    with probing.span("load", batch=3):     # SELECT * FROM python.spans
        ...

Nobody has to: `probing PID inject` does the same from outside, PROBING=1 at start.
"""
import sys

__all__ = ["AgentError", "SettingError", "__version__", "config", "disable", "enable", "event",
           "is_enabled", "span", "table"]


def load(name):
    """A name is loaded when it is first used: an interpreter that only starts needs none."""
    if name not in __all__:
        raise AttributeError("module 'probing' has no attribute %r" % name)
    from . import _api
    value = globals()[name] = getattr(_api, name)
    return value


def names():
    return sorted(set(__all__).union(globals()))


if sys.version_info >= (3, 7):
    __getattr__, __dir__ = load, names
else:
    class Package(type(sys)):
        """What a function __getattr__ does from 3.7 on."""

        def __getattr__(self, name):
            return load(name)

        def __dir__(self):
            return names()

    sys.modules[__name__].__class__ = Package
