"""An asyncio server reads the request and forgets to answer; the client is a plain socket."""
# expect: hang
import asyncio
import multiprocessing as mp
import socket


def serve(port):
    async def handle(r, w):
        await r.readline()
        await asyncio.Event().wait()  # here

    async def main():
        s = await asyncio.start_server(handle, "127.0.0.1", 0)
        port.send(s.sockets[0].getsockname()[1])
        await s.serve_forever()
    asyncio.run(main())


a, b = mp.Pipe()
mp.get_context("fork").Process(target=serve, args=(b,), daemon=True).start()
c = socket.create_connection(("127.0.0.1", a.recv()))
c.sendall(b"x\n")
print("stall", flush=True)
c.makefile().readline()  # here
