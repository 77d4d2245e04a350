"""A job that holds secrets: in its variables, its command line and its environment."""
import os
import sys
import time


def connect(password, api_key, token):
    """token is a number, as in a tokenizer."""
    settings = {"user": "me", "password": "in-a-dict"}
    url = "redis://:in-a-url@db:6379/0"
    print("ready", os.getpid())
    sys.stdout.flush()
    while settings and url:
        time.sleep(0.05)
    return password, api_key, token


connect("in-a-local", b"in-bytes", 50256)
