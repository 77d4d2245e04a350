# Exceptions of the program that come up in code of ours: handlers of signals run on the main thread
# wherever it is just then, also in an evaluation there (--main) and in expressions that are
# evaluated for the program's rows. Such an exception is raised once more, in the program.
import _signal

strays = []     # those that the program does not have yet
INSIST_MAX = 100


def code_of(handler):
    for one in (handler, getattr(handler, "func", None), getattr(type(handler), "__call__", None)):
        code = getattr(one, "__code__", None)
        if code is not None:
            return code
    return None


def from_handler(trace):
    """The part of a traceback that begins in a handler of a signal, or None."""
    codes = [code_of(_signal.getsignal(number)) for number in range(1, _signal.NSIG)]
    while trace is not None and not any(trace.tb_frame.f_code is code for code in codes):
        trace = trace.tb_next
    return trace


def is_of_program(error, job=None, code=""):
    """Whether a signal's handler has raised it. KeyboardInterrupt has no lines of its own; there
    it counts that neither the tool nor the code meant it."""
    if ident() != main_ident():
        return False
    if from_handler(error.__traceback__) is not None:
        return True
    return (type(error) is KeyboardInterrupt and "KeyboardInterrupt" not in code
            and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
            and not (job is not None and was_thrown(job.number)))


def insist(step):
    """For what must be done, whatever is raised meanwhile: step may be called more than once."""
    for _ in range(INSIST_MAX):
        try:
            return step()
        except BaseException as error:
            if not is_of_program(error):
                raise
            strays.append(error)


def hand_back(error):
    """Whether this exception is the program's, and is raised there by raise_stray."""
    if not is_of_program(error):
        return False
    strays.append(error)
    return True


def raise_stray():
    """The first one; those behind it came while it was on its way."""
    if strays:
        error = strays[0]
        del strays[:]
        raise error.with_traceback(from_handler(error.__traceback__))
