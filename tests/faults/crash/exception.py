"""An exception that nobody catches, out of a library's code."""
# expect: crash
# class: JSONDecodeError
# probes: yes
import json
import os


def read_config(text):
    return json.loads(text)["layers"]  # here


print("stall", flush=True)
os.read(0, 1)
read_config("{layers: 4}")
