"""Redirect old addresses, and the name of the first page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

_PAGES = {"/lag": "/partitions", "/topic": "/topics"}


async def _moved(request: Request) -> RedirectResponse:
    query = request.url.query
    return RedirectResponse(_PAGES[request.url.path] + (f"?{query}" if query else ""))


async def _first(request: Request) -> RedirectResponse:
    query = request.url.query
    return RedirectResponse("/" + (f"?{query}" if query else ""))


def routes(*, is_fleet: bool) -> tuple[Route, ...]:
    """Return the redirects. Streamlit serves the first page only at /."""
    return *(Route(path, _moved) for path in _PAGES), Route("/fleet" if is_fleet else "/overview", _first)
