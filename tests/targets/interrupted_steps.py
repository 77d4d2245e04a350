"""A count of steps that a signal interrupts while it is read; for torch_steps.py."""
import os
import signal


class Alarm(Exception):
    pass


class Signalled:
    """Names its steps, and in the midst of that there comes a signal whose handler raises."""
    asked = done = 0

    @property
    def global_step(self):
        self.asked += 1
        if self.asked == 5:
            os.kill(os.getpid(), signal.SIGUSR1)
        return self.done


def alarm(number, frame):
    raise Alarm
