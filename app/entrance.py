"""Make the web application of pages and API, with the login of the settings."""

from __future__ import annotations

from pathlib import Path

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.starlette import App

from app.api import ROUTES as API
from app.moved import routes
from metrics.http_access import CHALLENGE, REFUSAL, HttpAccess

_OPEN = "/_stcore/health"  # for the health check of the process that starts the app; it reveals nothing


class Login:
    """Requires the login for pages and their websocket."""

    def __init__(self, app: ASGIApp, access: HttpAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an authorized request, refuse others."""
        if scope["type"] not in ("http", "websocket") or scope["path"] == _OPEN or self._lets_in(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"www-authenticate", CHALLENGE.encode()), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSAL})

    def _lets_in(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return self._access.authorizes(given.decode("latin-1"))


def application(access: HttpAccess, *, is_fleet: bool) -> App:
    """Return the application, with the options that Streamlit has at this time."""
    return App(
        Path(__file__).with_name("main.py"),
        routes=[*API, *routes(is_fleet=is_fleet)],
        middleware=[Middleware(Login, access=access)],
    )
