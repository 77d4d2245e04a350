"""A kernel as of a notebook: zmq-less, an asyncio loop with sockets and an executor that idles."""
# expect: healthy
import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor


async def main():
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    pool = ThreadPoolExecutor(2)
    await asyncio.get_running_loop().run_in_executor(pool, lambda: 1)
    print("stall", flush=True)
    async with server:
        await server.serve_forever()


ev = threading.Event()
threading.Thread(target=ev.wait, daemon=True).start()
asyncio.run(main())
