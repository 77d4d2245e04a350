"""A future that nobody completes."""
# expect: hang
import asyncio


async def fetch():
    done = asyncio.get_running_loop().create_future()
    await done  # here


async def main():
    await fetch()


print("stall", flush=True)
asyncio.run(main())
