"""
A rank whose tables have other columns than those of others: facts without x, with z, with floating
point in b; only, which nobody else has; mixed, whose column is a number or a text by its rank.
"""
import os
import time

import probing


def main():
    rank = int(os.environ["RANK"])
    probing.enable()
    facts = probing.table("facts", {"a": int, "b": float, "s": str, "flag": bool, "z": int})
    only = probing.table("only", {"v": int})
    mixed = probing.table("mixed", {"v": str if rank % 2 else int})
    for number in range(100):
        facts.append(number, number / 4, "red", True, number % 10)
        only.append(number)
        mixed.append(str(number) if rank % 2 else number)
    print("ready", os.getpid(), flush=True)
    while True:
        time.sleep(1)


main()
