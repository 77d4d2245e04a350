"""An asyncio server that nobody calls."""
# expect: healthy
import asyncio


async def main():
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    async with server:
        await server.serve_forever()


print("stall", flush=True)
asyncio.run(main())
