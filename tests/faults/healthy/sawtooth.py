"""Memory that goes up for some seconds and down again: a buffer that is flushed."""
# expect: healthy
# wait: 25
import time

buf = []
print("stall", flush=True)
while True:
    buf.append(bytearray(500_000))
    time.sleep(0.03)
    if len(buf) > 250:
        buf.clear()
