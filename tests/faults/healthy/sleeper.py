"""A program that does its work once an hour."""
# expect: healthy
import time

print("stall", flush=True)
while True:
    time.sleep(3600)
