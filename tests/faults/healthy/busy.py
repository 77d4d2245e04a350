"""A loop of plain Python that gets somewhere."""
# expect: healthy
def primes():
    found, n = [], 2
    while True:
        if all(n % p for p in found if p * p <= n):
            found.append(n)
        n += 1


print("stall", flush=True)
primes()
