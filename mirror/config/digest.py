"""Digest a flow's settings, so that processes that share it see whether theirs are the same. Holds no secret."""

from __future__ import annotations

import hashlib
import re
from dataclasses import fields

from mirror.config.settings import Flow

_DIGITS = 12
_OF_A_MACHINE = re.compile(r'[\w.]+\.location="[^"]*"')  # key stores and certificates may lie elsewhere on each machine


def digest(flow: Flow) -> str:
    """Return a short digest; secrets are in it as ***, so that nobody finds them by trying."""
    settings = "\n".join(f"{field.name}={getattr(flow, field.name)!r}" for field in fields(flow))
    return hashlib.sha256(_OF_A_MACHINE.sub("", settings).encode()).hexdigest()[:_DIGITS]
