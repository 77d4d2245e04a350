"""probing.span as a decorator."""
import functools
import inspect

from ._tables import span


def wrap(function, name, attributes):
    """The function, each call of which is a span: until it returns, is exhausted or awaited."""
    name = name or getattr(function, "__qualname__", type(function).__name__)
    attributes = attributes or {}

    if inspect.iscoroutinefunction(function):
        async def wrapper(*args, **named):
            with span(name, **attributes):
                return await function(*args, **named)
    elif inspect.isgeneratorfunction(function):
        def wrapper(*args, **named):
            with span(name, **attributes):
                return (yield from function(*args, **named))
    else:
        def wrapper(*args, **named):
            with span(name, **attributes):
                return function(*args, **named)
    return functools.wraps(function)(wrapper)
