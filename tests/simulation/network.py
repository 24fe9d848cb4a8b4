"""The network in memory: links between processes and brokers, which delay, stall, lose and end.

A link keeps the order of what goes over it, as TCP does. What was sent before a link ends still arrives, unless it is held up.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.clock import ProcessLoop, Timer, World

if TYPE_CHECKING:
    from tests.simulation.cluster import Broker

LATENCY_S = (0.0002, 0.003)
TCP_USER_TIMEOUT = 18
Path = tuple[str, str]  # a process, a broker


class _Socket:
    """What the client sets up its socket with."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def setsockopt(self, _level: int, option: int, value: Any) -> None:
        if option == TCP_USER_TIMEOUT:
            self._link.unanswered_s = value / 1000


class Transport(asyncio.Transport):
    """The client's end of a link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def write(self, data: bytes) -> None:
        self._link.send(bytes(data))

    def writelines(self, pieces: Any) -> None:
        self._link.send(b"".join(pieces))

    def abort(self) -> None:
        self._link.end_client()

    close = abort

    def is_closing(self) -> bool:
        return self._link.is_closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return _Socket(self._link) if name == "socket" else default


class Link:
    """One connection of a process to a broker.

    Attributes:
        is_stalled: Nothing passes in either direction; it waits.
        unanswered_s: After so long the sender's kernel gives up what does not pass; None: never.
    """

    def __init__(self, network: Network, loop: ProcessLoop, broker: Broker, protocol: Any) -> None:
        self.network = network
        self.loop = loop
        self.broker = broker
        self.protocol = protocol
        self.number = network.next_number()
        self.is_closed = False  # the client's end
        self.is_gone = False  # the broker's end
        self.is_stalled = False
        self.unanswered_s: float | None = None
        self.requests: deque[bytes] = deque()  # that the broker has received and not begun
        self.is_busy = False  # the broker answers a request
        self._received = bytearray()
        self._up: deque[bytes | None] = deque()  # to the broker, None: the end
        self._down: deque[bytes | None] = deque()
        self._up_at_s = self._down_at_s = 0.0
        self._giving_up: Timer | None = None

    @property
    def path(self) -> Path:
        return self.loop.name.split("/")[0], self.broker.name

    # --- from the client to the broker --------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if not self.is_closed:
            self._pass_up(data)

    def end_client(self, error: BaseException | None = None) -> None:
        """Close the client's end now. What is held up is dropped, as by an abortive close."""
        if self.is_closed:
            return
        self.is_closed = True
        self.network.links.pop(self, None)
        if self.is_stalled:
            self._up.clear()
            # The broker's end stays half-open for as long as the simulation lasts: nothing comes over it.
        else:
            self._pass_up(None)
        if not self.loop.is_dead and not self.loop.is_closed():
            self.loop.call_soon(self.protocol.connection_lost, error)

    def _pass_up(self, data: bytes | None) -> None:
        self._up.append(data)
        if self.is_stalled:
            self._watch()
        else:
            self._up_at_s = self._carry(self._up_at_s, self._arrive_up)

    def _watch(self) -> None:
        if self.unanswered_s is not None and self._giving_up is None:
            self._giving_up = self.network.world.after(self.unanswered_s, self._give_up)

    def _give_up(self) -> None:
        self._giving_up = None
        if self.loop.is_frozen:
            # A suspended machine's kernel has no timers either; on waking it may send first.
            self._watch()
        elif self.is_stalled and not self.is_closed:
            self.end_client(TimeoutError("the network does not answer"))

    def _carry(self, at_s: float, arrive: Callable[[], None]) -> float:
        world = self.network.world
        at_s = max(at_s, world.now_s + world.dice.uniform(*LATENCY_S))
        world.after(at_s - world.now_s, arrive)
        return at_s

    def _arrive_up(self) -> None:
        if self.is_stalled or not self._up:
            return
        data = self._up.popleft()
        if data is None:
            self.is_gone = True
            return
        if self.is_gone:
            return
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self.requests.append(frame)
            self.broker.take_up(self)

    # --- from the broker to the client --------------------------------------------------------------------------

    def respond(self, frame: bytes) -> None:
        if not self.is_gone:
            self._pass_down(struct.pack(">i", len(frame)) + frame)

    def end_broker(self) -> None:
        """Close the broker's end: the client hears of it after a moment."""
        if not self.is_gone:
            self.is_gone = True
            self._pass_down(None)

    def _pass_down(self, data: bytes | None) -> None:
        self._down.append(data)
        if not self.is_stalled:
            self._down_at_s = self._carry(self._down_at_s, self._arrive_down)

    def _arrive_down(self) -> None:
        if self.is_stalled or not self._down:
            return
        data = self._down.popleft()
        if self.is_closed or self.loop.is_closed():
            return
        if data is None:
            self.end_client(ConnectionResetError("connection reset by peer"))
        else:
            self.loop.call_soon(self._feed, data)

    def _feed(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self.is_closed:
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(data) - at)
            buffer[:size] = data[at : at + size]
            self.protocol.buffer_updated(size)
            at += size

    # --- faults -------------------------------------------------------------------------------------------------

    def stall(self) -> None:
        """Let nothing pass from now on."""
        self.is_stalled = True
        if self._up:
            self._watch()

    def flow(self) -> None:
        """Let everything pass that was held up."""
        self.is_stalled = False
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        for _ in self._up:
            self._up_at_s = self._carry(self._up_at_s, self._arrive_up)
        for _ in self._down:
            self._down_at_s = self._carry(self._down_at_s, self._arrive_down)

    def reset(self) -> None:
        """End both ends."""
        self.end_broker()


class Network:
    """All links, and which paths are blocked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.links: dict[Link, None] = {}
        self.brokers: dict[tuple[str, int], Broker] = {}
        self.blocked: dict[Path, int] = {}  # how many faults block each path
        self.login_s = 0.0  # how much longer a new connection takes
        self._numbers = 0

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def loop(self, name: str) -> ProcessLoop:
        """Return a new event loop of a process, whose connections are links of this network."""
        made: list[ProcessLoop] = []

        async def connect(factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
            return await self._connected(made[0], factory, host, port)

        made.append(ProcessLoop(self.world, name, connect))
        return made[0]

    async def _connected(self, loop: ProcessLoop, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        broker = self.brokers[host, port]
        path = loop.name.split("/")[0], broker.name
        await asyncio.sleep(self.world.dice.uniform(*LATENCY_S) + self.login_s)
        while self.blocked.get(path):
            await asyncio.sleep(0.5)  # SYN packets are sent again
        if broker.is_down:
            raise ConnectionRefusedError(f"{host}:{port} refuses connections")
        protocol = factory()
        link = Link(self, loop, broker, protocol)
        self.links[link] = None
        transport = Transport(link)
        protocol.connection_made(transport)
        return transport, protocol

    def block(self, paths: list[Path]) -> None:
        """Let nothing pass between processes and brokers."""
        for path in paths:
            self.blocked[path] = self.blocked.get(path, 0) + 1
        self._stall()

    def unblock(self, paths: list[Path]) -> None:
        """Take back one `block`."""
        for path in paths:
            self.blocked[path] -= 1
        self._stall()

    def _stall(self) -> None:
        for link in tuple(self.links):
            is_blocked = bool(self.blocked.get(link.path))
            if is_blocked and not link.is_stalled:
                link.stall()
            elif link.is_stalled and not is_blocked:
                link.flow()
