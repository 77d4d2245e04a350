"""
Probing inside a Python program.

    import probing
    probing.enable()                        # now `probing PID eval ...` and the rest work at once
    probing.config["eval.timeout"] = 5

Nobody has to: `probing PID inject` does the same from outside, PROBING=1 at start.
"""
import sys

__all__ = ["AgentError", "SettingError", "__version__", "config", "disable", "enable",
           "is_enabled"]


class Package(type(sys)):
    """Loads the names when one is first used: an interpreter that only starts needs none."""

    def __getattr__(self, name):
        if name not in __all__:
            raise AttributeError("module 'probing' has no attribute %r" % name)
        from . import _api
        return getattr(_api, name)

    def __dir__(self):
        return sorted(set(__all__).union(self.__dict__))


# From 3.7 on a function __getattr__ would do.
sys.modules[__name__].__class__ = Package
