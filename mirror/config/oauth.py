"""Get tokens for SASL/OAUTHBEARER from a token endpoint, or for Amazon MSK from AWS's signer."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from http.client import HTTPException
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

WITHIN_S = 10.0  # to connect, and again for each part of a response
AGAIN_S = 2.0  # pause after a refusal: frequent attempts could lock the client out
RENEWED_AT = 0.75  # fraction of a token's lifetime; librdkafka requests a new one at 0.8
SHORTEST_S = 60.0  # assumed lifetime of a token that has no expiry
LONGEST_S = 86_400.0
ANSWER_BYTES = 1 << 20
_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}[a-z0-9-]*-[0-9]+)\.amazonaws\.com(?:\.cn)?(?::[0-9]+)?$")
AWS_SESSION = "kafka-mirror"  # session name for an assumed role, if the file sets none


class NoToken(ConnectionError):
    """A token is not available. Both libraries retry, as if a broker did not respond."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and when it expires, epoch s."""

    value: str = field(repr=False)
    expires_s: float
    renew_s: float


class Tokens:
    """The tokens of one client; safe from any thread."""

    def __init__(self, asked: Callable[[], Token], extensions: Mapping[str, str] | None = None) -> None:
        """Create the source of one client's tokens.

        Args:
            asked: Requests a token; raises NoToken if it gets none.
            extensions: SASL extensions to send with each token.
        """
        self._asked = asked
        self._extensions = dict(extensions or {})
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._refused: NoToken | None = None
        self._ask_s = 0.0  # monotonic; no request before this time

    def current(self) -> Token:
        """Return a token that stays valid for a while; request one if necessary.

        Raises:
            NoToken: No token was issued.
        """
        with self._lock:
            now_s = time.time()
            if self._token is not None and now_s < self._token.renew_s:
                return self._token
            if self._refused is None or time.monotonic() >= self._ask_s:
                try:
                    self._token, self._refused = self._asked(), None
                except NoToken as error:
                    self._refused, self._ask_s = error, time.monotonic() + AGAIN_S
            if self._refused is None or (self._token is not None and now_s < self._token.expires_s):
                return cast(Token, self._token)
            raise NoToken(str(self._refused))

    async def token(self) -> str:
        """Return the text of a token for kafka-mirror's own client, without blocking the event loop."""
        return (await asyncio.to_thread(self.current)).value

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions to send with each token, for kafka-mirror's own client."""
        return dict(self._extensions)

    def for_librdkafka(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """Return token, expiry in epoch s, principal and extensions: confluent-kafka's `oauth_cb`."""
        token = self.current()
        return token.value, token.expires_s, "", dict(self._extensions)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The token endpoint of a client."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str

    def asked(self) -> Token:
        """Return a new token.

        Raises:
            NoToken: The endpoint did not respond, or refused.
        """
        asked_s = time.time()
        try:
            with _opener(self.url).open(self._request(), timeout=WITHIN_S) as answer:
                content = answer.read(ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            error.close()
            raise NoToken(f"no token from {self._where()}: HTTP status {error.code}") from None
        except OSError as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise NoToken(f"no token from {self._where()}: {str(reason) or type(reason).__name__}") from None
        except (HTTPException, ValueError) as error:  # the texts of these errors quote the request or the response
            raise NoToken(f"no token from {self._where()}: {type(error).__name__}") from None
        try:
            found = json.loads(content)
            value = _token(found)
            life_s = min(max(0.0, _life_s(found, value, asked_s)), LONGEST_S)
        except (ValueError, TypeError, KeyError):
            raise NoToken(f"no token from {self._where()}: its response has no token") from None
        return lasting(value, asked_s, life_s)

    def _request(self) -> urllib.request.Request:
        plain = f"{self.client_id}:{self.client_secret}"  # not URL-encoded: sasl.oauthbearer.header.urlencode is off
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        return urllib.request.Request(  # noqa: S310 - https, or http on loopback: mirror.config.sasl saw to it
            self.url,
            data=urlencode(form).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Basic {base64.b64encode(plain.encode()).decode()}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )

    def _where(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"  # without the rest, which may name a tenant


def lasting(value: str, begin_s: float, life_s: float) -> Token:
    """Return a token that is valid for `life_s` from `begin_s` (epoch s) on."""
    return Token(value, begin_s + life_s, begin_s + life_s * RENEWED_AT)


@cache
def tokens(url: str, client_id: str, client_secret: str, scope: str, extensions: tuple[tuple[str, str], ...]) -> Tokens:
    """Return the token source of a client; all its connections in this process share it."""
    return Tokens(Endpoint(url, client_id, client_secret, scope).asked, dict(extensions))


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the client's secret is only for the configured host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow no redirect; its status counts as a refusal."""


def _opener(url: str) -> urllib.request.OpenerDirector:
    is_plain = urlsplit(url).scheme == "http"  # only on this host, so without a proxy
    return urllib.request.build_opener(_StayHere, *([urllib.request.ProxyHandler({})] if is_plain else []))


def _token(answer: dict[str, Any]) -> str:
    """Return the token's text. A separator or newline in the token could inject fields into the request."""
    value = answer["access_token"]
    if not isinstance(value, str) or re.fullmatch(r"[!-~]+", value) is None:
        raise ValueError
    return value


def _life_s(answer: dict[str, Any], token: str, now_s: float) -> float:
    """Return the lifetime of a token: from the response, else from the token, else a minute."""
    if "expires_in" in answer:
        return float(answer["expires_in"])
    body = token.split(".")[1:2]
    try:
        return float(json.loads(base64.urlsafe_b64decode(body[0] + "=="))["exp"]) - now_s
    except (IndexError, KeyError, TypeError, ValueError):
        return SHORTEST_S


def region_of(bootstrap: Sequence[str]) -> str | None:
    """Return the AWS region in the brokers' names; None without one (custom DNS names)."""
    found = {match[1] for address in bootstrap if (match := _BROKER.search(address)) is not None}
    return found.pop() if len(found) == 1 else None


def default_region() -> str | None:
    """Return the AWS region from the environment or the AWS configuration files, None if unset."""
    import botocore.session

    region: str | None = botocore.session.Session().get_config_variable("region")
    return region


@cache
def aws_tokens(region: str, profile: str, role: str, session: str) -> Tokens:
    """Return the token source of an AWS identity, shared by its connections in this process.

    Args:
        region: AWS region of the cluster.
        profile: Profile in the AWS configuration files; "" for the default credentials, or for a role.
        role: ARN of a role to assume, "" for none.
        session: Name of the role's session, "" for the default.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

    sign = partial(Signer.generate_auth_token, region)
    if role:
        sign = partial(Signer.generate_auth_token_from_role_arn, region, role, session or AWS_SESSION)
    elif profile:
        sign = partial(Signer.generate_auth_token_from_profile, region, profile)
    return Tokens(partial(_signed, sign))


def _signed(sign: Callable[[], tuple[str, int]]) -> Token:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        value, ends_ms = sign()
    except AttributeError:  # the signer assumes that there are credentials
        raise NoToken("no token for Amazon MSK: AWS's credential chain has no credentials") from None
    except (BotoCoreError, ClientError, ValueError) as error:
        raise NoToken(f"no token for Amazon MSK: {' '.join(str(error).split())}") from None
    now_s = time.time()
    return lasting(value, now_s, max(0.0, ends_ms / 1000 - now_s))
