"""Memory grows while a dataset is loaded, then stays."""
# expect: healthy
# wait: 12
import time

print("stall", flush=True)
data = []
for i in range(120):
    data.append(bytearray(1_000_000))
    time.sleep(0.15)
while True:
    sum(range(10000))
    time.sleep(0.01)
