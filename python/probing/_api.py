"""What `import probing` offers."""
from . import _agent
from ._agent import AgentError, SettingError, is_enabled  # noqa: F401
from ._config import config
from ._tables import event, span, table  # noqa: F401
from ._version import __version__  # noqa: F401


def enable(settings=None, **more):
    """
    Starts the agent in this process; True if it was not running.

    Settings go by their names in a mapping, {"eval.timeout": 5}, or as keywords with
    "_" for ".", eval_timeout=5. If one of them is wrong none is taken, and an agent that
    was not running is not left running.
    """
    started = _agent.start()
    try:
        config.update(settings or {}, **more)
    except Exception:
        if started:
            _agent.stop()
        raise
    return started


def disable():
    """Stops all the agent does, however it got here; True if it was running."""
    return _agent.stop()
