"""A program whose handlers of signals raise, and that says what it has caught; SIGTERM ends it with
status 3."""
import os
import signal
import sys
import time


class Alarm(Exception):
    pass


def alarm(number, frame):
    raise Alarm


def end(number, frame):
    sys.exit(3)


def say(*words):
    print(*words)
    sys.stdout.flush()


signal.signal(signal.SIGUSR1, alarm)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, signal.default_int_handler)
say("ready", os.getpid())
while True:
    try:
        while True:
            time.sleep(0.001)  # LINE:loop
    except (Alarm, KeyboardInterrupt) as error:
        say(type(error).__name__)
