"""A command that is at work."""
# expect: healthy
import subprocess
import sys

print("stall", flush=True)
subprocess.run([sys.executable, "-c", "while True: sum(range(100000))"])
