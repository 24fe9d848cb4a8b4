"""A real Kerberos key distribution center (MIT's) for one realm, on a free port of this host, with keys in files."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import pytest

from mirror.embedded.ports import HOST, free_port

REALM = "MIRROR.TEST"
_TOOLS = "/usr/sbin"  # where Debian has them, which is not on everybody's PATH

needs_kerberos = pytest.mark.skipif(
    find_spec("gssapi") is None or shutil.which("krb5kdc", path=_TOOLS) is None,
    reason="needs a key distribution center and the package gssapi (./test installs both, as root)",
)


class Kdc:
    """A context manager: the center runs inside of it.

    Attributes:
        config: The krb5.conf with which everybody finds it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.config = folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process that asks for tickets."""
        return {"KRB5_CONFIG": str(self.config)}

    def __enter__(self) -> Self:
        self.config.write_text(f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = {HOST}:{self._port}
 }}
""")
        (self._folder / "kdc.conf").write_text(f"""[logging]
 kdc = FILE:{self._folder}/issued.log
[kdcdefaults]
 kdc_listen = {HOST}:{self._port}
 kdc_tcp_listen = {HOST}:{self._port}
[realms]
 {REALM} = {{
  database_name = {self._folder}/principal
  key_stash_file = {self._folder}/stash
  acl_file = {self._folder}/acl
 }}
""")
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", uuid.uuid4().hex)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the center."""
        with (self._folder / "kdc.log").open("ab") as log:
            self._process = subprocess.Popen(
                [f"{_TOOLS}/krb5kdc", "-n"], env=self._server_environment(), stdout=log, stderr=log
            )

    def stop(self) -> None:
        """Stop the center; nobody gets a ticket then."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def keytab(self, principal: str, *, life_s: int | None = None) -> Path:
        """Return a new file with the key of a new principal, whose tickets hold for `life_s`."""
        path = self._folder / f"{principal.replace('/', '_')}.keytab"
        life = [] if life_s is None else ["-maxlife", f"{life_s} seconds"]
        self._run("kadmin.local", "addprinc", "-randkey", *life, principal)
        self._run("kadmin.local", "ktadd", "-k", str(path), principal)
        return path

    def logins(self, principal: str) -> int:
        """Return how often somebody got a first ticket with its key."""
        text = (self._folder / "issued.log").read_text()
        return sum(
            "AS_REQ" in line and " ISSUE:" in line and f"{principal}@{REALM} for" in line for line in text.splitlines()
        )

    def _run(self, tool: str, *arguments: str) -> None:
        done = subprocess.run(
            [f"{_TOOLS}/{tool}", *arguments],
            env=self._server_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (tool, done.stdout, done.stderr)

    def _server_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf")}
