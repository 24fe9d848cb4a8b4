"""Run Streamlit for `kafka-mirror app`: by default on loopback, without uploads, statistics or requests to other hosts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from metrics.http_access import HttpAccess

OPTIONS = {
    "server.headless": "true",
    "server.enableXsrfProtection": "true",
    "server.maxUploadSize": "1",  # MB; no page accepts uploads
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.baseFontSize": "14",
    "theme.headingFontSizes": "1.5rem, 1.15rem, 1.05rem, 1rem, 1rem, 1rem",
    # Contrast of small and faded text: WCAG AA requires 4.5, Streamlit's own colours have 3.9.
    "theme.light.primaryColor": "#1a56b0",
    "theme.light.textColor": "#000000",
    "theme.light.linkColor": "#1a56b0",
    "theme.dark.primaryColor": "#8ab4f8",
    "theme.dark.textColor": "#ffffff",
    "theme.dark.linkColor": "#8ab4f8",
}


def command(mirror: Sequence[str], host: str, port: int, access: HttpAccess) -> list[str]:
    """Return the command that serves the app; `mirror` is the result of mirror_arguments."""
    own = {"server.address": host, "server.port": str(port)}
    if access.certificate:
        own |= {"server.sslCertFile": access.certificate, "server.sslKeyFile": access.key or access.certificate}
    options = [f"--{key}={value}" for key, value in {**OPTIONS, **own}.items()]
    return [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(Path(__file__).with_name("entrance.py")),
        *options,
        "--",
        *mirror,
    ]


def serve(mirror: Sequence[str], host: str, port: int, access: HttpAccess) -> NoReturn:
    """Replace this process with the app's process, so that signals reach the app."""
    root = str(Path(__file__).resolve().parents[1])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    print(f"lag inspector: {access.scheme}://{host}:{port}", flush=True)
    arguments = command(mirror, host, port, access)
    os.execv(arguments[0], arguments)  # noqa: S606 - no shell
