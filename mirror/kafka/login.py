"""Log in to a broker with SASL messages. No secret appears in a log line or an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mirror.config.sasl import Kerberos, Login
from mirror.kafka.errors import LoginError

Exchange = Callable[[bytes], Awaitable[bytes]]  # sends one message of the mechanism, and returns the broker's message

_SEPARATOR = "\x01"  # between the fields of OAUTHBEARER (RFC 7628)
_NO_LAYER = b"\x01\0\0\0"  # of GSSAPI (RFC 4752, 3.1): no message is wrapped after the login; TLS protects the data
_LAYER_BYTES = 4


async def log_in(login: Login, host: str, exchange: Exchange) -> None:
    """Log in by exchanging the messages of a mechanism.

    Args:
        login: The credentials; mirror.config.sasl has checked the mechanism.
        host: Host name of the broker, for which a ticket is requested (GSSAPI).
        exchange: Raises LoginError if the broker refuses.

    Raises:
        LoginError: the broker rejects the login or fails to prove its identity (SCRAM, GSSAPI), or no ticket for the broker
            exists.
        OSError: there is no token (mirror.config.oauth).
    """
    if login.mechanism.startswith("SCRAM"):
        await _scram(login, exchange)
    elif login.tokens is not None:
        await _oauth(login, exchange)
    elif login.kerberos is not None:
        await _gssapi(login.kerberos, host, exchange)
    else:
        await exchange(f"\0{login.username}\0{login.password}".encode())


async def _scram(login: Login, exchange: Exchange) -> None:
    from scramp import (
        ScramClient,
        ScramException,
    )  # imported here: few clients use it, and it takes 2 MiB in each process

    client = ScramClient([login.mechanism], login.username, login.password)
    try:
        client.set_server_first((await exchange(client.get_client_first().encode())).decode())
        client.set_server_final((await exchange(client.get_client_final().encode())).decode())
    except (ScramException, UnicodeDecodeError):
        raise LoginError(
            f"{login.mechanism}: the broker's response does not belong to this user and password"
        ) from None


async def _oauth(login: Login, exchange: Exchange) -> None:
    assert login.tokens is not None
    token = await login.tokens.token()
    extensions = "".join(f"{_SEPARATOR}{key}={value}" for key, value in login.tokens.extensions().items())
    answer = await exchange(f"n,,{_SEPARATOR}auth=Bearer {token}{extensions}{_SEPARATOR * 2}".encode())
    if answer:  # a refusal in JSON; the broker sends its error code after the next message
        await exchange(_SEPARATOR.encode())
        raise LoginError("OAUTHBEARER: the broker refuses the token")


async def _gssapi(kerberos: Kerberos, host: str, exchange: Exchange) -> None:
    """Log in with a ticket (RFC 4752). A separate thread requests the ticket from the key distribution center."""
    from gssapi.exceptions import GSSError

    answer: bytes | None = None
    try:
        context = await asyncio.to_thread(_context, kerberos, host)
        while not context.complete:
            message = await asyncio.to_thread(context.step, answer)
            answer = await exchange(message or b"")
        layers = context.unwrap(answer).message
        if len(layers) != _LAYER_BYTES or not layers[0] & _NO_LAYER[0]:
            raise LoginError("GSSAPI: the broker wants every message wrapped, which Kafka does not do")
        await exchange(context.wrap(_NO_LAYER, False).message)
    except GSSError as error:
        raise LoginError(f"GSSAPI: {kerberos}: {_of_gss(error)}") from None


def _context(kerberos: Kerberos, host: str) -> Any:
    """Return a new security context. Tickets from a keytab stay in the memory of this process."""
    import gssapi

    keeper = {}
    if kerberos.keytab:
        keeper = {"client_keytab": kerberos.keytab, "ccache": f"MEMORY:{kerberos}"}
    elif kerberos.cache:
        keeper = {"ccache": kerberos.cache}
    who = gssapi.Name(kerberos.principal, gssapi.NameType.kerberos_principal) if kerberos.principal else None
    return gssapi.SecurityContext(
        name=gssapi.Name(f"{kerberos.service}@{host}", gssapi.NameType.hostbased_service),
        creds=gssapi.Credentials(name=who, usage="initiate", store=keeper or None),
        flags=[gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity],
        mech=gssapi.MechType.kerberos,
        usage="initiate",
    )


def _of_gss(error: Any) -> str:
    """Return the mechanism's own message on one line; it is more exact than GSSAPI's."""
    said = error.get_all_statuses(error.min_code, False) or error.get_all_statuses(error.maj_code, True)
    return " ".join("; ".join(said).split())
