"""Two coroutines take two asyncio locks in different order."""
# expect: hang
import asyncio


async def move(a, b):
    async with a:
        await asyncio.sleep(0.1)
        async with b:  # here
            pass


async def main():
    a, b = asyncio.Lock(), asyncio.Lock()
    print("stall", flush=True)
    await asyncio.gather(move(a, b), move(b, a))  # here


asyncio.run(main())
