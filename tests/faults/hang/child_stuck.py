"""A command that does not end."""
# expect: hang
import subprocess


def convert():
    subprocess.run(["sleep", "3600"])  # here


print("stall", flush=True)
convert()
