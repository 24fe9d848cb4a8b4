"""Serve the lag inspector: by default on loopback, without uploads, statistics or requests to other hosts."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from metrics.http_access import HttpAccess
from mirror.config.given import Given
from mirror.errors import MirrorError

STOPS_WITHIN_S = 3  # with open pages
OPTIONS = {
    "server.headless": True,
    "server.enableXsrfProtection": True,
    "server.maxUploadSize": 1,  # MB; no page accepts uploads
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": False,
    "logger.level": "warning",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.baseFontSize": 14,
    "theme.headingFontSizes": "1.5rem, 1.15rem, 1.05rem, 1rem, 1rem, 1rem",
    # Contrast of small and faded text: WCAG AA requires 4.5, Streamlit's own colours have 3.9.
    "theme.light.primaryColor": "#1a56b0",
    "theme.light.textColor": "#000000",
    "theme.light.linkColor": "#1a56b0",
    "theme.dark.primaryColor": "#8ab4f8",
    "theme.dark.textColor": "#ffffff",
    "theme.dark.linkColor": "#8ab4f8",
}


def serve(mirrors: Sequence[Given], listener: socket.socket, access: HttpAccess) -> None:
    """Poll the mirrors and serve their pages, until SIGINT or SIGTERM.

    Raises:
        MirrorError: Streamlit does not start.
    """
    import uvicorn
    from streamlit.web.bootstrap import load_config_options

    from app.entrance import application
    from app.inspection import start_pollers

    host, port, *_ = listener.getsockname()
    own = {"server.address": host, "server.port": port}
    if access.certificate:  # so that browsers send cookies over TLS only
        own |= {"server.sslCertFile": access.certificate, "server.sslKeyFile": access.key or access.certificate}
    load_config_options({**OPTIONS, **own})
    tls = access.server_context()
    config = uvicorn.Config(
        application(access, is_fleet=len(mirrors) > 1),
        ssl_context_factory=None if tls is None else lambda *_: tls,
        ws="websockets-sansio",  # as `streamlit run` has it
        ws_per_message_deflate=False,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=STOPS_WITHIN_S,
    )
    start_pollers(mirrors)
    print(f"lag inspector: {access.scheme}://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
    server = uvicorn.Server(config)
    server.run(sockets=[listener])
    if not server.started:
        raise MirrorError("the lag inspector did not start; the lines before show why")
