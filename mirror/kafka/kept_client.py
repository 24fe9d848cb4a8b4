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
    """Runs requests to one cluster. Its client stays open until it is closed or unreferenced.

    Attributes:
        turn: Held by a request that needs the metadata of topics: the client follows those of one request at a time.
    """

    def __init__(self, java_options: Mapping[str, str]) -> None:
        """Connect to nothing yet."""
        self._java = java_options
        self._client: Client | None = None
        self.turn = asyncio.Lock()
        self._opening = asyncio.Lock()

    def ask(self, question: Callable[[Client], Awaitable[Answer]], *, within_s: float) -> Answer:
        """Return the cluster's response.

        Raises:
            KafkaError, OSError, ClientError: it does not respond in time, or refuses; a property cannot be honoured.
        """
        return background.run(self.asked(question, within_s=within_s))

    async def asked(self, question: Callable[[Client], Awaitable[Answer]], *, within_s: float) -> Answer:
        """Do the same, awaited on the background loop."""
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
        """Return the client, connected, with the metadata of topics.

        For the background loop; hold `turn` if there are topics.

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
        """Close the connections; the next question opens others."""
        client, self._client = self._client, None
        if client is not None:
            _close(client)


def _close(client: Client) -> None:
    background.begin(client.close())
