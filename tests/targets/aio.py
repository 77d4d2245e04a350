"""Coroutines that await coroutines. Argument: busy (blocks inside) or await."""
import asyncio
import os
import sys
import time


def ready():
    print("ready", os.getpid())
    sys.stdout.flush()


async def leaf(mode):
    ready()
    if mode == "busy":
        time.sleep(100000)  # LINE:leaf
    else:
        await asyncio.sleep(100000)


async def step(mode):
    await leaf(mode)  # LINE:step


class Trainer:
    async def fit(self, mode):
        async with self:
            await step(mode)  # LINE:fit

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None


def main():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(Trainer().fit(sys.argv[1]))  # LINE:main


main()  # LINE:module
