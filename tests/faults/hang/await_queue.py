"""Tasks that wait for a queue without a producer."""
# expect: hang
import asyncio


async def worker(q):
    while True:
        item = await q.get()  # here
        print(item)


async def main():
    q = asyncio.Queue()
    await q.put(1)
    await asyncio.gather(worker(q), worker(q))


print("stall", flush=True)
asyncio.run(main())
