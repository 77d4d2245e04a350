"""An asyncio worker that awaits a queue, filled by a timer every some seconds."""
# expect: healthy
import asyncio


async def feed(q):
    while True:
        await asyncio.sleep(20)
        q.put_nowait(1)


async def main():
    q = asyncio.Queue()
    t = asyncio.create_task(feed(q))
    print("stall", flush=True)
    while True:
        await q.get()


asyncio.run(main())
