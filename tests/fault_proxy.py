"""A TCP proxy before a broker that makes the network bad: lost packets, stalls, half-open connections, resets, slow links."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mirror.embedded.broker import Broker
from mirror.embedded.ports import HOST, free_port

CHUNK = 1 << 16
TICK_S = 0.02
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER 0: close sends RST
# socket(7), SO_ATTACH_FILTER: a program of one instruction, "return 0", by which the kernel drops all that a socket is sent.
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_RETURN_0 = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)
_DROP_ALL = struct.pack("HP", 1, ctypes.addressof(_RETURN_0))


@dataclass(eq=False, slots=True)
class Link:
    """One client's connection."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    is_dead: bool = False  # half-open: swallows what comes and says nothing

    def reset(self) -> None:
        """End both sides with a RST."""
        for writer in (self.client, self.broker):
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class FaultProxy:
    """Forwards `port` to a broker's listener. Its attributes are the faults; they work at once, on open connections too."""

    def __init__(self, port: int, upstream: int) -> None:
        self.port = port
        self.upstream = upstream
        self._listener = socket.create_server((HOST, port))
        self._links: set[Link] = set()
        self.accepted = 0  # connections, ever
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.heal()

    def heal(self) -> None:
        """Be a good network again; half-open connections stay as they are."""
        self._filter(_DETACH_FILTER)
        self.is_stalled = False  # bytes wait, while clients' packets are acknowledged
        self.is_down = False  # new connections are refused, open ones reset
        self.delay_s = (0.0, 0.0)  # and its jitter, per chunk
        self.bytes_per_s = 0  # per connection and direction; 0: as fast as it goes
        self.slice_bytes = 0  # 0: as they come

    def drop_packets(self) -> None:
        """Let no packet through, ends of connections and acknowledgments included: neither side hears of it."""
        self.is_stalled = True
        self._filter(_ATTACH_FILTER)

    def reset_all(self) -> None:
        """RST every open connection."""
        self._loop.call_soon_threadsafe(lambda: [link.reset() for link in tuple(self._links)])

    def half_open_all(self) -> None:
        """Let every open connection swallow what comes from then on, as when the other side lost power."""
        for link in tuple(self._links):
            link.is_dead = True

    def __enter__(self) -> Self:
        """Serve in a thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End at once."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _filter(self, option: int) -> None:
        for each in (self._listener, *(link.client.get_extra_info("socket") for link in tuple(self._links))):
            with contextlib.suppress(OSError):  # closed meanwhile, or without a filter
                each.setsockopt(socket.SOL_SOCKET, option, _DROP_ALL)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, sock=self._listener))
        self._loop.run_forever()
        server.close()
        for link in tuple(self._links):
            link.reset()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))  # aborted transports close their sockets in the next turn
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            if self.is_down:
                raise ConnectionRefusedError
            from_broker, to_broker = await asyncio.open_connection(HOST, self.upstream)
        except (OSError, asyncio.CancelledError):  # the latter at the end, while a connection is being made
            writer.transport.abort()
            return
        link = Link(writer, to_broker)
        self._links.add(link)
        try:
            await asyncio.gather(self._pump(link, reader, to_broker), self._pump(link, from_broker, writer))
        except (OSError, asyncio.CancelledError):  # the latter at the end, of which asyncio's streams would complain
            pass
        finally:
            self._links.discard(link)
            link.reset()

    async def _pump(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(self.slice_bytes or CHUNK):
            while self.is_stalled:
                await asyncio.sleep(TICK_S)
            if self.is_down:
                raise ConnectionResetError
            if link.is_dead:
                continue
            delay_s, jitter_s = self.delay_s
            pause_s = delay_s + random.uniform(0, jitter_s) + (len(data) / self.bytes_per_s if self.bytes_per_s else 0)
            if pause_s:
                await asyncio.sleep(pause_s)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # one side has ended: so does the other


@contextmanager
def proxied(name: str, folder: Path) -> Iterator[tuple[Broker, FaultProxy, str]]:
    """Start a broker with a second listener that is reached through a proxy only; yield it, the proxy, its bootstrap."""
    upstream, port = free_port(), free_port()
    overrides = {
        "listeners": f"PROXIED://{HOST}:{upstream}",
        "advertised.listeners": f"PROXIED://{HOST}:{port}",
        "listener.security.protocol.map": "PROXIED:PLAINTEXT",
    }
    with Broker.start(name, folder, overrides=overrides) as broker, FaultProxy(port, upstream) as proxy:
        yield broker, proxy, f"{HOST}:{port}"
