"""What the clients of producers in tests have in common: a request is sent, then answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirror.kafka.client import Purpose
from mirror.kafka.messages import Request
from tests import wire


class FakeClient:
    """A client of one broker. A subclass answers requests, and may hold them back before they are sent."""

    async def held_back(self) -> None:
        """Wait as long as a request is held back."""

    async def answered(self, message: Any) -> Any:
        """Return the answer to a request."""
        raise NotImplementedError

    def refresh_soon(self) -> None:
        """Do nothing: the metadata is always new."""

    async def ask(
        self,
        node: int,
        request: Request,
        purpose: Purpose = Purpose.DATA,
        *,
        within_s: float | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> Any:
        """Send a request, and return its answer."""
        await self.held_back()
        on_sent()
        return await self.answered(wire.message_of(request))
