"""An async server's handler awaits an Event that the failed task should set."""
# expect: hang
import asyncio


async def warm(ev):
    try:
        raise RuntimeError("no weights")
    except RuntimeError:
        return


async def main():
    ev = asyncio.Event()
    asyncio.create_task(warm(ev))
    print("stall", flush=True)
    await ev.wait()  # here


asyncio.run(main())
