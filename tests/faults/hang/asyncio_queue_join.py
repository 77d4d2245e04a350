"""queue.join() although a consumer forgot task_done()."""
# expect: hang
import asyncio


async def consume(q):
    while True:
        await q.get()  # here


async def main():
    q = asyncio.Queue()
    t = asyncio.create_task(consume(q))
    for i in range(3):
        q.put_nowait(i)
    print("stall", flush=True)
    await q.join()  # here
    t.cancel()


asyncio.run(main())
