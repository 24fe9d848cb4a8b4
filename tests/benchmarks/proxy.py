"""A TCP proxy that delays every byte by the same time each way: a source cluster that is far away."""

from __future__ import annotations

import asyncio
import sys

CHUNK = 1 << 18


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=4096)

    async def deliver() -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            writer.write(data)
            await writer.drain()
            if not data:
                return

    delivering = asyncio.create_task(deliver())
    try:
        while data := await reader.read(CHUNK):
            await waiting.put((loop.time() + delay_s, data))
    except ConnectionError:
        pass
    finally:
        delivering.cancel()
        writer.close()


async def serve(port: int, target_port: int, delay_s: float) -> None:
    """Forward `port` to `target_port`, both on loopback, until the end."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", target_port, limit=CHUNK * 4)
        await asyncio.gather(_pump(reader, there_writer, delay_s), _pump(there_reader, writer, delay_s))

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=CHUNK * 4)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000))
