"""Name the user that this process runs as. The user of a container may be a number without a passwd entry."""

from __future__ import annotations

import getpass
import os
import pwd
import tempfile
from pathlib import Path


def has_passwd_entry() -> bool:
    """Return whether the system knows a name for the user's number."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def user_name() -> str:
    """Return the name from the environment or the passwd entry, the number if there is neither."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def home_folder() -> Path:
    """Return the home folder, that of temporary files if neither HOME nor a passwd entry names one."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir())
