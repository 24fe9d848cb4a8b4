"""Name the user of this process. A container's user may be a number without a passwd entry."""

from __future__ import annotations

import getpass
import os
import pwd
import tempfile
from pathlib import Path


def has_passwd_entry() -> bool:
    """Return whether the system has a name for the user id."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def user_name() -> str:
    """Return the user name from the environment or the passwd entry, else the user id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def home_folder() -> Path:
    """Return the home folder; if there is none, the folder for temporary files."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())
