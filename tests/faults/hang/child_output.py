"""A child blocks on a full pipe since the parent only waits for its end."""
# expect: hang
import subprocess
import sys

p = subprocess.Popen([sys.executable, "-c", "print('x' * 1000000)"], stdout=subprocess.PIPE)
print("stall", flush=True)
p.wait()  # here
