"""Hashes a file, one C call after another, each some seconds long."""
# expect: healthy
import hashlib

data = bytes(400_000_000)
print("stall", flush=True)
while True:
    hashlib.sha256(data).hexdigest()
