"""A long compile in a child process, which starts others."""
# expect: healthy
import subprocess

print("stall", flush=True)
subprocess.run(["sh", "-c", "while :; do :; done"])
