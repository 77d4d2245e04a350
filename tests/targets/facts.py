"""
A rank with a table of facts that depend on its number alone: what it needs of the package is on
PYTHONPATH. Writes the rows at once, says so, and stays.
"""
import os
import random
import time

import probing

COLUMNS = {"a": int, "b": int, "x": float, "s": str, "flag": bool}


def rows(rank, count):
    dice = random.Random(rank)
    for _ in range(count):
        yield (dice.randint(-50, 50), dice.choice((0, 1, 2, 3, None)),
               None if dice.random() < 0.1 else dice.randint(-1000, 1000) / 8,
               dice.choice(("red", "green", "blue", "it's", "")), dice.random() < 0.5)


def main():
    probing.enable()
    facts = probing.table("facts", COLUMNS)
    for row in rows(int(os.environ["RANK"]), int(os.environ.get("FACTS", "300"))):
        facts.append(*row)
    print("ready", os.getpid(), flush=True)
    while True:
        time.sleep(1)


main()
