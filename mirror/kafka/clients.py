"""Create librdkafka's clients of one cluster on demand, and explain their failures."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mirror.config.properties import HIDDEN, servers_of
from mirror.config.secret_files import SecretFiles
from mirror.config.values import ClientError
from mirror.errors import ClusterUnavailable
from mirror.kafka.login_relay import librdkafka_options
from mirror.kafka.rights import lacks_right, refused

LASTS_S = 30.0  # longer than any call: a client is at least this old when it is replaced
_REFUSALS = (KafkaError._SSL, KafkaError._AUTHENTICATION)
_TROUBLES = (KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._BAD_MSG)
_SILENCE = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)
# Parts of librdkafka's messages to drop: the address (it may come from a config provider), names of settings, milliseconds.
_NEEDLESS = re.compile(
    r"^\w+://\S+: |^\S+/(bootstrap|\d+): |, verify that ssl\.ca\.location .*? package\)"
    r"| \(after \d+ms in state \w+[^)]*(\(s\)[^)]*)?\)$"
)


def quiet_logger() -> logging.Logger:
    """Return a logger that discards everything. Without one, librdkafka prints its connection errors to stderr."""
    quiet = logging.getLogger("mirror.librdkafka")
    if not quiet.handlers:
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
    return quiet


_MUTE = re.compile(
    r"\]: (\S+?)(?:/\w+)?: (?:Disconnected|Receive failed: Invalid response size).* in state APIVERSION_QUERY\)"
)


class _Ear(logging.Handler):
    """Calls `on_mute` if a broker closes a connection before it responds, which librdkafka only logs."""

    def __init__(self, on_mute: Callable[[str], None]) -> None:
        super().__init__()
        self._on_mute = on_mute

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on the broker's address."""
        if (mute := _MUTE.search(record.getMessage())) is not None:
            self._on_mute(mute[1])


class Clients:
    """An admin client, with readable errors."""

    def __init__(self, alias: str, java_options: Mapping[str, str]) -> None:
        self._alias = alias
        self._servers = servers_of(java_options)
        self._java = java_options
        self._files = SecretFiles(java_options)
        self._refusal = ""  # the last failure of TLS or a login
        self._trouble = ""  # the last failure of a connection
        self._logger = logging.Logger("librdkafka")
        self._logger.addHandler(_Ear(self._was_mute))
        self._renewed_s = time.monotonic()
        self._before: AdminClient | None = None  # the replaced client: another thread may still wait for it

    @cached_property
    def _options(self) -> dict[str, Any]:
        """librdkafka's configuration. With Kerberos, it includes a relay, which is started with the client."""
        return {**librdkafka_options(self._java)}

    @property
    def where(self) -> str:
        """Alias and address of the cluster, for messages."""
        return f"cluster {self._alias} ({self._servers})"

    @property
    def admin(self) -> AdminClient:
        """The admin client; a new one after a file with secrets has changed."""
        if self._files.changed():
            with contextlib.suppress(ClientError):  # the old secrets stay; new connections log why
                self._options = {**librdkafka_options(self._java)}
                self._renew()
        return self._admin

    @cached_property
    def _admin(self) -> AdminClient:
        """The current client. With OAuth, librdkafka waits for its first token when the client is created."""
        options: dict[str, Any] = {**self._options, "error_cb": self.met}
        try:
            if "oauth_cb" in self._options:
                self._options["oauth_cb"]("")  # librdkafka does not report why there is no token
            return AdminClient(options, logger=self._logger)
        except OSError as error:
            self._refusal = str(error)
            raise self.unavailable(KafkaException(KafkaError(KafkaError._AUTHENTICATION))) from error
        except KafkaException as error:
            raise self.unavailable(error) from error

    def close(self) -> None:
        """Release the connections now. Otherwise its callback would keep a client until garbage collection."""
        vars(self).pop("_admin", None)

    def met(self, error: KafkaError) -> None:
        """Remember a connection, TLS or login error.

        librdkafka reports only a timeout to the call that fails because of this error.
        """
        if error.code() in _REFUSALS:
            self._refusal = _NEEDLESS.sub("", error.str())
        elif error.code() in _TROUBLES:
            self._trouble = _NEEDLESS.sub("", error.str())

    def _was_mute(self, address: str) -> None:
        self._trouble = f"{address} closes the connection before it responds: do security.protocol and the port fit?"

    def unavailable(self, error: KafkaException, *, right: str = "") -> ClusterUnavailable:
        """Return a readable error for a failed call.

        After a long time without a response, the next call uses new clients.

        Args:
            error: The error that librdkafka reports.
            right: The right that the call needs; by default the one that the error code implies.
        """
        code, reason = error.args[0].code(), error.args[0].str()
        if lacks_right(code):
            return refused(self.where, reason, code, cluster=self._alias, right=right)
        if "_admin" in vars(self):
            self._admin.poll(0)  # serves `met`
        if is_refused := bool(self._refusal):
            reason = f"{reason}; {self._refusal}"
        elif self._trouble and self._servers != HIDDEN and code in _SILENCE:
            reason = self._trouble
        self._refusal = self._trouble = ""
        if code in _SILENCE and time.monotonic() > self._renewed_s + LASTS_S:
            self._renew()
        return self.silent(reason, is_refused=is_refused)

    def silent(self, reason: str, *, is_refused: bool = False) -> ClusterUnavailable:
        """Return a readable error for a cluster that does not respond.

        `is_refused`: TLS or the login failed.
        """
        advice = (
            "Check the certificates and the credentials."
            if is_refused
            else "Is it up, and reachable from this machine?"
        )
        return ClusterUnavailable(f"{self.where}: no answer ({reason}). {advice}", cluster=self._alias)

    def _renew(self) -> None:
        """Use new clients for all later requests.

        A restarting broker lists no brokers for a moment. A client that gets this response never finds a broker again
        (confluentinc/librdkafka issue 5301).
        """
        self._renewed_s = time.monotonic()
        self._before = vars(self).pop("_admin", None)
