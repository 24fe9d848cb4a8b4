"""Log in to a broker: the SASL exchanges, as messages from and to the broker. Nothing here logs or raises a secret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from scramp import ScramClient, ScramException

from mirror.config.sasl import Login
from mirror.kafka.errors import LoginError

Exchange = Callable[[bytes], Awaitable[bytes]]  # sends one message of the mechanism, and returns the broker's

_SEPARATOR = "\x01"  # of OAUTHBEARER (RFC 7628)


async def log_in(login: Login, exchange: Exchange) -> None:
    """Go through the messages of a mechanism.

    Args:
        login: Its mechanism is one that mirror.config.sasl accepts.
        exchange: Raises LoginError where the broker refuses.

    Raises:
        LoginError: the broker refuses, or does not prove that it knows the password (SCRAM).
        OSError: there is no token (mirror.config.oauth).
    """
    if login.mechanism.startswith("SCRAM"):
        await _scram(login, exchange)
    elif login.tokens is not None:
        await _oauth(login, exchange)
    else:
        await exchange(f"\0{login.username}\0{login.password}".encode())


async def _scram(login: Login, exchange: Exchange) -> None:
    client = ScramClient([login.mechanism], login.username, login.password)
    try:
        client.set_server_first((await exchange(client.get_client_first().encode())).decode())
        client.set_server_final((await exchange(client.get_client_final().encode())).decode())
    except (ScramException, UnicodeDecodeError):
        raise LoginError(f"{login.mechanism}: the broker's answer is not one to this user and password") from None


async def _oauth(login: Login, exchange: Exchange) -> None:
    assert login.tokens is not None
    token = await login.tokens.token()
    extensions = "".join(f"{_SEPARATOR}{key}={value}" for key, value in login.tokens.extensions().items())
    answer = await exchange(f"n,,{_SEPARATOR}auth=Bearer {token}{extensions}{_SEPARATOR * 2}".encode())
    if answer:  # a refusal in JSON; the broker waits for this to say so by its error code
        await exchange(_SEPARATOR.encode())
        raise LoginError("OAUTHBEARER: the broker refuses the token")
