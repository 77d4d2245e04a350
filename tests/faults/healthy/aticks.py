"""Coroutines that sleep a while."""
# expect: healthy
import asyncio


async def tick(n):
    while True:
        await asyncio.sleep(n)


async def main():
    await asyncio.gather(tick(20), tick(30))


print("stall", flush=True)
asyncio.run(main())
