"""A loop without a call."""
# expect: healthy
def count():
    total = 0
    for i in range(10**12):
        total += i * i
    return total


print("stall", flush=True)
count()
