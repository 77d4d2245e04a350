"""A blocking read inside a coroutine holds the whole loop."""
# expect: hang
import asyncio
import os

r, w = os.pipe()


async def tick():
    while True:
        await asyncio.sleep(0.1)


async def read():
    await asyncio.sleep(0.3)
    return os.read(r, 1)  # here


async def main():
    await asyncio.gather(tick(), read())


print("stall", flush=True)
asyncio.run(main())
