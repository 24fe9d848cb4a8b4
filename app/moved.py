"""Redirect addresses of earlier versions to the pages that replace them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

_PAGES = {"/lag": "/partitions", "/topic": "/topics"}


async def _moved(request: Request) -> RedirectResponse:
    query = request.url.query
    return RedirectResponse(_PAGES[request.url.path] + (f"?{query}" if query else ""))


ROUTES = tuple(Route(path, _moved) for path in _PAGES)
