"""
First on the path of an interpreter that `probing launch` started: turns the agent on and steps
aside for the sitecustomize that would have been found. Valid in Python 2 too, since a launched
job may start any Python.
"""
import os
import sys


def activate():
    """False when the environment meant another process."""
    if sys.version_info < (3, 6):
        return True
    try:
        from probing import _hook
        return _hook.meant
    except Exception:
        sys.stderr.write("probing: not enabled: %s\n" % sys.exc_info()[1])
        return True


def leave_environment(here):
    """Takes the entry that the launcher made from PYTHONPATH."""
    rest = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry != here]
    if any(rest):
        os.environ["PYTHONPATH"] = ":".join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)


def step_aside(here):
    """Imports the next sitecustomize; without one this module stays in its place."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    sys.path_importer_cache.pop(here, None)
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401 (the user's own)
    except ImportError:
        error = sys.exc_info()[1]
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    if not activate():
        leave_environment(here)
    step_aside(here)


main()
