"""Recursion that takes long."""
# expect: healthy


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


print("stall", flush=True)
fib(60)
