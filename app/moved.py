"""Redirect addresses of earlier versions, and names of the first page, to the pages that have them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from app.inspection import mirrors

_FIRST = "/fleet" if len(mirrors()) > 1 else "/overview"  # Streamlit serves the first page at / only
_PAGES = {"/lag": "/partitions", "/topic": "/topics", _FIRST: "/"}


async def _moved(request: Request) -> RedirectResponse:
    query = request.url.query
    return RedirectResponse(_PAGES[request.url.path] + (f"?{query}" if query else ""))


ROUTES = tuple(Route(path, _moved) for path in _PAGES)
