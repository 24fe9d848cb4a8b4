"""The user that the process runs as, with and without a name."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

import pytest

from mirror.runtime import user


@pytest.fixture
def nameless(monkeypatch):
    """Let the system know no name for any user, as in a container."""

    def unknown(number):
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_user_without_a_passwd_entry_has_its_uid_and_the_temporary_folder(nameless, monkeypatch):
    assert not user.has_passwd_entry()
    assert user.user_name() == str(os.getuid())
    assert user.home_folder() == Path(tempfile.gettempdir())
    monkeypatch.setenv("USER", "mirror")
    monkeypatch.setenv("HOME", "/data")
    assert user.user_name() == "mirror"
    assert user.home_folder() == Path("/data")


def test_a_user_with_a_passwd_entry_has_its_name_and_home(monkeypatch):
    for name in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    entry = pwd.getpwuid(os.getuid())
    assert user.has_passwd_entry()
    assert (user.user_name(), user.home_folder()) == (entry.pw_name, Path(entry.pw_dir))
