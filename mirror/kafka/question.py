"""Ask a cluster one thing that it need not tell: with a client of its own, outside of all flows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from mirror.config.client_values import ClientError
from mirror.config.clients import client_options
from mirror.kafka.client import Client
from mirror.kafka.errors import KafkaError

Answer = TypeVar("Answer")


def asked(
    client: Mapping[str, str],
    question: Callable[[Client], Awaitable[Answer]],
    *,
    within_s: float,
    unknown: type[Exception],
) -> Answer:
    """Return what a cluster answers.

    Args:
        client: Java properties of the client.
        question: Asks it.
        within_s: How long connecting, asking and answering may take together.
        unknown: Raised where there is no answer; its message says why.
    """

    async def run() -> Answer:
        async with asyncio.timeout(within_s):
            opened = await Client.opened(client_options(client))
            try:
                return await question(opened)
            finally:
                await opened.close()

    try:
        return asyncio.run(run())
    except TimeoutError as error:
        raise unknown(f"no answer within {within_s:.0f} s") from error
    except (ClientError, KafkaError, OSError) as error:
        raise unknown(str(error) or type(error).__name__) from error
