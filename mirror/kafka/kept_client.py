"""Keep a client of one cluster open between requests of any thread: one login per broker."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from mirror.config.clients import client_options
from mirror.kafka.client import Client
from mirror.kafka.errors import SILENCES, NoAnswerError
from mirror.runtime import background

Answer = TypeVar("Answer")


class KeptClient:
    """Runs requests to one cluster. The client stays open until the KeptClient is closed or garbage-collected.

    Attributes:
        turn: Held by each request that needs topic metadata: the client follows the topics of one request at a time.
    """

    def __init__(self, java_options: Mapping[str, str]) -> None:
        """Connect to nothing yet."""
        self._java = java_options
        self._client: Client | None = None
        self.turn = asyncio.Lock()
        self._opening = asyncio.Lock()

    def ask(self, question: Callable[[Client], Awaitable[Answer]], *, within_s: float) -> Answer:
        """Run a request to the cluster and return the response.

        Raises:
            KafkaError, OSError, ClientError: the cluster does not respond in time, or refuses; a property is not supported.
        """
        return background.run(self.asked(question, within_s=within_s))

    async def asked(self, question: Callable[[Client], Awaitable[Answer]], *, within_s: float) -> Answer:
        """Do the same as `ask`, awaited on the background loop."""
        try:
            async with asyncio.timeout(within_s):
                return await question(await self.following((), time.monotonic() + within_s))
        except TimeoutError as error:
            self.close()  # a connection may be half-open
            raise NoAnswerError(f"no answer within {within_s:.0f} s") from error
        except (*SILENCES, OSError):
            self.close()
            raise

    async def following(self, topics: Collection[str], until_s: float) -> Client:
        """Return the client, connected, with the metadata of these topics.

        For the background loop. If there are topics, the caller must hold `turn`.

        Raises:
            KafkaError, OSError: the cluster does not respond by `until_s`, or refuses.
        """
        client = self._client
        if client is None:
            client = self._client = Client(client_options(self._java))
            weakref.finalize(self, _close, client).atexit = False
        try:
            async with asyncio.timeout(max(0.0, until_s - time.monotonic())), self._opening:
                if not client.metadata.brokers:
                    await client.open(topics)
                elif topics:
                    await client.follow(topics)
        except TimeoutError as error:
            raise NoAnswerError("no answer in time") from error
        return client

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            _close(client)


def _close(client: Client) -> None:
    background.begin(client.close())
